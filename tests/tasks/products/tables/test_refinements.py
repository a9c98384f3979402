"""Every refinement that a spec can ask for, and every split with every noise: replayed and verified, or refused."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contracts.errors import SpecRefused
from contracts.release.spec_checks import check_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.table_plans.plan import TablesPlan, plan_tables
from tests.tasks.verification.forgery import load
from tests.worlds.hierarchies import hierarchical
from tests.worlds.tables import AGE, SCHOOLED, SEX, WORKER, Scenario, first, refined_by
from tests.worlds.versions import Version, Worlds, publish_version

KEPT = {
    "{method: none}": ("none", None),
    "{method: negative_l2, lambda: auto, integers: false}": ("negative_l2", {"of": "lambda", "by": "auto"}),
    "{method: negative_l2, sparsity: 0.4}": ("negative_l2", {"of": "lambda", "by": "sparsity"}),
    "{method: empirical_bayes}": ("empirical_bayes", None),
    "{method: neighbourhood, integers: false}": ("neighbourhood", None),
    "{method: auto}": ("mixture", {"of": "weights", "by": "auto"}),
}


def told(version: Version) -> dict[str, Any]:
    """What the record tells people of each table's refinement."""
    entries = version.words["product.tables"]
    return {entry["table"]: entry for entry in entries}


@pytest.mark.parametrize("refine", KEPT)
def test_each_refinement_is_published_and_replayed(tmp_path: Path, refine: str):
    """Gaussian noise, structural zeros, tables whose ordered column comes first or stands alone."""
    version = publish_version(refined_by(refine), tmp_path)
    version.assert_verifies()
    method, chosen = KEPT[refine]
    replay = load(version.folder / "record.json")["replay"]
    for table in replay["tables"]:
        assert table["chosen"] == chosen
        assert method in (None, table["method"])
        data = pq.read_table(version.folder / table["data"])
        counts, lower, upper = (data[name].to_numpy() for name in ("count", "lower", "upper"))
        zeros = pq.read_table(version.folder / table["measurements"])["structural_zero"].to_numpy()
        for column in (counts, lower, upper):
            assert not column[zeros].any()
        assert (lower <= counts).all()
        assert (counts <= upper).all()
        if table["method"] != "none":
            assert counts.min() >= 0
            assert lower.min() >= 0
            assert counts.sum() == pytest.approx(max(0, replay["total"]["value"]))


def test_the_record_says_what_was_chosen_and_why_it_is_free(versions: dict[str, Version]):
    for name, what in (("chosen", "lambda has the least error"), ("extract", "the method has the least error")):
        for entry in told(versions[name]).values():
            assert entry["chosen"].startswith(what)
            assert "costs nothing" in entry["chosen"]
            assert entry["method"] in entry["estimated_rmse"]
    candidates = {"simplex", "negative_l2", "empirical_bayes", "neighbourhood"}
    assert set(told(versions["extract"])["sex_x_age"]["estimated_rmse"]) == candidates
    assert {entry["chosen"] for entry in told(versions["guild"]).values()} == {"none"}


def test_the_page_shows_the_choice_and_the_expected_error(versions: dict[str, Version]):
    page = (versions["chosen"].folder / "record.html").read_text(encoding="utf-8")
    assert "lambda has the least error" in page
    assert "Expected error (RMSE)" in page
    assert "Expected error (RMSE)" not in (versions["town"].folder / "record.html").read_text(encoding="utf-8")


TABLES = "[[sex, age], {columns: [age, schooled], weight: 3}, [sex]], refine: {method: simplex}, total: noisy"
MECHANISMS = ("auto", "gaussian", "laplace")
SPLITS = ("by_weight", "optimal", "residuals")
RELATIONS = tuple(product(("add_remove", "replace_one"), (1, 2)))


def scenario(mechanism: str, split: str, adjacency: str, rows: int, delta: str = "1e-9") -> Scenario:
    written = f"{{kind: tables, mechanism: {mechanism}, split: {split}, tables: {TABLES}}}"
    made = hierarchical((WORKER if rows > 1 else "") + AGE + SEX + SCHOOLED, written, first())
    contract = made.contract.replace("adjacency: add_remove", f"adjacency: {adjacency}")
    if rows > 1:
        unit = f"{{unit: {{kind: id, scope: block, column: worker, max_rows_per_unit: {rows}}}"
        contract = contract.replace("{unit: {kind: row, scope: block}", unit)
    spec = made.spec.replace("delta: 0}", f"delta: {delta}}}")
    calculus, cap = RenyiCalculus(Fraction(16)), (9 * PICO, ATTO // 10**8)
    return replace(made, contract=contract, spec=spec, calculus=calculus, cap=cap, rows=800)


def planned(made: Scenario, folder: Path) -> TablesPlan:
    spec, contract = made.written(folder)
    findings = check_spec(spec, contract)
    if findings:
        raise SpecRefused(findings)
    return plan_tables(spec, contract)


@pytest.mark.parametrize("delta", ["0", "1e-9"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_is_planned_within_its_charge_or_refused_by_its_line(
    tmp_path: Path, mechanism: str, split: str, delta: str
):
    """Residuals have Gaussian noise, which needs a delta; all else is admitted, never below the least error."""
    wrong = "mechanism" if (mechanism, split) == ("laplace", "residuals") else None
    if wrong is None and delta == "0" and (mechanism == "gaussian" or split == "residuals"):
        wrong = "charge.delta"
    for adjacency, rows in RELATIONS:
        made = scenario(mechanism, split, adjacency, rows, delta)
        if wrong is not None:
            with pytest.raises(SpecRefused) as refused:
                planned(made, tmp_path)
            (finding,) = refused.value.findings
            assert wrong in finding.field
            assert finding.where.rpartition(":")[2].isdigit()
            assert finding.remedy
            continue
        plan = planned(made, tmp_path)
        noise = "gaussian" if split == "residuals" or mechanism == "gaussian" else "laplace"
        assert (plan.mechanism, plan.epsilon <= PICO) == (noise, True)
        assert plan.over_optimum is not None
        assert plan.over_optimum >= 1
        assert plan.over_bound == (noise == "laplace" or adjacency == "replace_one")


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "split", "adjacency", "rows"),
    [
        ("auto", "residuals", "replace_one", 2),
        ("auto", "by_weight", "replace_one", 1),
        ("gaussian", "optimal", "replace_one", 2),
        ("laplace", "optimal", "add_remove", 2),
    ],
)
def test_what_is_published_verifies(worlds: Worlds, mechanism: str, split: str, adjacency: str, rows: int):
    """By all rules; the record names the error over the least, or over a bound below it."""
    version = worlds.published(scenario(mechanism, split, adjacency, rows))
    version.assert_verifies()
    [stated] = {"over_bound", "over_optimum"} & set(version.words["noise.mechanism_choice"])
    assert float(version.words["noise.mechanism_choice"][stated]) >= 1
    assert stated == ("over_bound" if adjacency == "replace_one" or mechanism == "laplace" else "over_optimum")
