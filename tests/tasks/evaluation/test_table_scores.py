"""Published tables against real rows: exact counts have no error, and one row too many has that of one row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts.release.tables.levels import Level, table_cells
from contracts.release.tables.tables import TablesProduct
from privacy.marginals.counts import coarsening, sum_up
from tasks.evaluation.errors import evaluate_tables
from tasks.records.files.tidy_tables import Tidy
from tasks.verification.table_meaning import Meaning
from tests.tasks.intake import make_contract, take_in, write_csv

AGES = ["3", "17", "17", "42", "42", "42", "95", ""]
SEXES = ["F", "M", "M", "F", "M", "", "F", "M"]


@pytest.mark.parametrize(
    "asked", [{}, {"bins": {"age": "0..99 at 20, 60", "sex": {"known": ["F", "M"], "not": ["(null)"]}}}]
)
@pytest.mark.parametrize("more", [0, 1])
def test_exact_counts_have_no_error(tmp_path: Path, asked: dict[str, object], more: int) -> None:
    """In the contract's cells, and in coarser ones; labels and columns beside them are read by name."""
    contract = make_contract(tmp_path)
    rows = (f"{age},{sex},10,2021-03-01" for age, sex in zip(AGES, SEXES, strict=True))
    table = take_in(write_csv(tmp_path, *rows), contract, tmp_path)
    tables = [{"columns": ["age", "sex"], "name": "t", **asked}]
    meaning = Meaning(
        contract, TablesProduct.model_validate({"kind": "tables", "mechanism": "laplace", "tables": tables})
    )
    counts = np.zeros(contract.shape(("age", "sex")), dtype=np.int64)
    for age, sex in zip(AGES, SEXES, strict=True):
        counts[10 if age == "" else int(age) // 10, ["F", "M", ""].index(sex)] += 1
    cells = table_cells(meaning.tables[0], contract)
    exact = sum_up(coarsening(cells), counts) if isinstance(cells, Level) else counts
    made = exact.copy()
    made[0, 0] += more
    values = {"count": made, "lower": made - 1, "upper": made + 1}
    tidy = Tidy(cells, ("age", "sex"), values, beside=cells.beside(("age", "sex")))
    tidy.write(tmp_path / "v1", "data/t.parquet", draw="", marks={})
    found = evaluate_tables(table, tmp_path / "v1", meaning, memory_limit="256MB").tables["t"]
    assert (found.cells, found.largest, found.covered) == (exact.size, float(more), 1.0)
    assert found.mean_absolute == pytest.approx(more / exact.size)
