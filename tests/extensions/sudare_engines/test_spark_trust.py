"""What a session on other machines must say of itself, judged without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

from sudare_engines.spark import (
    BETWEEN_PROCESSES,
    ON_DISK,
    SECRET_VARIABLE,
    SparkWorker,
    refused_handshake,
    start_of,
    weaknesses,
)
from sudare_engines.spark_settings import SparkSettings
from tasks.storage.source_engine import EngineNotTrusted

SECRET = "not-for-anyone-4711"
CLUSTER = SparkSettings(Path("python"), "spark://host.example:7077", credentials="far", host="10.0.0.5")
CONNECT = SparkSettings(Path("python"), "sc://host.example:443", credentials="far")


def said(**changed: Any) -> dict[str, Any]:
    good = {**BETWEEN_PROCESSES, **ON_DISK}
    wanted = {"spark.sql.ansi.enabled": ["true", "true"]}
    told = {"master": "spark://host.example:7077", "session": good, "executors": [good], "wanted": wanted}
    return {**told, "strangers": [], **changed}


@pytest.mark.parametrize("settings", [CLUSTER, CONNECT])
@pytest.mark.parametrize("name", [*BETWEEN_PROCESSES, *ON_DISK])
def test_each_setting_that_is_weaker_is_refused_by_its_name(settings: SparkSettings, name: str):
    """Of the session, and of one of two executors; what is stored on disk is the driver's to say."""
    assert weaknesses(settings, said()) == []
    weak = {**BETWEEN_PROCESSES, **ON_DISK, name: "other"}
    [finding] = weaknesses(settings, said(session=weak))
    assert (finding.field, finding.found, finding.where) == (name, "other", settings.master)
    [finding] = weaknesses(settings, said(session={each: value for each, value in weak.items() if each != name}))
    assert (finding.field, finding.found) == (name, "nothing")
    found = weaknesses(settings, said(executors=[{**BETWEEN_PROCESSES, **ON_DISK}, weak]))
    assert [each.field for each in found] == ([name] if name in BETWEEN_PROCESSES else [])


def test_a_connect_server_of_one_process_needs_encrypted_disks_alone():
    """Nothing travels between processes of a local master; of any other master it does."""
    assert weaknesses(CONNECT, said(master="local[4]", session=ON_DISK, executors=[])) == []
    assert len(weaknesses(CONNECT, said(master="k8s://host.example", session=ON_DISK))) == len(BETWEEN_PROCESSES)
    assert len(weaknesses(CONNECT, said(master=None, session=ON_DISK))) == len(BETWEEN_PROCESSES)


def test_a_session_that_did_not_take_our_settings_and_one_that_lets_strangers_in_are_refused():
    [finding] = weaknesses(CONNECT, said(wanted={"spark.sql.redaction.string.regex": ["[0-9a-f]{64}", "x"]}))
    assert (finding.field, finding.found, finding.allowed) == (
        "spark.sql.redaction.string.regex",
        "x",
        "[0-9a-f]{64}",
    )
    for settings, field in ((CLUSTER, "spark.authenticate"), (CONNECT, "spark.connect.authenticate.token")):
        [finding] = weaknesses(settings, said(strangers=["with a wrong token"]))
        assert (finding.field, "lets in whoever comes with a wrong token" in finding.found) == (field, True)
        assert "nothing was charged" in str(refused_handshake(settings, []))


def test_the_secret_goes_to_java_in_its_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Not in a setting that Spark would take on its command line, or that passes between Python and Java."""
    monkeypatch.setenv("SUDARE_CREDENTIALS_FAR", json.dumps({"secret": SECRET}))
    start = start_of(CLUSTER, tmp_path)
    assert start.request["secret"] == SECRET
    assert [name for name, value in start.environment.items() if SECRET in value] == [SECRET_VARIABLE]
    assert SECRET not in str(start.request["settings"])
    assert start.request["settings"]["spark.driver.host"] == start.environment["SPARK_LOCAL_IP"] == "10.0.0.5"
    assert SECRET not in repr(start)
    assert start_of(SparkSettings(Path("python")), tmp_path).request.keys() == {"settings"}
    for secret in ("", "nul\0", "geheim\n", "ümlaut"):
        monkeypatch.setenv("SUDARE_CREDENTIALS_FAR", json.dumps({"secret": secret}))
        with pytest.raises(
            EngineNotTrusted, match=r"spark\.credentials\n    found: credentials 'far' .* `secret`"
        ) as raised:
            start_of(CLUSTER, tmp_path)
        assert not secret or secret.strip() not in str(raised.value)


@pytest.mark.services
def test_a_worker_whose_session_is_weak_is_ended_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A server that says something else than what was set: the worker is gone when the error is raised."""
    monkeypatch.setenv("SUDARE_CREDENTIALS_FAR", json.dumps({"secret": SECRET}))
    weak = said(session={**BETWEEN_PROCESSES, **ON_DISK, "spark.io.encryption.enabled": "false"})
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nread request\necho '{json.dumps({'answer': weak})}'\nread more && echo more >&2\n")
    python.chmod(0o755)
    settings = SparkSettings(python, CLUSTER.master, credentials="far")
    with pytest.raises(EngineNotTrusted, match=r"spark\.io\.encryption\.enabled\n    found: false"):
        SparkWorker(settings, tmp_path)
    assert "more" not in (tmp_path / "spark.private.log").read_text()
