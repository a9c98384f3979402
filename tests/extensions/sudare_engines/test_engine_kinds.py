"""The engines that a spec may name: what they need here, their settings, and which places and products they count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contracts.plug_ins import names
from contracts.release.engine_kinds import GROUP, EngineKind, engine_kind
from contracts.release.source import Source
from sudare_engines import kinds
from sudare_engines.spark_settings import SparkSettings, spark_settings
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import said
from tests.extensions.sudare_engines.spark_releases import make_place
from tests.extensions.sudare_engines.test_engine_admission import written as write_spec


def settings_of(workspace: Workspace) -> SparkSettings | None:
    return spark_settings(workspace.root, workspace.values)


def test_the_engine_that_a_spec_may_name_is_registered() -> None:
    assert {name: engine_kind(name, EngineKind) for name in names(GROUP)} == {"spark": kinds.SPARK}


@pytest.mark.parametrize(
    ("master", "taken"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4, 2]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host.example:7077", False),
        ("sc://host.example:443", False),
        ("sc://host.example:443/;token=4711", False),
        ("yarn", False),
        ("k8s://https://host.example", False),
        ("local[2],spark://host.example:7077", False),
        ("local\n", False),
    ],
)
def test_a_spark_on_other_machines_is_refused_without_credentials(tmp_path: Path, master: str, taken: bool) -> None:
    """Keys that choose rows travel there, so that a secret is needed; a token in the address is not shown."""
    Workspace.create(tmp_path)
    file = tmp_path / "sudare.toml"
    written = master.replace("\n", "\\n")
    own = f'[spark]\npython = "spark/bin/python"\nmaster = "{written}"\n'
    file.write_text(f"{own}\n{file.read_text()}")
    if taken:
        spark = settings_of(Workspace.open(tmp_path))
        assert spark is not None
        assert spark.master == master
    else:
        with pytest.raises(
            WorkspaceRefused, match=r"spark\.(master|credentials)[\s\S]*SUDARE_|spark\.master"
        ) as refused:
            Workspace.open(tmp_path)
        assert "4711" not in str(refused.value)
        if master.startswith(("spark://", "sc://")) and ";" not in master:
            assert "spark.credentials" in str(refused.value)
            file.write_text(file.read_text().replace("[spark]", '[spark]\ncredentials = "far"'))
            settings = settings_of(Workspace.open(tmp_path))
            assert settings is not None
            assert settings.address[0] == "host.example"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec of the people, in a workspace that has their account."""
    place = make_place(tmp_path, Source(path=tmp_path / "people", files="parquet"))
    return write_spec(place.folder, "{kind: tables, mechanism: laplace, tables: [[sex]], total: noisy}")


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_spark_that_the_workspace_does_not_name_is_refused_and_nothing_is_charged(spec: Path, command: str) -> None:
    told = said(command, str(spec), "--workspace", str(spec.parent / "work"))
    assert told.code == 2, told.err
    assert "no `spark.python` in this workspace" in told.err
    assert "nothing was charged" in told.err


def test_an_engine_without_its_extra_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ibis", None)
    lacks = kinds.SPARK.missing(None)
    assert lacks is not None
    assert (lacks.found, lacks.remedy) == ("ibis is not installed here", 'pip install "sudare[engines]"')
