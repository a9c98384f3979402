"""Which products an engine may count for: those that ask for counts of cells, and say so themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts.errors import SpecRefused
from contracts.release.source import Source
from flows.request import read_request
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people

ROWS = "an engine gives counts alone"


def written(folder: Path, product: str, *, delta: str = "1e-9") -> Path:
    """A spec whose source an engine counts."""
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
def test_what_asks_for_counts_of_cells_is_counted_in_an_engine(tmp_path: Path, product: str) -> None:
    assert read_request(written(tmp_path, product)).spec.source.engine == "spark"


@pytest.mark.parametrize("table", ["{by: [sex], keys: private, of: [count]}", "{by: [since], of: [{distinct: sex}]}"])
def test_texts_that_nobody_declared_are_read_here_alone(tmp_path: Path, table: str) -> None:
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
def test_what_needs_more_is_refused_with_one_sentence_before_any_charge(
    tmp_path: Path, product: str, says: str
) -> None:
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
def test_an_engine_that_cannot_count_the_place_is_refused_by_name(tmp_path: Path, source: str, says: str) -> None:
    spec = written(tmp_path, "{kind: tables, mechanism: laplace, tables: [[age, sex]], refine: {method: none}}")
    spec.write_text(spec.read_text().replace("{path: people, files: parquet, engine: spark}", source))
    with pytest.raises(SpecRefused, match=re.escape(says)) as refused:
        read_request(spec)
    assert f"{spec}:3" in str(refused.value) or "spec.yaml:3" in str(refused.value)


def test_days_are_not_told_apart_in_an_engine() -> None:
    """An engine would count all rows, and one period's account would pay: refused, not understood as all rows."""
    with pytest.raises(ValidationError, match="`by` beside `engine`"):
        Source(path=Path("visits.parquet"), engine="spark", by="day")
