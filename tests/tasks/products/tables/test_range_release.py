"""Tables that ask ranges of ordered columns: published, verified under both relations, and forged in vain."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.errors import SpecRefused
from contracts.release.spec_checks import check_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.queries.strategies import noisy_strategies
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.count_noise import variance
from privacy.marginals.residual_basis import squares_of
from privacy.noise.random_bytes import SecureBytes
from privacy.table_plans.plan import plan_tables
from privacy.table_plans.range_plan import RangePlan
from tests.tasks.verification.forgeries import event
from tests.tasks.verification.forgery import assert_caught, forge, load, set_cell
from tests.worlds.hierarchies import hierarchical
from tests.worlds.tables import AGE, HIRED, SCHOOLED, SEX, TRADE, WAGE, WORKER, Scenario, first, second
from tests.worlds.versions import Version, Worlds

TABLES = (
    "{columns: [sex, age], queries: {age: prefix}}, {columns: [age], queries: range, weight: 3}, [sex, trade], "
    "{columns: [age, trade], name: plain}"
)
PRODUCT = f"{{kind: tables, mechanism: gaussian, split: residuals, tables: [{TABLES}]MORE}}"
ZEROS = "{age: ['0 to 9'], trade: [mason]}"


def scenario(more: str = "", base: Any = first, product: str = PRODUCT) -> Scenario:
    """Both relations; a structural zero; Parquet and CSV."""
    columns = (
        (WORKER if base is second else "") + AGE + SEX + SCHOOLED + TRADE + (WAGE + HIRED if base is second else "")
    )
    made = hierarchical(columns, product.replace("MORE", more), base(), ZEROS)
    spec = made.spec.replace("delta: 0}", "delta: 1e-9}").replace("formats: [parquet]", "formats: [parquet, csv]")
    if base is second:
        return replace(made, spec=spec)
    return replace(made, spec=spec, calculus=RenyiCalculus(Fraction(16)), cap=(9 * PICO, ATTO // 10**8))


def labelled() -> Scenario:
    """With columns beside labels."""
    made = scenario()
    more = "formats: [parquet, csv], labels: columns"
    return replace(made, spec=made.spec.replace("formats: [parquet, csv]", more))


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(scenario())


@pytest.mark.long
@pytest.mark.parametrize(
    "made",
    [
        scenario(),
        scenario(", objective: max"),
        scenario(base=second),
        scenario(product=PRODUCT.replace("range", "hierarchy").replace("prefix", "identity")),
        labelled(),
    ],
    ids=["add_remove", "largest variance", "rows of a unit", "hierarchy", "labelled"],
)
def test_verify_makes_the_answers_again(worlds: Worlds, made: Scenario) -> None:
    """Under both relations, for both objectives; every rule holds."""
    version = worlds.published(made)
    version.assert_verifies()
    assert [draw["key"] for draw in load(version.folder / "record.json")["replay"]["draws"]] == ["residuals"]


def values(version: Version, path: str, column: str) -> Any:
    """A column of a file."""
    return pq.read_table(version.folder / path)[column].to_numpy()


def test_rows_are_ranges_with_their_own_intervals(published: Version) -> None:
    """Labels say which cells; the longest prefix is the least certain, and every interval is that of its variance."""
    made = pq.read_table(published.folder / "data/sex_x_age_prefix.parquet").to_pandas()
    assert made["age"].tolist()[:3] == ["0 to 9", "0 to 19", "0 to 29"]
    spreads = values(published, "measurements/sex_x_age_prefix.parquet", "variance")
    assert np.unique(spreads).size == 10
    widths = (made["upper"] - made["lower"]) / 2
    assert (np.abs(widths - 1.96 * np.sqrt(spreads)) <= 1.01).all()
    assert (values(published, "data/age_range.parquet", "count").size) == 55


def test_answers_agree_but_for_rounding(published: Version) -> None:
    """A range is the difference of two prefixes, added up over the other column."""
    prefixes = values(published, "data/sex_x_age_prefix.parquet", "count").reshape(-1, 10).sum(axis=0)
    labels, counts = (values(published, "data/age_range.parquet", name) for name in ("age", "count"))
    known = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    assert abs(known["20 to 39"] - (prefixes[3] - prefixes[1])) <= 4


def test_ranges_of_impossible_cells_are_zero(published: Version) -> None:
    """Of a table without queries too, whose rows differ in their noise as well."""
    made = pq.read_table(published.folder / "data/plain.parquet").to_pandas()
    gone = values(published, "measurements/plain.parquet", "structural_zero")
    assert gone.sum() == 1
    assert (made.loc[gone, ["count", "lower", "upper"]] == 0).all(axis=None)


def test_the_page_does_not_add_up_ranges_that_overlap(published: Version) -> None:
    page = (published.folder / "record.html").read_text()
    of_ranges, plain = 2, 2
    assert page.count("overlap, so that rows do not add up") == of_ranges
    assert page.count("Sum of all cells") == plain


def test_the_record_says_how_near_to_the_optimum_it_is(published: Version) -> None:
    """One draw, and the loss about each column."""
    words = published.words
    assert 1 <= float(words["noise.mechanism_choice"]["over_optimum"]) <= 1.02
    assert {each["column"] for each in words["guarantee.per_attribute"]} == {"age", "sex", "schooled", "trade"}
    assert len(words["ledger.draws"]) == 1


def quieter(entry: dict[str, Any]) -> None:
    entry["moves"] = list(squares_of(sum(move * move for move in entry["moves"]) // 4))


def surer(folder: Path) -> None:
    """Claim less variance than the noise has."""
    set_cell(folder / "measurements/age_range.parquet", "variance", 7, 1.0)


def moved(folder: Path) -> None:
    """Change an answer."""
    path = folder / "measurements/sex_x_age_prefix.parquet"
    set_cell(path, "noisy", 0, pq.read_table(path)["noisy"].to_pylist()[0] + 1)


def drawn(folder: Path) -> None:
    """Change a number that was drawn."""
    set_cell(folder / "measurements/residuals.parquet", "noisy", 3, 12345)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (surer, "measurements/age_range.parquet"),
        (moved, "measurements/sex_x_age_prefix.parquet"),
        (drawn, "measurements/residuals.parquet"),
    ],
)
def test_forged_files_are_found(version: Version, change: Any, where: str) -> None:
    """All checksums agree with the forged file."""
    change(version.folder)
    assert_caught(forge(version), {8}, where=where)


def test_a_smaller_sensitivity_is_found(version: Version) -> None:
    """Stated alike in record, charge and journal."""
    record, journal = event(0, quieter)
    assert_caught(forge(version, record=record, journal=journal), {6}, field="event.moves")


def test_another_kind_of_queries_is_found(version: Version) -> None:
    """A record that says hierarchy where prefixes were measured."""

    def other(record: dict[str, Any]) -> None:
        record["replay"]["product"]["tables"][0]["queries"][0]["kind"] = "hierarchy"

    forge(version, record=other)
    assert not version.verify().ok


REFUSED = [
    ("split: optimal, tables: [{columns: [age], queries: prefix}]", "tables[0].queries", "split residuals"),
    ("split: residuals, tables: [{columns: [age], queries: prefixes}]", "queries", "prefix"),
    ("split: residuals, tables: [{columns: [age, sex], queries: prefix}]", "queries", "mapping of column"),
    ("split: residuals, tables: [{columns: [age], queries: {}}]", "queries", "mapping of column"),
    (
        "split: residuals, tables: [{columns: [age], queries: prefix}], refine: {method: simplex}",
        "refine.method",
        "method none",
    ),
    ("split: residuals, tables: [{columns: [age], queries: prefix}], total: invariant", "total", "measured"),
    ("split: residuals, tables: [{columns: [sex], queries: prefix}]", "queries.sex", "in at least 2 bins"),
    ("split: residuals, tables: [{columns: [age], queries: {sex: prefix}}]", "queries.sex", "age"),
    (
        "split: residuals, tables: [{columns: [age], queries: prefix}, {columns: [schooled], queries: prefix}]",
        "tables",
        "together in one table",
    ),
]


@pytest.mark.parametrize(("product", "field", "says"), REFUSED)
def test_what_does_not_go_with_queries_is_refused(tmp_path: Path, product: str, field: str, says: str) -> None:
    """By its key, with what is allowed, before anything is charged."""
    made = scenario()
    line = next(each for each in made.spec.splitlines() if each.startswith("product:"))
    try:
        findings = check_spec(
            *made.written(tmp_path, (line, f"product: {{kind: tables, mechanism: gaussian, {product}}}"))
        )
    except SpecRefused as refused:
        findings = list(refused.findings)
    assert any(field in each.field and says in each.allowed for each in findings), findings


def test_the_plan_costs_what_is_charged_and_stays_near_the_optimum(tmp_path: Path) -> None:
    """One event, within ε; prefixes that are measured are less noisy than prefixes added up from cells."""
    found = {}
    for kind in ("prefix", "identity"):
        made = scenario(product=PRODUCT.replace(TABLES, f"{{columns: [age], queries: {kind}}}"))
        plan = plan_tables(*made.written(tmp_path))
        assert plan.epsilon <= PICO
        assert plan.over_optimum is not None
        assert 1 <= plan.over_optimum <= 1.02
        assert len(plan.draws) == 1
        found[kind] = next(each for each in plan.derived if each.clique).variance
    # Ten cells: the average prefix is the sum of five and a half of them.
    assert found["prefix"] < 0.6 * 5.5 * found["identity"]


def test_the_stated_variance_of_a_small_total_is_that_of_its_noise(tmp_path: Path) -> None:
    """At the largest epsilon a rounded total is noisier by its event's own variance, which is below 1/12."""
    made = scenario()
    spec, contract = made.written(tmp_path, ("epsilon: 1.0,", "epsilon: 1000,"))
    assert spec.charge.epsilon == Decimal(1000)
    total = next(each for each in plan_tables(spec, contract).derived if not each.clique)
    assert isinstance(total.event, DiscreteGaussian)
    assert total.variance == variance(total.event) < 1 / 12


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("base", [first, second], ids=["add_remove", "replace_one"])
def test_intervals_of_ranges_hold_as_often_as_they_say(tmp_path: Path, base: Any) -> None:
    """n = 2,000 releases: of the first, the middle and the last row of each table more than 91.5 % of intervals hold.

    With 95 % or more, at most 91.5 % hold with probability exp(-2000 KL(0.915, 0.95)) < 5e-10 (Chernoff), for twelve
    rows below 6e-9. Of half the length about 67 % hold, and are found out: 80 % or more have probability below 1e-30.
    """
    plan = plan_tables(*scenario(base=base).written(tmp_path)).residuals
    assert isinstance(plan, RangePlan)
    noise, strategies = SampledNoise(SecureBytes()), plan.residuals
    nobody = [np.zeros(each.shape, np.int64) for each in strategies]  # what noise adds does not depend on the counts
    widths = {table.name: plan.row_noise(table).half_widths.reshape(-1) for table in plan.specs}
    held: dict[tuple[str, int], list[float]] = {}
    for _ in range(2000):
        known = plan.tables(noisy_strategies(nobody, strategies, event=plan.event, noise=noise))
        for table in plan.specs:
            found = plan.counts(known, f"table:{table.name}", table.columns).reshape(-1)
            for row in (0, found.size // 2, found.size - 1):
                held.setdefault((table.name, row), []).append(
                    abs(int(found[row])) / max(1, int(widths[table.name][row]))
                )
    assert len(held) == 12
    for row, shares in held.items():
        assert np.mean(np.array(shares) <= 1) > 0.915, row
        assert np.mean(np.array(shares) <= 0.5) < 0.8, row
