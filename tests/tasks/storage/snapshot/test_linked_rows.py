"""The join of linked tables: whose rows are kept, and that no unit decides about another's."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.contract.linked import rows_per_unit
from tasks.storage.snapshot.linked_rows import LinkedRows, key_sql
from tests.worlds.linked_tables import (
    LINKS,
    TABLES,
    Row,
    Rows,
    beside,
    contract_text,
    flat_rows,
    linked_contract,
    linked_of,
    random_rows,
)

WORLDS = 150
_chosen = LinkedRows._chosen


def without(contract: Contract, rows: Rows, unit: object) -> Rows:
    """Take a unit out of its table, and then each row that leads to no unit any more and led to this one."""
    linked = linked_of(contract)
    table, column = linked.terms.unit.table, str(linked.terms.unit.column)
    left = {**rows, table: [row for row in rows[table] if row[column] != unit]}
    for name in linked.owned:  # in the order of the file, in which parents stand above
        chain = linked.chain(name)
        if chain:
            up = chain[0]
            before, after = ({row[up.parent_column] for row in each[up.parent]} for each in (rows, left))
            left[name] = [row for row in rows[name] if row[up.child_column] not in before - after]
    return left


def by_unit(found: list[Row], unit: str) -> dict[object, Counter[str]]:
    units: dict[object, Counter[str]] = {}
    for row in found:
        units.setdefault(row[unit], Counter())[str({**row, unit: None})] += 1
    return units


def departures(contract: Contract, base: str, number: int = WORLDS) -> list[str]:
    """Take each unit out of random worlds; say what of the others changed, and what was more than the bound."""
    chance, column = random.Random(20), str(contract.unit.column)
    table = linked_of(contract).terms.unit.table
    pairs = [
        (rows, without(contract, rows, unit))
        for rows in (random_rows(chance, contract) for _ in range(number))
        for unit in sorted({row[column] for row in rows[table] if row[column] is not None}, key=str)
    ]
    gone = [
        sorted({row[column] for row in rows[table]} - {row[column] for row in left[table]}, key=str)[0]
        for rows, left in pairs
    ]
    whole, fewer = (
        by_unit(flat_rows(contract, beside(contract, worlds), base), column) for worlds in zip(*pairs, strict=True)
    )
    bound = rows_per_unit(linked_of(contract), base)
    wrong = [f"{unit} has too many" for unit, kept in whole.items() if sum(kept.values()) > bound]
    left_out = {str(place * 10 + int(str(unit))) for place, unit in enumerate(gone)}
    others = {unit: kept for unit, kept in whole.items() if str(unit) not in left_out}
    return wrong + [f"{unit} changes" for unit in {*others, *fewer} if others.get(unit) != fewer.get(unit)]


def key_of_its_own(folder: Path) -> Contract:
    return linked_contract(folder)


def id_beside_the_key(folder: Path) -> Contract:
    """The unit's id is not what visits lead to: one person has two rows, and two people may have the same key."""
    tables = {**TABLES, "patient": [("person", "string", "", ""), *TABLES["patient"]]}
    unit = "{kind: id, table: patient, column: person, max_rows_per_unit: 2, scope: block}"
    return linked_contract(folder, contract_text(unit, tables=tables))


def in_the_middle(folder: Path) -> Contract:
    """The visit is the unit: patients are above it, and belong to nobody."""
    tables = {**TABLES, "patient": TABLES["patient"][:3]}
    unit = "{kind: id, table: visit, column: visit_id, max_rows_per_unit: 1, scope: block}"
    links = LINKS.replace("patient.patient_id, at_most: 3", "patient.patient_id")
    return linked_contract(folder, contract_text(unit, links, tables))


NUMBER = (
    "{kind: integer, bounds: [%d, %d], bins: {width: 1}, nulls: {policy: category}, provenance: {kind: declared}}"
)


def with_values(folder: Path) -> Contract:
    """Doses are added up by visit and by nobody else; waits are added up by patient, where people came in a hurry."""
    dose, wait = ("dose", "integer", NUMBER % (-1, 3), ""), ("wait", "integer", NUMBER % (0, 4), "")
    hurried = ("hurried", "integer", NUMBER % (0, 12), "{sum: visit.wait, where: {kind: [urgent]}}")
    longest = ("longest", "integer", NUMBER % (0, 4), "{max: visit.wait}")
    tables = {
        **TABLES,
        "patient": [*TABLES["patient"], hurried, longest],
        "visit": [*TABLES["visit"], wait, ("doses", "integer", NUMBER % (-2, 6), "{sum: drug.dose}")],
        "drug": [*TABLES["drug"], dose],
    }
    return linked_contract(folder, contract_text(tables=tables))


CONTRACTS = [key_of_its_own, id_beside_the_key, in_the_middle]
BASES = [(made, base) for made in CONTRACTS[:2] for base in ("patient", "visit", "drug")]
BASES += [(with_values, base) for base in ("patient", "drug")]
BASES += [(in_the_middle, base) for base in ("visit", "drug")]


@pytest.mark.long
@pytest.mark.parametrize(("made", "base"), BASES)
def test_no_unit_decides_about_another(made: Callable[[Path], Contract], base: str, tmp_path: Path):
    """Random worlds with dangling, missing and repeated keys: each unit is taken out of each of them.

    Nothing of any other unit changes, and none has more rows than the bound. No chance: the choices have fixed keys.
    """
    assert departures(made(tmp_path), base) == []


def blind(self: LinkedRows, query: str, name: str, group: Sequence[str], bound: int, purpose: str) -> str:
    """A twin that chooses among the rows of a parent or a key without a look at whose they are."""
    return _chosen(self, query, name, [each for each in group if each != "unit"] or group, bound, purpose)


def generous(self: LinkedRows, query: str, name: str, group: Sequence[str], bound: int, purpose: str) -> str:
    """A twin that keeps one row too many."""
    return _chosen(self, query, name, group, bound + 1, purpose)


@pytest.mark.long
@pytest.mark.parametrize("twin", [blind, generous])
@pytest.mark.parametrize("base", ["visit", "drug"])
def test_twins_are_found_out(twin: Any, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The same worlds tell a choice over all units, and a row too many."""
    contract = (id_beside_the_key if twin is blind else key_of_its_own)(tmp_path)
    monkeypatch.setattr(LinkedRows, "_chosen", twin)
    assert len(departures(contract, base)) > 5


@pytest.mark.long
def test_a_replaced_unit_changes_no_other(tmp_path: Path):
    """Another world's rows of a unit in place of its own: the rows of the rest stay as they are."""
    contract, chance = key_of_its_own(tmp_path), random.Random(7)
    for _ in range(5):
        rows = random_rows(chance, contract)
        left = without(contract, rows, "1")
        new: Rows = {**left, "patient": [*left["patient"], {"patient_id": "1", "ward": 2, "sex": "F"}]}
        new["visit"] = [
            *left["visit"],
            *({**row, "patient": "1", "visit_id": 100 + i} for i, row in enumerate(rows["visit"])),
        ]
        before, after = (by_unit(flat_rows(contract, each, "visit"), "patient_id") for each in (left, new))
        after.pop("1", None)
        assert after == before


def test_the_rows_are_those_of_a_join_by_hand(tmp_path: Path):
    """Small tables without anything to drop: parents, their parents, and what is counted stand beside each row."""
    contract = key_of_its_own(tmp_path)
    rows: Rows = {
        "patient": [{"patient_id": " p ", "ward": 1, "sex": "F"}, {"patient_id": "q", "ward": 1, "sex": "M"}],
        "visit": [
            {"visit_id": 2, "patient": "p", "hospital": 5, "kind": "urgent"},
            {"visit_id": 1, "patient": "q", "hospital": 5, "kind": "urgent"},
            {"visit_id": 3, "patient": "p", "hospital": 5, "kind": "planned"},
        ],
        "drug": [{"visit": 3, "kind": "a"}, {"visit": 3, "kind": "b"}],
        "ward": [{"code": 1, "floor": "low"}],
        "hospital": [{"hospital_id": 5, "town": 6, "beds": "few"}],
        "town": [{"town_id": 6, "coast": "no"}],
    }
    shared = {"code": 1, "floor": "low", "beds": "few", "coast": "no"}
    p = {"patient_id": "p", "sex": "F", "visits": 2, "urgent": 1}
    q = {"patient_id": "q", "sex": "M", "visits": 1, "urgent": 1}
    assert flat_rows(contract, rows, "visit") == [
        {**p, "visit_kind": "urgent", "drugs": 0, **shared},
        {**q, "visit_kind": "urgent", "drugs": 0, **shared},
        {**p, "visit_kind": "planned", "drugs": 2, **shared},
    ]
    assert [row["visits"] for row in flat_rows(contract, rows, "patient")] == [2, 1]


@pytest.mark.long
def test_rows_without_a_parent_are_dropped_and_of_two_parents_one_is_taken(tmp_path: Path):
    """A dangling key, a missing one, a ward that does not exist; two towns of one number: nothing stops."""
    contract = key_of_its_own(tmp_path)
    rows: Rows = {
        "patient": [
            {"patient_id": "p", "ward": 1, "sex": "F"},
            {"patient_id": "lost", "ward": 9, "sex": "F"},
            {"patient_id": None, "ward": 1, "sex": "F"},
        ],
        "visit": [
            {"visit_id": 1, "patient": "p", "hospital": 5, "kind": "urgent"},
            {"visit_id": 2, "patient": "nobody", "hospital": 5, "kind": "urgent"},
            {"visit_id": 3, "patient": None, "hospital": 5, "kind": "urgent"},
            {"visit_id": 4, "patient": "lost", "hospital": 5, "kind": "urgent"},
        ],
        "drug": [],
        "ward": [{"code": 1, "floor": "low"}],
        "hospital": [{"hospital_id": 5, "town": 6, "beds": "few"}],
        "town": [{"town_id": 6, "coast": "no"}, {"town_id": 6, "coast": "yes"}],
    }
    assert [row["patient_id"] for row in flat_rows(contract, rows, "visit")] == ["p"]
    towns = {str(flat_rows(contract, rows, "visit", key)[0]["coast"]) for key in "abcdefgh"}
    assert towns == {"yes", "no"}


def test_each_row_of_a_crowded_parent_is_kept_equally_often(tmp_path: Path):
    """Two of five drugs are kept under 4,000 keys: each 1,600 times, by at most 6 standard deviations (2e-9 each)."""
    contract = key_of_its_own(tmp_path)
    rows = {name: list[Row]() for name in TABLES}
    rows["patient"] = [{"patient_id": str(i), "ward": 1, "sex": "F"} for i in range(4000)]
    rows["visit"] = [{"visit_id": i, "patient": str(i), "hospital": 5, "kind": "urgent"} for i in range(4000)]
    rows["drug"] = [{"visit": i, "kind": str(k)} for i in range(4000) for k in range(5)]
    rows["ward"] = [{"code": 1, "floor": "low"}]
    rows["hospital"] = [{"hospital_id": 5, "town": 6, "beds": "few"}]
    rows["town"] = [{"town_id": 6, "coast": "no"}]
    kept = Counter(row["drug_kind"] for row in flat_rows(contract, rows, "drug"))
    assert sum(kept.values()) == 8000
    assert all(abs(number - 1600) < 6 * (4000 * 0.4 * 0.6) ** 0.5 for number in kept.values())


@pytest.mark.parametrize(
    ("stored", "value", "kind", "text"),
    [
        ("BIGINT", "9007199254740993", "integer", "9007199254740993"),
        ("DOUBLE", "17", "integer", "17"),
        ("VARCHAR", "' 017 '", "integer", "17"),
        ("VARCHAR", "'17.0'", "integer", "17"),
        ("VARCHAR", "'017'", "string", "017"),
        ("DECIMAL(10,2)", "17", "string", "17"),
        ("DOUBLE", "1.5", "integer", "1.5"),
        ("VARCHAR", "'  '", "string", None),
        ("VARCHAR", "'17.0'", "string", "17"),
        ("DECIMAL(38,0)", "9007199254740993", "string", "9007199254740993"),
        ("DOUBLE", "9007199254740994", "integer", None),
        ("DOUBLE", "'nan'", "integer", None),
        ("VARCHAR", "'1.5'", "integer", "1.5"),
        ("DOUBLE", "NULL", "integer", None),
    ],
)
def test_a_key_is_one_text_however_it_is_stored(stored: str, value: str, kind: str, text: str | None):
    """One missing value makes doubles of whole numbers, and no other key changes by it."""
    with duckdb.connect() as connection:
        written = key_sql("x", stored, kind)
        found = connection.execute(f"SELECT {written} FROM (SELECT CAST({value} AS {stored}) AS x)").fetchone()
    assert found == (text,)
