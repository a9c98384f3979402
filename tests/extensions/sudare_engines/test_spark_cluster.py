"""Spark on other machines, really: a cluster of two workers and a Connect server behind TLS, on loopback.

`make test-spark` runs these and names the Python that has pyspark in SUDARE_SPARK_PYTHON; CI runs it.
"""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from secrets import token_bytes
from time import monotonic, sleep

import numpy as np
import pytest

from benchmarks._loopback import Heard, listening
from benchmarks._spark_cluster import SECURE, SparkProcesses, connect_server, standalone_cluster, tls_front
from benchmarks._spark_place import quick_java
from benchmarks._spark_traces import found_in, in_utf8, pages, send_on_loopback, written
from contracts.contract.contract import Contract
from contracts.errors import SourceUnreadable
from contracts.release.source import Source
from flows.prefect_runs.server import PrefectServer
from privacy.snapshots.snapshot import SnapshotCounts
from sudare_engines.spark import LOG, SparkWorker
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.stage import ingest_in_engine
from tasks.ingest import ingest
from tasks.storage.snapshot.snapshot import choice_keys
from tasks.storage.source_engine import EngineFailed, EngineNotTrusted
from tasks.validate import validate
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people
from tests.extensions.sudare_engines.spark_releases import Place, make_place
from tests.extensions.sudare_engines.statistics_rows import beside_of, exact
from tests.tasks.federation.certificates import loopback_certificates

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SECRET = "not-for-anyone-4711-0815"
KEY = token_bytes(32)
"""Of this run alone: other tests send the keys that follow from theirs on loopback."""
PYTHON = Path(os.environ.get("SUDARE_SPARK_PYTHON", ""))
PLACES = ("cluster", "connect")
CONTROL = "heard-where-it-passes"


@dataclass(frozen=True)
class Elsewhere:
    """A Spark on other machines: how it is reached, and its processes."""

    settings: SparkSettings
    processes: SparkProcesses


@pytest.fixture(scope="module", autouse=True)
def credentials() -> Iterator[None]:
    """The secrets by name, as an operator sets them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUDARE_CREDENTIALS_FAR", json.dumps({"secret": SECRET}))
        patch.setenv("SUDARE_CREDENTIALS_SERVER", json.dumps({"token": SECRET}))
        patch.setenv("SUDARE_CREDENTIALS_WRONG", json.dumps({"secret": SECRET + "x"}))
        patch.setenv("SUDARE_CREDENTIALS_WRONG_SERVER", json.dumps({"token": SECRET + "x"}))
        yield


def cluster_settings(cluster: SparkProcesses) -> SparkSettings:
    quick = quick_java(cluster.folder / "python", PYTHON, cluster.java)
    return SparkSettings(quick, f"spark://127.0.0.1:{cluster.port}", "512m", "far")


@pytest.fixture(scope="module")
def places(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Elsewhere]]:
    """A cluster of two workers, and a Connect server behind TLS."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "cluster").mkdir()
    (folder / "connect").mkdir()
    paths = loopback_certificates(folder)
    with ExitStack() as stack:
        cluster = stack.enter_context(standalone_cluster(folder / "cluster", PYTHON, secret=SECRET, java=java))
        server = stack.enter_context(connect_server(folder / "connect", PYTHON, token=SECRET, java=java))
        port = stack.enter_context(tls_front(server.port, certificate=paths.certificate, key=paths.key))
        connect = SparkSettings(PYTHON, f"sc://127.0.0.1:{port}", credentials="server", certificate=paths.authority)
        yield {"cluster": Elsewhere(cluster_settings(cluster), cluster), "connect": Elsewhere(connect, server)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return write_people(folder / "people")


@pytest.fixture(scope="module")
def contract(folder: Path) -> Contract:
    return people_contract(folder)


@pytest.mark.parametrize("where", PLACES)
def test_another_machine_counts_what_duckdb_counts_and_keeps_no_key_and_no_value_in_clear(
    places: dict[str, Elsewhere], where: str, tmp_path: Path, folder: Path, source: Source, contract: Contract
):
    """Total, columns, pairs, all columns and a sparse table, and all that statistics add up; outcomes of checks. The
    keys of the choice, ids of people, and the secret are looked for in logs, event logs, web pages and spilled files
    while the session lives, and on loopback. The keys stand nowhere; the secret stands in the operator's settings."""
    elsewhere, beside, heard = places[where], beside_of(contract), Heard()
    here = ingest(source, contract, folder=tmp_path / "here", key=KEY, memory_limit="256MB", lattices=beside)
    planted = [*choice_keys(KEY), *("ü7 ", "ü77", "ü123")]
    # The proxy that ends TLS speaks to the Connect server in clear, as it would on the server's own machine.
    listened = [CONTROL, *planted, SECRET] if where == "cluster" else [CONTROL]
    stack = ExitStack()
    stack.enter_context(listening(in_utf8(listened), heard))
    table = ingest_in_engine(
        source, contract, folder=tmp_path / "run", key=KEY, settings=elsewhere.settings, beside=beside
    )
    assert table.engine is not None
    try:
        for (name, one), (_, other) in zip(exact(here, contract), exact(table, contract), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
        send_on_loopback(CONTROL)
        stack.close()
        assert heard.values == {CONTROL}
        assert heard.searched > 10**6
        names = [column.name for column in contract.columns]
        cliques = [(), *((name,) for name in names), *combinations(names, 2), tuple(names)]
        ours, theirs = SnapshotCounts(here, contract), SnapshotCounts(table, contract)
        for one, other in zip(ours.marginals(cliques), theirs.marginals(cliques), strict=True):
            np.testing.assert_array_equal(one._count(), other._count())
        for one, other in zip(ours.sparse(tuple(names))._count(), theirs.sparse(tuple(names))._count(), strict=True):
            np.testing.assert_array_equal(one, other)
        assert validate(table, contract, folder=tmp_path / "run") == validate(here, contract, folder=tmp_path)
        processes, stage = elsewhere.processes, "snapshot.stage"  # whose codes are what is counted
        looked = {**written(processes.folder), **pages(processes), **written(tmp_path / "run", but=stage)}
    finally:
        stack.close()
        table.engine.close()
    assert len(looked) > 8
    assert where == "cluster" or sum("/SQL/execution/" in place for place in looked) > 5
    assert any(b"sudare" in text for text in looked.values())
    assert not found_in(looked, in_utf8(planted))
    own = found_in(looked, in_utf8([SECRET])).get(SECRET, [])
    assert all(name.endswith(".conf") for name in own), own
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.stat().st_mode & 0o077]


@pytest.mark.parametrize(
    ("weaker", "says"),
    [
        ({"spark.authenticate": "false"}, "spark.authenticate\n    found: a master that answers without a secret"),
        ({"spark.network.crypto.enabled": "false"}, "spark.network.crypto.enabled true"),
        ({"spark.network.crypto.cipher": "AES/CTR/NoPadding"}, "spark.network.crypto.cipher AES/GCM/NoPadding"),
    ],
)
def test_a_master_with_less_than_that_gets_nothing(tmp_path: Path, java: str, weaker: dict[str, str], says: str):
    """Without authentication, without encryption, and with a cipher that nothing vouches for."""
    (tmp_path / "spark").mkdir()
    (tmp_path / "run").mkdir()
    settings = {**SECURE, **weaker}
    with standalone_cluster(
        tmp_path / "spark", PYTHON, secret=SECRET, workers=0, settings=settings, java=java
    ) as cluster:
        with pytest.raises(EngineNotTrusted, match=re.escape(says)) as raised:
            SparkWorker(cluster_settings(cluster), tmp_path / "run")
        assert "nothing was charged" in str(raised.value)
        assert "Registered app" not in cluster.log("master")
    assert SECRET not in (tmp_path / "run" / LOG).read_text()


def test_a_wrong_secret_is_turned_away_and_one_that_is_missing_is_named(places: dict[str, Elsewhere], tmp_path: Path):
    """By the handshake with the cluster, and by the Connect server; what is said names the setting."""
    for where, name, setting in (
        ("cluster", "wrong", "spark.authenticate.secret"),
        ("connect", "wrong-server", "spark.connect.authenticate.token"),
    ):
        with pytest.raises(EngineNotTrusted, match=setting):
            SparkWorker(replace(places[where].settings, credentials=name), tmp_path)
        with pytest.raises(SourceUnreadable, match="no credentials named 'none'"):
            SparkWorker(replace(places[where].settings, credentials="none"), tmp_path)


def test_a_connect_server_needs_tls_of_the_authority_that_is_named(places: dict[str, Elsewhere], tmp_path: Path):
    """A certificate of another authority, a server that speaks no TLS, a host of another name, nobody there."""
    server, settings = places["connect"].processes, places["connect"].settings
    other = loopback_certificates(tmp_path)
    with pytest.raises(EngineNotTrusted, match=r"spark\.certificate\n    found: a certificate that is not trusted"):
        SparkWorker(replace(settings, certificate=other.authority), tmp_path)
    with pytest.raises(EngineNotTrusted, match="does not speak TLS"):
        SparkWorker(replace(settings, master=f"sc://127.0.0.1:{server.port}"), tmp_path)
    with pytest.raises(EngineNotTrusted, match=r"spark\.certificate\n    found: a certificate that is not trusted"):
        SparkWorker(replace(settings, master=settings.master.replace("127.0.0.1", "localhost")), tmp_path)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(EngineNotTrusted, match="start the server, then run again"):
            SparkWorker(replace(settings, master=f"sc://127.0.0.1:{nobody.getsockname()[1]}"), tmp_path)


def test_a_connect_server_that_spills_in_clear_is_refused_by_the_setting(tmp_path: Path, java: str):
    """The session says so, whatever is written elsewhere; and so is one that lets in who comes with any token."""
    (tmp_path / "spark").mkdir()
    (tmp_path / "run").mkdir()
    paths = loopback_certificates(tmp_path)
    with (
        connect_server(
            tmp_path / "spark", PYTHON, token=None, settings={"spark.master": "local[1]"}, java=java
        ) as server,
        tls_front(server.port, certificate=paths.certificate, key=paths.key) as port,
    ):
        settings = SparkSettings(PYTHON, f"sc://127.0.0.1:{port}", credentials="server", certificate=paths.authority)
        with pytest.raises(EngineNotTrusted) as raised:
            SparkWorker(settings, tmp_path / "run")
    assert "spark.io.encryption.enabled\n    found: nothing\n    allowed: true" in str(raised.value)
    assert "spark.connect.authenticate.token\n    found: a session that lets in whoever comes" in str(raised.value)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, source: Source, prefect_server: PrefectServer) -> Place:
    return make_place(tmp_path_factory.mktemp("release"), source)


@pytest.mark.parametrize(("where", "product"), [("cluster", "aim"), ("connect", "tables")])
def test_a_release_counted_elsewhere_is_published_and_verifies(
    places: dict[str, Elsewhere], release: Place, where: str, product: str
):
    """From the spec to a version that a stranger verifies, charged once.

    The same command again finds it, which one of the two shows.
    """
    release.engine(places[where].settings)
    told = release.run(product, name=f"{product}-{where}")
    assert (told["version"], told["repeated"]) == (1, False)
    release.verify(told["folder"])
    if product == "tables":
        assert release.run(product, name=f"{product}-{where}")["repeated"]
    assert not release.left_behind()


def test_processes_that_are_killed_while_they_count_cost_no_draw(
    tmp_path: Path, source: Source, contract: Contract, java: str
):
    """A driver that dies stops the run before a draw, and the next run makes the same stage.

    A worker that dies leaves the counts whole, and so does the master after it.
    """
    (tmp_path / "spark").mkdir()
    with standalone_cluster(tmp_path / "spark", PYTHON, secret=SECRET, java=java) as cluster:
        settings = cluster_settings(cluster)
        table = ingest_in_engine(source, contract, folder=tmp_path / "run", key=KEY, settings=settings)
        engine, asked = table.engine, [(contract.columns[0].name,)]
        assert engine is not None
        before = engine.counted_cells(asked)
        os.killpg(engine._worker._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        with pytest.raises(EngineFailed, match="the process ended"):
            engine.counted_cells(asked)
        engine.close()
        until = monotonic() + 60
        while "Removing app" not in cluster.log("master") and monotonic() < until:
            sleep(0.2)
        again = ingest_in_engine(source, contract, folder=tmp_path / "run", key=KEY, settings=settings)
        assert again.keyed_hash == table.keyed_hash
        assert again.engine is not None
        for victim in ("worker1", "master"):
            cluster.kill(victim)
            counted = again.engine.counted_cells(asked)
            assert [each.tolist() for each in counted[0]] == [each.tolist() for each in before[0]], victim
        again.engine.close()
