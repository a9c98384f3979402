"""Tables measured by residuals: published, verified, and forged in vain."""

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
from privacy.marginals import residuals as residual_shares
from privacy.marginals.count_noise import variance
from privacy.marginals.residual_basis import squares_of
from privacy.table_plans.plan import plan_tables
from tests.tasks.verification.forgeries import event
from tests.tasks.verification.forgery import Forgery, digest_of, drawn, forge, load, of_kind, raised, replay, set_cell
from tests.worlds.hierarchies import hierarchical
from tests.worlds.tables import AGE, HIRED, SCHOOLED, SEX, TRADE, WAGE, WORKER, Scenario, first, second
from tests.worlds.versions import Version, Worlds

TABLES = "[[sex, age], {columns: [age, schooled], weight: 3}, [sex], [trade, sex, age]]"
PRODUCT = f"{{kind: tables, mechanism: gaussian, split: residuals, tables: {TABLES}, refine: {{method: METHOD}}MORE}}"
ZEROS = "{age: ['0 to 9'], trade: [mason]}"


def measured(product: str, base: Any) -> Scenario:
    """Both relations; a structural zero; Parquet and CSV."""
    more = (WORKER, WAGE + HIRED) if base is second else ("", "")
    made = hierarchical(more[0] + AGE + SEX + SCHOOLED + TRADE + more[1], product, base(), ZEROS)
    spec = made.spec.replace("delta: 0}", "delta: 1e-9}").replace("formats: [parquet]", "formats: [parquet, csv]")
    if base is second:
        return replace(made, spec=spec)
    return replace(made, spec=spec, calculus=RenyiCalculus(Fraction(16)), cap=(9 * PICO, ATTO // 10**8))


def scenario(method: str = "simplex", more: str = "", base: Any = first) -> Scenario:
    return measured(PRODUCT.replace("METHOD", method).replace("MORE", more), base)


def planned_by_auto() -> Scenario:
    """The spec leaves the noise open."""
    made = scenario()
    return replace(made, spec=made.spec.replace("mechanism: gaussian", "mechanism: auto"))


def public(method: str) -> Scenario:
    """One row for another, and the number of rows declared."""
    made = scenario(method, ", total: invariant")
    total = 'adjacency: replace_one, invariants: [{kind: total, value: 1000, reference: "yearbook"}]'
    contract = made.contract.replace("adjacency: add_remove, invariants: []", total)
    return replace(made, contract=contract, rows=1000)


def labelled() -> Scenario:
    made = scenario()
    more = "formats: [parquet, csv], labels: columns"
    return replace(made, spec=made.spec.replace("formats: [parquet, csv]", more))


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(scenario("none"))


def counts(version: Version, name: str, folder: str = "measurements", column: str = "noisy") -> Any:
    table = pq.read_table(version.folder / f"{folder}/{name}.parquet")
    sizes = [len(set(table[each].to_pylist())) for each in name.split("_x_")]
    return table[column].to_numpy().reshape(sizes)


MADE = {
    "simplex": scenario("simplex"),
    "auto": scenario("auto"),
    "rows of a unit": scenario("simplex", base=second),
    "public total": public("simplex"),
    "fractions": scenario("empirical_bayes, integers: false"),
    "largest variance": scenario("simplex", ", objective: max", base=second),
    "noise by auto": planned_by_auto(),
    "labelled": labelled(),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MADE)
def test_verify_makes_tables_and_answers_again_from_the_residuals(worlds: Worlds, name: str):
    """Under both relations, with a public total, with chosen methods, and with fractions; every rule holds."""
    version = worlds.published(MADE[name])
    version.assert_verifies()
    assert [draw["key"] for draw in load(version.folder / "record.json")["replay"]["draws"]] == ["residuals"]


def test_noisy_tables_agree_but_for_rounding(published: Version):
    """A margin of noisy counts lies within half a row a cell of any other table's, and the total is theirs."""
    published.assert_verifies()
    sexes, ages = counts(published, "sex"), counts(published, "sex_x_age")
    assert np.abs(ages.sum(axis=1) - sexes).max() <= 0.5 * (ages.shape[1] + 1)
    wide = counts(published, "trade_x_sex_x_age")
    assert np.abs(wide.sum(axis=0) - ages).max() <= 0.5 * (wide.shape[0] + 1)
    total = pq.read_table(published.folder / "measurements/total.parquet")["noisy"][0].as_py()
    assert abs(int(sexes.sum()) - total) <= 0.5 * (sexes.size + 1)


def test_impossible_cells_are_zero_with_an_interval_of_zero(published: Version):
    """The noisy count stands in the measurements; the table has 0."""
    noisy = pq.read_table(published.folder / "measurements/trade_x_sex_x_age.parquet").to_pandas()
    made = pq.read_table(published.folder / "data/trade_x_sex_x_age.parquet").to_pandas()
    gone = noisy["structural_zero"].to_numpy()
    assert gone.sum() > 0
    assert (made.loc[gone, ["count", "lower", "upper"]] == 0).all(axis=None)
    assert (noisy.loc[gone, "noisy"] != 0).any()


def test_the_record_and_pages_say_how_they_were_measured(published: Version):
    """Error over the optimum, one draw, and the loss about each column."""
    words = published.words
    assert 1 <= float(words["noise.mechanism_choice"]["over_optimum"]) <= 1.01
    (draw,) = words["ledger.draws"]
    record = load(published.folder / "record.json")
    assert draw["l2_sensitivity_squared"] == sum(m * m for m in record["replay"]["draws"][0]["event"]["moves"])
    assert {each["column"] for each in words["guarantee.per_attribute"]} == {"age", "sex", "schooled", "trade"}
    assert "l1_sensitivity" not in draw
    assert "for all tables together" in (published.folder / "record.html").read_text()


def test_auto_has_gaussian_noise_and_the_record_says_why(worlds: Worlds):
    """Residuals leave no choice: the record names it, and the error that Laplace noise would have."""
    version = worlds.published(planned_by_auto())
    chosen = version.words["noise.mechanism_choice"]
    assert set(chosen["expected_rmse"]) == {"gaussian", "laplace"}
    assert "residuals" in chosen["by"]
    (setting,) = [each for each in version.words["preprocessing.chosen_by_the_run"] if each["setting"] == "mechanism"]
    assert "gaussian" in setting["chosen"]


def test_auto_needs_a_delta(tmp_path: Path):
    """Refused by its line, with both ways out."""
    findings = check_spec(*planned_by_auto().written(tmp_path, ("delta: 1e-9}", "delta: 0}")))
    (found,) = [each for each in findings if each.field == "charge.delta"]
    assert "residuals" in found.found
    assert "another split" in found.remedy


def quieter(entry: dict[str, Any]) -> None:
    entry["moves"] = list(squares_of(sum(move * move for move in entry["moves"]) // 4))


def laplace(entry: dict[str, Any]) -> None:
    """Laplace noise under residuals, stated alike in record, charge and journal."""
    del entry["sigma_squared"]
    entry.update(kind="discrete_laplace", inverse_scale="1/10")


RESIDUALS, CELLS = "measurements/residuals.parquet", "measurements/sex_x_age.parquet"
FORGERIES = {
    "a smaller sensitivity": Forgery({6}, *event(0, quieter), says="event.moves"),
    "counts that do not follow": Forgery({8}, files=raised(CELLS, "noisy", 3), where={CELLS}),
    "numbers that were not drawn": Forgery({8}, files=raised(RESIDUALS, "noisy", 3), where={RESIDUALS}),
    "multipliers other than the product's": Forgery({8}, files=raised(RESIDUALS, "multiplier", 3), where={RESIDUALS}),
    "another split": Forgery({6}, replay(lambda r: r["product"].update(split="optimal"))),
    "no tables": Forgery({5}, replay(lambda r: r["product"].update(tables=[]))),
}
FORGED_CHOICES = {
    "noise that auto does not lead to": Forgery({6}, *event(0, laplace), says="replay.draws[0].event.kind")
}
FORGED = [
    *((scenario("none"), each) for each in FORGERIES.items()),
    *((planned_by_auto(), each) for each in FORGED_CHOICES.items()),
]


@pytest.mark.parametrize(
    ("made", "forgery"), [(made, each) for made, (_, each) in FORGED], ids=[n for _, (n, _) in FORGED]
)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, made: Scenario, forgery: Forgery):
    """All checksums agree with what was forged."""
    forgery.check_found(worlds.published(made).copy(tmp_path / "v"))


def test_residuals_forged_with_their_digest_are_found_by_the_tables(version: Version):
    """Where the journal too is made up, the tables no longer follow from the residuals."""
    set_cell(version.folder / RESIDUALS, "noisy", 3, 10**6)
    found = digest_of(version.folder / RESIDUALS, "noisy")
    forge(version, record=drawn(0, sha256=found), journal=lambda e: of_kind(e, "noise_drawn").update(sha256=found))
    assert not version.verify().ok


def test_a_record_with_more_residuals_than_are_planned_is_found(published: Version, monkeypatch: pytest.MonkeyPatch):
    """By name, before anything is made of them."""
    monkeypatch.setattr(residual_shares, "MOST_RESIDUALS", 8)
    residual_shares._remembered.cache_clear()
    assert any(each.field == "replay.product.tables" for each in published.verify().findings)


LAPLACE, GAUSSIAN = "mechanism: laplace, split: residuals, ", "mechanism: gaussian, split: residuals, "
OPTIMAL = "mechanism: gaussian, split: optimal, "
REFUSED = [
    (LAPLACE + "tables: [[age]]", "mechanism", ""),
    (GAUSSIAN + "tables: [[age]], minimum_frequency: {k: 10, t: 5}", "minimum_frequency", ""),
    (GAUSSIAN + "tables: [[age]], refine: {method: simplex, consistent: true}", "consistent", ""),
    (GAUSSIAN + "tables: [{columns: [age], bins: {age: 0..99 by 20}}]", "bins", ""),
    (GAUSSIAN + "tables: [{columns: [age, schooled], hierarchy: quadtree}]", "hierarchy", ""),
    ("mechanism: gaussian, split: residual, tables: [[age]]", "split", ""),
    (OPTIMAL + "objective: max, tables: [[age]]", "objective", ""),
    (GAUSSIAN + "objective: mean, tables: [[age]]", "objective", ""),
]


@pytest.mark.parametrize(("product", "field", "says"), REFUSED)
def test_what_does_not_go_with_residuals_is_refused(tmp_path: Path, product: str, field: str, says: str):
    """By its key, with what is allowed, before anything is charged."""
    made = scenario()
    line = next(each for each in made.spec.splitlines() if each.startswith("product:"))
    try:
        findings = check_spec(*made.written(tmp_path, (line, f"product: {{kind: tables, {product}}}")))
    except SpecRefused as refused:
        findings = list(refused.findings)
    assert any(field in each.field and says in each.allowed for each in findings), findings


def test_the_plan_costs_what_is_charged_and_stays_near_the_optimum(tmp_path: Path):
    """One event, within ε, nearer to the optimum than shares of marginals are."""
    found = {}
    for split in ("residuals, objective: max", "residuals", "optimal", "by_weight"):
        spec, contract = scenario().written(tmp_path, ("split: residuals", f"split: {split}"))
        plan = plan_tables(spec, contract)
        assert plan.epsilon <= PICO
        found[split] = plan.over_optimum
    assert len(plan_tables(spec, contract).draws) == 4
    assert found["residuals"] is not None
    assert found["residuals, objective: max"] is not None
    assert 1 <= found["residuals, objective: max"] <= 1.005
    assert 1 <= found["residuals"] <= 1.002 < found["optimal"] <= found["by_weight"]  # type: ignore[operator]


def test_the_stated_variance_of_a_small_total_is_that_of_its_noise(tmp_path: Path):
    """At the largest epsilon a rounded total is noisier by its event's own variance, which is below 1/12."""
    made = scenario()
    spec, contract = made.written(tmp_path, ("epsilon: 1.0,", "epsilon: 1000,"))
    assert spec.charge.epsilon == Decimal(1000)
    total = next(each for each in plan_tables(spec, contract).derived if not each.clique)
    assert isinstance(total.event, DiscreteGaussian)
    assert total.variance == variance(total.event) < 1 / 12
