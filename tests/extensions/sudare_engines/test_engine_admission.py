"""The engines that a spec may name, what they need here, and which products they count for."""

import re
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts.errors import SpecRefused
from contracts.plug_ins import names
from contracts.release.engine_kinds import GROUP, EngineKind, engine_kind
from contracts.release.source import Source
from flows.request import read_request
from sudare_engines import kinds
from sudare_engines.spark_settings import SparkSettings, spark_settings
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import said
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people
from tests.extensions.sudare_engines.spark_releases import make_place

ROWS = "an engine gives counts alone"


def written(folder: Path, product: str, *, delta: str = "1e-9") -> Path:
    write_people(folder / "people", rows=10)
    people_contract(folder)
    spec = folder / "spec.yaml"
    spec.write_text(
        "release: people\ncontract: people.odcs.yaml\nsource: {path: people, files: parquet, engine: spark}\n"
        f"charge: {{account: town, epsilon: 1, delta: {delta}}}\nproduct: {product}\npublish: {{to: releases}}\n"
    )
    return spec


@pytest.mark.parametrize(
    "product",
    [
        "{kind: tables, mechanism: laplace, tables: [[age, sex]], refine: {method: none}}",
        "{kind: statistics, tables: [{by: [sex], of: [count]}]}",
        "{kind: synthetic, generator: mst, inside_bins: {share: 0.2, columns: [wage]}}",
        *(f"{{kind: synthetic, generator: {name}}}" for name in ("aim", "mst", "privbayes", "independent")),
    ],
)
def test_what_asks_for_counts_of_cells_is_counted_in_an_engine(tmp_path: Path, product: str):
    assert read_request(written(tmp_path, product)).spec.source.engine == "spark"


@pytest.mark.parametrize("table", ["{by: [sex], keys: private, of: [count]}", "{by: [since], of: [{distinct: sex}]}"])
def test_texts_that_nobody_declared_are_read_here_alone(tmp_path: Path, table: str):
    """A selection of keys needs the texts themselves, which no engine sends."""
    spec = written(tmp_path, f"{{kind: statistics, tables: [{table}]}}")
    contract = tmp_path / "people.odcs.yaml"
    contract.write_text(
        contract.read_text().replace("kind: categories", "kind: text").replace("values: [F, M]", "max_bytes: 9")
    )
    with pytest.raises(SpecRefused, match="more than counts and sums of cells"):
        read_request(spec)


@pytest.mark.parametrize(
    ("product", "says"),
    [
        ("{kind: synthetic, generator: private_evolution, options: {label: sex}}", ROWS),
        ("{kind: classifier, trainer: dp_sgd, label: sex}", f"dp_sgd, which learns from rows: {ROWS}"),
        ("{kind: synthetic, generator: none_such}", "no generator 'none_such'"),
    ],
)
def test_what_needs_more_is_refused_with_one_sentence_before_any_charge(tmp_path: Path, product: str, says: str):
    with pytest.raises(SpecRefused, match=re.escape(says)) as refused:
        read_request(written(tmp_path, product))
    assert len(refused.value.findings) == 1


SERVED = "{path: 'postgresql://db.example/town', table: people, engine: %s}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (SERVED % "spark", "`engine` for postgresql\n    allowed: `engine` for Parquet files"),
        (SERVED % "oracle", "allowed: one of spark"),
        ("{path: people.csv, engine: spark}", "`engine` for csv\n    allowed: `engine` for Parquet files"),
        ("{path: people, files: parquet, select: SELECT * FROM source, engine: spark}", "`select` beside `engine`"),
    ],
)
def test_an_engine_that_cannot_count_the_place_is_refused_by_name(tmp_path: Path, source: str, says: str):
    spec = written(tmp_path, "{kind: tables, mechanism: laplace, tables: [[age, sex]], refine: {method: none}}")
    spec.write_text(spec.read_text().replace("{path: people, files: parquet, engine: spark}", source))
    with pytest.raises(SpecRefused, match=re.escape(says)) as refused:
        read_request(spec)
    assert f"{spec}:3" in str(refused.value) or "spec.yaml:3" in str(refused.value)


def test_days_are_not_told_apart_in_an_engine():
    """An engine would count all rows, and one period's account would pay: refused, not understood as all rows."""
    with pytest.raises(ValidationError, match="`by` beside `engine`"):
        Source(path=Path("visits.parquet"), engine="spark", by="day")


def settings_of(workspace: Workspace) -> SparkSettings | None:
    return spark_settings(workspace.root, workspace.values)


def test_the_engine_that_a_spec_may_name_is_registered():
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
def test_a_spark_on_other_machines_is_refused_without_credentials(tmp_path: Path, master: str, taken: bool):
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
    place = make_place(tmp_path, Source(path=tmp_path / "people", files="parquet"))
    return written(place.folder, "{kind: tables, mechanism: laplace, tables: [[sex]], total: noisy}")


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_spark_that_the_workspace_does_not_name_is_refused_and_nothing_is_charged(spec: Path, command: str):
    told = said(command, str(spec), "--workspace", str(spec.parent / "work"))
    assert told.code == 2, told.err
    assert "no `spark.python` in this workspace" in told.err
    assert "nothing was charged" in told.err


def test_an_engine_without_its_extra_says_which(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ibis", None)
    lacks = kinds.SPARK.missing(None)
    assert lacks is not None
    assert (lacks.found, lacks.remedy) == ("ibis is not installed here", 'pip install "sudare[engines]"')
