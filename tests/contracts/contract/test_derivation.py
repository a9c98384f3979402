"""Derived columns: what they are made of, between which numbers they lie, and what is refused."""

from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts.comparison.changes import compare
from contracts.contract.linked_tables import Derivation, value_range, value_step
from contracts.errors import ContractRefused
from tests.worlds.linked_tables import contract_text, linked_contract, linked_of

UNIT = "{kind: id, table: household, column: id, max_rows_per_unit: 1, scope: block}"
LINKS = "[{from: person.home, to: household.id, at_most: 3}]"
NULLS = "nulls: {policy: category}, provenance: {kind: declared}}"
EARNED = "{kind: integer, bounds: [-10, 50], bins: {edges: [-10, 50]}, " + NULLS
PAID = "{kind: decimal, bounds: [0, 9.99], bins: {edges: [0, 9.99]}, " + NULLS
INCOME = EARNED.replace("-10", "-30").replace("50", "150")
WORK = "{kind: categories, values: [yes, no], nulls: {policy: category}, provenance: {kind: declared}}"
TABLES = {
    "household": [("id", "integer", "", ""), ("income", "integer", INCOME, "{sum: person.earned}")],
    "person": [
        ("home", "integer", "", ""),
        ("earned", "integer", EARNED, ""),
        ("paid", "number", PAID, ""),
        ("work", "string", WORK, ""),
    ],
}


def text() -> str:
    """Write the contract whose refusals are tried."""
    return contract_text(UNIT, LINKS, TABLES)


@pytest.mark.parametrize(
    ("made", "column", "low", "high"),
    [
        ("sum", "earned", "-30", "150"),
        ("max", "earned", "-10", "50"),
        ("min", "earned", "-10", "50"),
        ("sum", "paid", "0", "29.97"),
    ],
)
def test_a_derived_value_lies_between_what_the_bounds_of_the_rows_allow(
    made: str, column: str, low: str, high: str, tmp_path: Path
):
    """Three rows at most, and none at least."""
    domain = linked_of(linked_contract(tmp_path, text())).table("person").column(column).domain
    derivation = Derivation.model_validate({made: f"person.{column}"})
    assert value_range(derivation, domain, 3) == (Decimal(low), Decimal(high))


@pytest.mark.parametrize(
    ("made", "at_most", "step"), [("sum", 3, "1E-9"), ("sum", 10**6, "1E-8"), ("max", 3, "1E-9")]
)
def test_steps_are_fine_and_every_sum_of_them_is_a_double(made: str, at_most: int, step: str, tmp_path: Path):
    """Nine decimals where 2^53 steps are enough: up to nine million."""
    domain = linked_of(linked_contract(tmp_path, text())).table("person").column("paid").domain
    derivation = Derivation.model_validate({made: "person.paid"})
    assert value_step(derivation, domain, at_most) == Decimal(step)


def test_a_count_is_written_as_before(tmp_path: Path):
    """So contracts that count keep their digest; a reduction and its column are read off what is written."""
    assert Derivation.model_validate({"count": "person"}).model_dump(mode="json") == {"count": "person", "where": []}
    made = Derivation.model_validate({"max": "person.earned", "where": {"work": ["yes"]}})
    assert (made.reduction, made.child, made.column) == ("max", "person", "earned")
    assert Derivation.model_validate(made.model_dump(mode="json")) == made


REFUSED = [
    ("{sum: person.earned}", "{sum: person}", "derived.sum", "'person'", "TABLE.COLUMN"),
    ("{sum: person.earned}", "{sum: peron.earned}", "derived.sum", "rows of 'peron'", "person"),
    ("{sum: person.earned}", "{sum: person.earnt}", "derived.sum", "the column 'earnt' of person", "earned"),
    ("{sum: person.earned}", "{sum: person.home}", "derived.sum", "the column 'home' of person", "earned"),
    (
        "{sum: person.earned}",
        "{sum: person.work}",
        "derived.sum",
        "a column of kind categories",
        "integer or decimal",
    ),
    ("{sum: person.earned}", "{sum: person.paid}", "derived", "with a domain of kind integer", "kind decimal"),
    ("{sum: person.earned}", "{mean: person.earned}", "derived.mean", "the unknown key 'mean'", "sum"),
    ("{sum: person.earned}", "{where: {work: [yes]}}", "derived", "no reduction", "one of `count: TABLE`"),
    ("{sum: person.earned}", "{sum: person.earned, max: person.earned}", "derived", "sum and max", "one of"),
    ("{sum: person.earned}", "{max: person.earned}", "derived", "bounds [-30, 150]", "bounds within [-10, 50]"),
    ("{sum: person.earned}", "{sum: person.earned, where: {wrk: [yes]}}", "derived.where.wrk", "'wrk'", "work"),
    ("{sum: person.earned}", "{sum: person.earned, where: {work: [may]}}", "derived.where.work", "'may'", "yes"),
    ("at_most: 3", "at_most: 2", "derived", "bounds [-30, 150]", "bounds within [-20, 100]"),
    (
        EARNED,
        EARNED.replace("-10, 50]", "-10, 999999999999999]"),
        "derived.sum",
        "a sum of person.earned up to 999,999",
        "at most 9",
    ),
]


@pytest.mark.parametrize(("old", "new", "field", "found", "allowed"), REFUSED)
def test_what_is_wrong_with_a_derived_column_is_refused_with_its_line(
    old: str, new: str, field: str, found: str, allowed: str, tmp_path: Path
):
    """File, line, field, what was found, what is allowed and what to do; exit 2."""
    written = text()
    assert old in written
    if "999" in new:
        written = written.replace("at_most: 3", "at_most: 1000").replace(INCOME, INCOME.replace("-30", "-10"))
    with pytest.raises(ContractRefused) as refused:
        linked_contract(tmp_path, written.replace(old, new, 1))
    assert refused.value.exit_code == 2
    [finding] = [each for each in refused.value.findings if field in each.field and found in each.found]
    path, _, line = finding.where.rpartition(":")
    assert path.endswith("contract.odcs.yaml")
    assert 1 < int(line) <= len(written.splitlines())
    assert allowed in finding.allowed


def test_another_reduction_is_a_change_of_the_contract(tmp_path: Path):
    """A sum of some rows is not that of all."""
    before = linked_contract(tmp_path, text())
    after = linked_contract(
        tmp_path, text().replace("{sum: person.earned}", "{sum: person.earned, where: {work: [yes]}}")
    )
    [change] = compare(before, after).changes
    assert (change.field, change.effect) == ("columns.income.derived", "account")
    assert (change.old, change.new) == ("sum of person.earned", "sum of person.earned with {'work': ('yes',)}")


def test_a_forged_derivation_is_no_contract(tmp_path: Path):
    """As `verify` reads it from a record: bounds beyond what rows allow, or two reductions, are refused."""
    contract = linked_contract(tmp_path, text())
    written = contract.model_dump(mode="json")
    assert type(contract).model_validate(written) == contract
    written["linked"]["terms"]["links"][0]["at_most"] = 2
    with pytest.raises(ValidationError, match="bounds within"):
        type(contract).model_validate(written)
