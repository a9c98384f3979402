"""Ingest beside a sum: offsets stand behind the codes, and a snapshot of other lattices is another snapshot."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.storage.snapshot.fingerprint import fingerprint
from tests.tasks.intake import KEY, ROWS, make_contract, write_csv

AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), counts_missing=True)
WAGE = ValueLattice("wage", Decimal(0), Decimal(100), Decimal("0.5"), counts_missing=True)


def taken(source: Source, contract: Contract, folder: Path, *lattices: ValueLattice) -> PrivateTable:
    return ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=lattices)


def codes(table: PrivateTable) -> tuple[list[str], list[tuple[int, ...]]]:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        found = connection.execute("SELECT * FROM codes")
        return [each[0] for each in found.description or ()], found.fetchall()


def test_lattices_stand_behind_the_codes_row_by_row(tmp_path: Path) -> None:
    """34, 17, "?" and 120 years; wages of 10.5, 700, none and 12.5: clipped, in steps, plus one; 0 is missing."""
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    names, rows = codes(taken(source, contract, tmp_path, AGE, WAGE))
    assert names == ["age", "sex", "wage", "since", AGE.name, WAGE.name]
    assert [row[4:] for row in rows] == [(35, 22), (18, 201), (0, 0), (100, 26)]
    plain = codes(taken(source, contract, tmp_path / "plain"))
    assert ([*plain[0]], [row[:4] for row in rows]) == (names[:4], plain[1])


OTHERS: dict[str, tuple[ValueLattice, ...]] = {
    "none": (),
    "one less": (AGE,),
    "one more": (AGE, WAGE, replace(WAGE, step=Decimal(1))),
    "another order": (WAGE, AGE),
    "another step": (AGE, replace(WAGE, step=Decimal(1))),
    "a wider clip": (AGE, replace(WAGE, high=Decimal(200))),
    "a clip that no row tells apart": (AGE, replace(WAGE, low=Decimal("-0.5"), high=Decimal("99.5"))),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_snapshot_of_other_lattices_is_not_taken_up_and_has_another_hash(tmp_path: Path, what: str) -> None:
    """Of the same source under the same contract; the snapshot is made again in its place."""
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = taken(source, contract, tmp_path, AGE, WAGE)
    other = taken(source, contract, tmp_path, *OTHERS[what])
    assert other.path == first.path
    assert other.keyed_hash != first.keyed_hash
    assert codes(other)[0][4:] == [each.name for each in OTHERS[what]]
    assert taken(source, contract, tmp_path, AGE, WAGE).keyed_hash == first.keyed_hash


def test_a_snapshot_of_the_same_lattices_is_taken_up(tmp_path: Path) -> None:
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = taken(source, contract, tmp_path, AGE, WAGE)
    before = first.path.stat().st_mtime_ns
    again = taken(source, contract, tmp_path, AGE, WAGE)
    assert (again.keyed_hash, again.path.stat().st_mtime_ns) == (first.keyed_hash, before)


def test_a_value_that_moves_within_its_cell_changes_the_hash(tmp_path: Path) -> None:
    """Codes alone would be the same: a release of sums of other values is another run."""
    contract = make_contract(tmp_path)
    hashes = []
    for place, wage in enumerate(("10.5", "11.5")):
        source = write_csv(tmp_path, ROWS[0].replace("10.5", wage), name=f"{place}.csv")
        plain, summed = (taken(source, contract, tmp_path / f"{place}{n}", *a) for n, a in enumerate(((), (WAGE,))))
        hashes.append((plain.keyed_hash, summed.keyed_hash))
    assert hashes[0][0] == hashes[1][0]
    assert hashes[0][1] != hashes[1][1]


def test_a_fingerprint_tells_lattices_apart_and_is_as_before_without_them(tmp_path: Path) -> None:
    source = write_csv(tmp_path, *ROWS)
    found = {what: fingerprint(source, [1], KEY, lattices) for what, lattices in OTHERS.items()}
    assert len(set(found.values())) == len(OTHERS)
    assert found["none"] == fingerprint(source, [1], KEY)
