"""Derived values of linked tables: all neighbours of small tables, and sums that no order of rows changes."""

import random
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path

import duckdb
import polars as pl
import pytest

from contracts.contract.contract import Contract
from contracts.contract.linked_tables import value_range
from contracts.domains.domain import DeclaredDomain
from contracts.domains.value_sql import double
from tasks.storage.snapshot import linked_rows
from tasks.storage.snapshot.linked_rows import flatten
from tests.worlds.linked_tables import Rows, beside, contract_text, flat_rows, linked_contract, linked_of

AT_MOST = 2
UNIT = "{kind: id, table: household, column: id, max_rows_per_unit: 1, scope: block}"
LINKS = f"[{{from: person.home, to: household.id, at_most: {AT_MOST}}}]"
NUMBER = (
    "{kind: %s, bounds: [%s, %s], bins: {edges: [%s, %s]}, nulls: {policy: category}, provenance: {kind: declared}}"
)
INCOMES: tuple[int | None, ...] = (-9, 2, 5, None)
LOW, HIGH = -1, 3


def a_number(kind: str, low: object, high: object) -> str:
    return NUMBER % (kind, low, high, low, high)


def households(folder: Path) -> Contract:
    """Households of whom the incomes of at most two people are added up, each from -1 to 3."""
    derived = [
        ("income", "integer", a_number("integer", -2, 6), "{sum: person.earned}"),
        ("most", "integer", a_number("integer", -1, 3), "{max: person.earned}"),
        ("least", "integer", a_number("integer", -1, 3), "{min: person.earned}"),
    ]
    tables = {
        "household": [("id", "integer", "", ""), *derived],
        "person": [("home", "integer", "", ""), ("earned", "integer", a_number("integer", LOW, HIGH), "")],
    }
    return linked_contract(folder, contract_text(UNIT, LINKS, tables))


def all_worlds() -> list[Rows]:
    """List all ways in which three people live in two households and earn one of four things."""
    people = [{"home": home, "earned": earned} for home, earned in product((1, 2), INCOMES)]
    return [
        {"household": [{"id": 1}, {"id": 2}], "person": [dict(each) for each in three]}
        for three in product(people, repeat=3)
    ]


def without(rows: Rows, unit: int) -> Rows:
    """Take a household out, with all who live in it."""
    return {
        "household": [row for row in rows["household"] if row["id"] != unit],
        "person": [row for row in rows["person"] if row["home"] != unit],
    }


def joined(contract: Contract, worlds: list[Rows]) -> list[dict[int, tuple[object, ...]]]:
    """Join worlds that stand beside each other; return of each its households by their id."""
    found: list[dict[int, tuple[object, ...]]] = [{} for _ in worlds]
    for row in flat_rows(contract, beside(contract, worlds), "household"):
        place, unit = divmod(int(str(row["id"])), 10)
        found[place][unit] = (row["income"], row["most"], row["least"])
    return found


def possible(rows: Rows, unit: int) -> set[tuple[object, ...]]:
    """Say by hand what a household may get: of some two of its people, each income clipped."""
    own = [row["earned"] for row in rows["person"] if row["home"] == unit]
    found = set()
    for kept in combinations(own, min(AT_MOST, len(own))):
        clipped = [max(LOW, min(HIGH, int(str(each)))) for each in kept if each is not None]
        found.add((sum(clipped), max(clipped, default=None), min(clipped, default=None)))
    return found


def departures(contract: Contract) -> list[str]:
    """Take each household out of all worlds; say what moved that should not, or further than the derivation says."""
    worlds = all_worlds()
    whole = joined(contract, worlds)
    made = dict(linked_of(contract).table("household").derived)["income"]
    low, high = value_range(made, linked_of(contract).table("person").column("earned").domain, AT_MOST)
    wrong = []
    for unit in (1, 2):
        left = joined(contract, [without(rows, unit) for rows in worlds])
        for rows, before, after in zip(worlds, whole, left, strict=True):
            moved = sum(_number(row[0]) for row in before.values()) - sum(_number(row[0]) for row in after.values())
            if {key: row for key, row in before.items() if key != unit} != after:
                wrong.append(f"household {unit} moves another")
            if not low <= moved <= high:
                wrong.append(f"household {unit} moves the sum by {moved}")
            if before[unit] not in possible(rows, unit):
                wrong.append(f"household {unit} has what no two of its people have")
    return wrong


def _number(value: object) -> float:
    return float(str(value))


def test_one_unit_moves_a_sum_of_derived_values_by_what_the_derivation_says(tmp_path: Path):
    """All 512 small worlds, and each household taken out of each of them: no chance."""
    assert departures(households(tmp_path)) == []


def unclipped(domain: DeclaredDomain, step: Decimal) -> tuple[str, int]:
    """A twin that adds values up as they were delivered."""
    return f"CASE WHEN {domain.null_sql('v')} THEN NULL ELSE CAST(v AS BIGINT) END", int(1 / step)


def generous(domain: DeclaredDomain, step: Decimal) -> tuple[str, int]:
    """A twin that clips a step too late."""
    low, high = domain.value_bounds or (Decimal(0), Decimal(0))
    clipped = f"greatest({double(float(low))}, least({double(float(high + 1))}, v))"
    return f"CASE WHEN {domain.null_sql('v')} THEN NULL ELSE CAST({clipped} AS BIGINT) END", int(1 / step)


@pytest.mark.parametrize("twin", [unclipped, generous])
def test_twins_that_do_not_clip_are_found_out(
    twin: Callable[[DeclaredDomain, Decimal], tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same worlds tell both."""
    monkeypatch.setattr(linked_rows, "_steps", twin)
    assert any("moves the sum" in each for each in departures(households(tmp_path)))


PRICES = [
    ("paid", "number", a_number("decimal", "0", "1000.00"), ""),
    (
        "kind",
        "string",
        "{kind: categories, values: [a, b], nulls: {policy: category}, provenance: {kind: declared}}",
        "",
    ),
]


def shops(folder: Path, at_most: int = 1000) -> Contract:
    """Customers whose payments are added up to hundredths."""
    top = f"{1000 * at_most}.00"
    tables = {
        "household": [
            ("id", "integer", "", ""),
            ("spent", "number", a_number("decimal", "0", top), "{sum: person.paid}"),
            ("on_a", "number", a_number("decimal", "0", top), "{sum: person.paid, where: {kind: [a]}}"),
            ("dearest", "number", a_number("decimal", "0", "1000.00"), "{max: person.paid, where: {kind: [a]}}"),
        ],
        "person": [("home", "integer", "", ""), *PRICES],
    }
    return linked_contract(folder, contract_text(UNIT, LINKS.replace(str(AT_MOST), str(at_most)), tables))


def spendings(contract: Contract, payments: list[tuple[int, object, str]]) -> list[tuple[object, ...]]:
    """Join payments, delivered as texts, to two customers."""
    linked = linked_of(contract)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE delivered_r0 (id BIGINT)")
        connection.execute("INSERT INTO delivered_r0 VALUES (1), (2)")
        connection.execute("CREATE TABLE delivered_r1 (home BIGINT, paid VARCHAR, kind VARCHAR)")
        frame = pl.DataFrame(payments, schema=["home", "paid", "kind"], orient="row")
        connection.register("payments", frame.to_arrow())
        connection.execute("INSERT INTO delivered_r1 FROM payments")
        connection.execute(f"SET VARIABLE {linked_rows.OUTER} = 'a'; SET VARIABLE {linked_rows.INNER} = 'b'")
        flatten(linked, "household", connection, lambda statement: connection.execute(statement))
        kept = connection.execute("SELECT spent, on_a, dearest FROM flat ORDER BY id").fetchall()
        return [*kept, *connection.execute("SELECT * EXCLUDE (link) FROM link_losses ORDER BY link").fetchall()]


def test_a_sum_is_the_same_in_any_order_and_the_operator_is_told_of_misfits(tmp_path: Path):
    """A thousand tenths are a hundred; what is no number counts nowhere, and what is above the bound as the bound."""
    contract = shops(tmp_path)
    payments: list[tuple[int, object, str]] = [(1, "0.1", "a")] * 900 + [
        (1, "1e9", "b"),
        (1, "x", "a"),
        (1, None, "a"),
    ]
    payments += [(2, "0.30", "b"), (2, "0.60", "b")]
    chance = random.Random(3)
    for _ in range(3):
        chance.shuffle(payments)
        first, second, *losses = spendings(contract, payments)
        assert first == (1090.0, 90.0, 0.1)
        assert second == (0.9, 0.0, None)
        assert (905, 1, 1, 1) in losses
