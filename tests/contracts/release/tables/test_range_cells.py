"""Rows of tables with queries: which ranges there are, how they are named, and what is added up in each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts.contract.odcs import load_contract
from contracts.release.tables.levels import table_cells
from contracts.release.tables.range_cells import RangeCells, apart_problems, query_problems, ranges_of
from contracts.release.tables.tables import TableSpec
from tests.worlds.hierarchies import nested

PEOPLE = nested().contract


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    path: Path = tmp_path_factory.mktemp("c") / "c.yaml"
    path.write_text(PEOPLE)
    return load_contract(path)


def table(**written: object) -> TableSpec:
    return TableSpec.model_validate(written)


def test_ranges_of_each_kind() -> None:
    """Prefixes end at each cell, ranges are all, blocks double and end at the last cell, each once."""
    assert ranges_of("prefix", 3) == ((0, 0), (0, 1), (0, 2))
    assert len(ranges_of("range", 7)) == len(set(ranges_of("range", 7))) == 28
    assert ranges_of("hierarchy", 5) == (*((n, n) for n in range(5)), (0, 1), (2, 3), (0, 3), (0, 4))
    assert ranges_of("identity", 2) == ((0, 0), (1, 1))
    for cells in range(2, 40):
        found = ranges_of("hierarchy", cells)
        assert len(found) == len(set(found))
        assert (0, cells - 1) in found


def test_rows_are_named_by_their_ends_and_missing_values_stay_apart(contract) -> None:  # type: ignore[no-untyped-def]
    """Of months by their first and last label; the cell of missing values is in no range of others."""
    cells = table_cells(table(columns=["sex", "moved"], queries={"moved": "prefix"}), contract)
    assert isinstance(cells, RangeCells)
    labels = cells.column("moved").labels
    months = contract.column("moved").labels
    assert labels[0] == months[0]
    assert labels[2] == f"{months[0]} to {months[2]}"
    assert labels[-1] == "(null)"
    assert cells.column("moved").groups[-1] == (len(months) - 1,)
    assert len(labels) == len(set(labels)) == len(months)
    assert cells.shape(("sex", "moved")) == (contract.column("sex").size, len(months))


def test_counts_are_added_up_range_by_range(contract) -> None:  # type: ignore[no-untyped-def]
    """Against sums by hand, and an impossible row is one whose cells are all impossible."""
    cells = table_cells(table(columns=["moved", "sex"], queries={"moved": "range"}), contract)
    assert isinstance(cells, RangeCells)
    counts = np.random.default_rng(1).integers(0, 50, contract.shape(("moved", "sex")))
    found = cells.added_up(counts)
    for row, (first, last) in enumerate(cells.column("moved").ranges):
        assert (found[row] == counts[first : last + 1].sum(axis=0)).all()
    assert not cells.impossible(("moved", "sex")).any()
    assert cells.ordered_axes(("moved", "sex")) == ()


def test_a_table_is_named_after_its_columns_and_queries() -> None:
    """A word alone is for the one column of a table."""
    assert table(columns=["sex", "age"], queries={"age": "prefix"}).name == "sex_x_age_prefix"
    alone = table(columns=["age"], queries="hierarchy")
    assert (alone.name, alone.queries[0].words) == ("age_hierarchy", "age: hierarchy")


def test_what_does_not_fit_the_contract_is_named(contract) -> None:  # type: ignore[no-untyped-def]
    """No order, too many cells together, and columns that no table has together."""
    [problem] = query_problems(table(columns=["sex"], queries="prefix"), contract)
    assert "no order" in problem.found
    apart = [table(columns=["moved"], queries="prefix"), table(columns=["row"], queries="prefix")]
    [problem] = apart_problems(apart)
    assert "moved and over row" in problem.found
    assert apart_problems([*apart, table(columns=["moved", "row"], queries={"moved": "prefix"})]) == []
    assert apart_problems(apart[:1]) == []
