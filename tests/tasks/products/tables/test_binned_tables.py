"""Tables with bins of their own: single years in one and decades in another, verified, and forged in vain."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from contracts.release.spec_checks import check_spec
from contracts.release.tables.levels import table_cells
from privacy.marginals.counts import coarsening, sum_up
from privacy.table_plans.plan import plan_tables
from tests.tasks.verification.forgery import forge, load
from tests.worlds.hierarchies import hierarchical
from tests.worlds.tables import HIRED, SCHOOLED, SEX, TRADE, WAGE, WORKER, Scenario, first, property_yaml, second
from tests.worlds.versions import Version, Worlds, broken, named

YEARS = property_yaml(
    "age",
    "integer",
    "{kind: integer, bounds: [0, 99], bins: {width: 1}, nulls: {policy: category}, provenance: {kind: declared}}",
)
TABLES = """[{columns: [age], name: years},
  {columns: [age, sex], name: decades, bins: {age: 0..99 by 10}},
  {columns: [age], name: ages, bins: {age: "0..99 at 18, 65"}},
  {columns: [wage, hired], bins: {wage: 0..50 at 20, hired: year}},
  {columns: [trade, sex], bins: {trade: {builder: [mason, painter], other: [other trade, (null)]}}}]"""
PRODUCT = f"{{kind: tables, mechanism: laplace, tables: {TABLES}, refine: {{method: METHOD}}}}"
ZEROS = "{age: ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'], sex: [male]}, {age: ['10', '11'], sex: [female]}"
"""All of a decade is impossible for one sex, of another decade two years for the other."""


def scenario(method: str = "simplex", product: str = PRODUCT, base: Any = first) -> Scenario:
    made = hierarchical(
        (WORKER if base is second else "") + YEARS + SEX + WAGE + HIRED + TRADE + SCHOOLED,
        product.replace("METHOD", method),
        base(),
        ZEROS,
    )
    begin = made.spec.index("formats: ")
    rest = made.spec[made.spec.index("}\n", begin) :]
    return replace(made, spec=f"{made.spec[:begin]}formats: [parquet, csv], labels: columns{rest}")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(scenario())


def table(version: Version, name: str) -> pl.DataFrame:
    found = pl.from_arrow(pq.read_table(version.folder / f"data/{name}.parquet"))
    assert isinstance(found, pl.DataFrame)
    return found


def refused(tmp_path: Path, tables: str, more: str = "") -> list[str]:
    made = scenario(product=f"{{kind: tables, mechanism: laplace, tables: {tables}{more}}}")
    try:
        found = check_spec(*made.written(tmp_path))
    except SpecRefused as error:
        found = list(error.findings)
    return [f"{each.field}: {each.found}; {each.allowed}; {each.remedy}" for each in found]


def test_each_table_has_the_cells_that_it_asks_for(published: Version):
    """Labels, their order and ends are those of the coarser cells; missing values stay by themselves."""
    decades = table(published, "decades")
    ages = decades.unique(["age"]).sort("age_order").select("age", "age_lower", "age_upper").rows()
    assert ages[:2] + ages[-2:] == [
        ("0 to 9", 0, 9),
        ("10 to 19", 10, 19),
        ("90 to 99", 90, 99),
        ("(null)", None, None),
    ]
    assert table(published, "years").height == 101
    assert table(published, "ages")["age"].to_list() == ["0 to 17", "18 to 64", "65 to 99", "(null)"]
    pay = table(published, "wage_x_hired")
    assert pay["wage"].unique(maintain_order=True).to_list() == ["[0, 20)", "[20, 50]", "(null)"]
    assert pay["hired"].unique(maintain_order=True).to_list() == ["2020", "2021"]
    trades = table(published, "trade_x_sex").unique(["trade"]).sort("trade_order")
    assert trades.select("trade", "trade_code").rows() == [("builder", "m|p"), ("other", None)]


RULE = "none}, minimum_frequency: {k: 10, t: 5"


@pytest.mark.long
@pytest.mark.parametrize("method", ["simplex", "none", "auto", "negative_l2, lambda: auto", RULE, "gaussian"])
def test_verify_makes_them_again(worlds: Worlds, method: str):
    """By every way of refining, with suppressed cells, and with Gaussian noise whose tables share by size."""
    if method == "gaussian":
        product = PRODUCT.replace("laplace", "gaussian, split: optimal").replace("METHOD", "simplex")
        version = worlds.published(scenario(product=product, base=second))
    else:
        version = worlds.published(scenario(method))
    version.assert_verifies()
    page = (version.folder / "record.html").read_text()
    assert "<dt>Bins of its own</dt><dd>age: 0..99 by 10</dd>" in page
    assert "<dd>wage: 0..50 at 20; hired: year</dd>" in page
    assert "0 to 9" in page


def test_a_coarser_cell_is_impossible_only_where_all_its_cells_are(published: Version):
    rows = {
        (row["age"], row["sex"]): row
        for row in pl.read_parquet(published.folder / "measurements/decades.parquet").to_dicts()
    }
    assert [
        rows[age, sex]["structural_zero"]
        for age, sex in (("0 to 9", "male"), ("0 to 9", "female"), ("10 to 19", "female"))
    ] == [True, False, False]
    counts = {(row["age"], row["sex"]): row["count"] for row in table(published, "decades").to_dicts()}
    assert counts["0 to 9", "male"] == 0
    assert counts["10 to 19", "female"] > 0


def test_sensitivity_and_noise_are_those_of_any_marginal(tmp_path: Path):
    """A row falls in one coarser cell: adding cells changes no draw's moves, and each sum is that of its cells."""
    made = scenario()
    spec, contract = made.written(tmp_path)
    plan = plan_tables(spec, contract)
    assert [draw.cells for draw in plan.draws] == [101, 11 * 3, 4, 3 * 2, 2 * 3]
    whole = load_spec(write_without_bins(tmp_path))
    assert [draw.event for draw in plan.draws] == [draw.event for draw in plan_tables(whole, contract).draws]
    level = table_cells(spec.tables_product.tables[1], contract)  # type: ignore[arg-type]
    counts = np.random.default_rng(3).integers(0, 50, contract.shape(("age", "sex")))
    summed = sum_up(coarsening(level), counts)  # type: ignore[arg-type]
    assert (summed[0] == counts[:10].sum(axis=0)).all()
    assert (summed[-1] == counts[-1]).all()
    for row in range(counts.shape[0]):  # one row more is one more in one coarser cell
        more = counts.copy()
        more[row, 1] += 1
        changed = sum_up(coarsening(level), more) - summed  # type: ignore[arg-type]
        assert (changed.sum(), np.abs(changed).max()) == (1, 1)


def write_without_bins(folder: Path) -> Path:
    """The same tables in the contract's cells; columns that are then the same set stand with another one."""
    product = """[[age], [age, sex], [wage], [wage, hired], [trade, sex]]"""
    path = folder / "whole.yaml"
    path.write_text(scenario(product=PRODUCT.replace(TABLES, product)).spec)
    return path


def as_bins(bins: Any) -> Any:
    def change(record: Any) -> None:
        record["replay"]["product"]["tables"][1]["bins"] = bins

    return change


@pytest.mark.parametrize(
    "bins",
    [
        [{"column": "age", "written": "0..99 by 20", "level": None}],
        [{"column": "age", "written": "0..99 at 9, 20, 30, 40, 50, 60, 70, 80, 90", "level": None}],
        [{"column": "age", "written": "0..99 by 7.5", "level": None}],
        [{"column": "wage", "written": "0..99 by 10", "level": None}],
        [{"column": "age", "written": None, "level": None}],
        [{"column": "age", "written": "0..99 by 10", "level": {"name": "bins", "groups": [["all", ["0"]]]}}],
        [],
    ],
)
def test_a_record_of_other_bins_is_found(published: Version, tmp_path: Path, bins: Any):
    """Other groups of as many cells, fewer cells, bins that cut a cell, another column, none."""
    version = forge(published.copy(tmp_path / "v"), record=as_bins(bins))
    report = version.verify()
    assert not report.ok
    assert "record.json" in named(report)


def test_a_forged_count_and_label_are_found(published: Version, tmp_path: Path):
    for place, (before, after) in enumerate(((b"10 to 19,", b"10 to 18,"), (b"65 to 99,", b"65 to 98,"))):
        version = published.copy(tmp_path / f"v{place}")
        path = version.folder / ("data/decades.csv" if place == 0 else "data/ages.csv")
        content = path.read_bytes()
        assert before in content
        path.write_bytes(content.replace(before, after, 1))
        report = forge(version).verify()
        assert (broken(report), named(report)) == ({9}, {f"data/{path.name}"})


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            "[{columns: [age], bins: {age: 0..98 by 10}}]",
            "bins from 0 to 98; bins from 0 to 99, the contract's bounds",
        ),
        ("[{columns: [schooled], bins: {schooled: 0..30 by 4}}]", "a bin from 4, which cuts the contract's '0 to 4'"),
        ("[{columns: [wage], bins: {wage: 0..50 at 15}}]", "a bin from 15, which cuts the contract's '[12.5, 20)'"),
        ("[{columns: [age], bins: {age: 0..99 by 1}}]", "101 cells for the 101 of column age; fewer cells"),
        ('[{columns: [age], bins: {age: "0..99 at 40, 20"}}]', "20 after 40"),
        ('[{columns: [age], bins: {age: "0..99 at 40, 40"}}]', "40 after 40"),
        ("[{columns: [age], bins: {age: 0..99 by 0}}]", "a width above zero"),
        ("[{columns: [age], bins: {age: 0..99 at 20, 40}}]", "put quotes around bins that have a comma"),
        ("[{columns: [age], bins: {age: ten}}]", "ten"),
        ("[{columns: [age], bins: {age: 0..99}}]", "bounds and their bins"),
        ("[{columns: [age], bins: {age: month}}]", "month"),
        ("[{columns: [sex], bins: {sex: 0..99 by 10}}]", "holds no numbers or days"),
        ("[{columns: [hired], bins: {hired: week}}]", "week"),
        ("[{columns: [age], bins: {ages: 0..99 by 10}}]", "the column 'ages'; one of age"),
        ("[{columns: [sex], bins: {age: 0..99 by 10}}]", "the column 'age'; one of sex"),
        ("[{columns: [age], bins: {}}]", "a mapping of column: bins"),
        ("[{columns: [age], bins: [age]}]", "bins"),
        ("[{columns: [sex], bins: {sex: {all: [female, male]}}}]", "no group has the label '(null)'"),
        ("[{columns: [sex], bins: {sex: {a: [female, male], b: [male, (null)]}}}]", "the label 'male' again"),
        ("[{columns: [sex], bins: {sex: {a: [woman, male], b: [(null)]}}}]", "the label 'woman'"),
        ("[{columns: [sex], bins: {sex: {a: [], b: [female, male, (null)]}}}]", "no label"),
        ("[{columns: [sex], bins: {sex: {=1+1: [female], b: [male, (null)]}}}]", "names that are no formulas"),
        ("[{columns: [sex], bins: {sex: {a;=1: [female], b: [male, (null)]}}}]", "names that are no formulas"),
        ("[{columns: [sex], bins: {sex: {(null): [female], b: [male, (null)]}}}]", "a group (null) of others"),
        ("[{columns: [age], bins: {age: 0..99 by 10}, form: sparse}]", "bins beside form: sparse"),
        ("[{columns: [hired], hierarchy: {hired: [year]}, bins: {hired: year}}]", "bins beside a hierarchy"),
        (
            "[{columns: [age], bins: {age: 0..99 by 10}}, {columns: [age], name: x, bins: {age: 0..99 by 10}}]",
            "again",
        ),
        ("[[age], {columns: [age], bins: {age: 0..99 by 10}}]", "the name 'age' again"),
    ],
)
def test_bins_that_do_not_fit_are_refused_with_words(tmp_path: Path, tables: str, words: str):
    made = refused(tmp_path, tables)
    assert made
    assert any(words in each for each in made), made


def test_consistent_tables_have_no_bins_of_their_own(tmp_path: Path):
    """Margins of other cells cannot agree."""
    more = ", refine: {method: simplex, consistent: true}"
    (found,) = refused(tmp_path, "[[sex], {columns: [age], bins: {age: 0..99 by 10}}]", more)
    assert "bins in a release with `consistent: true`" in found


def test_old_specs_are_written_as_they_were(worlds: Worlds):
    """A table without bins has no such key in its record, and so keeps its digests."""
    tables: Sequence[dict[str, Any]] = load(worlds.published(first()).folder / "record.json")["replay"]["product"][
        "tables"
    ]
    assert all("bins" not in each for each in tables)
    assert re.search("bins", str(load(worlds.published(scenario()).folder / "record.json")["replay"]["product"]))
