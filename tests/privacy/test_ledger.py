"""The ledger: caps hold, keys pay once, refusals say why, the journal is the truth."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import Calculus, PureCalculus
from privacy.ledger.entries import entry_from_json
from privacy.ledger.errors import BudgetExceeded, LedgerConflict, LedgerRefusal, LedgerUnavailable
from privacy.ledger.ledger import Ledger
from privacy.ledger.merkle import root_from_proof
from privacy.ledger.signing import Signer, signature_holds
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.ledgers import CALCULI, HALF, Counted, ledger_with_account, open_ledger, request, terms


@pytest.fixture(params=CALCULI, ids=lambda calculus: calculus.kind)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    ledger = ledger_with_account(tmp_path, request.param)
    yield ledger
    ledger.close()


def test_a_charge_reserves_what_the_account_s_calculus_says(ledger: Ledger) -> None:
    state = ledger.account("people-2024")
    charge = ledger.reserve(request())
    assert charge.amount == state.terms.calculus.cost(charge.request.events) > 0
    after = ledger.account("people-2024")
    assert (after.spent, after.remaining) == (charge.amount, after.cap - charge.amount)
    assert after.claim <= after.terms.epsilon


def test_the_same_run_key_never_pays_twice(ledger: Ledger) -> None:
    first = ledger.reserve(request())
    assert ledger.reserve(request()) == first
    assert ledger.account("people-2024").spent == first.amount


def test_another_release_under_a_known_run_key_is_refused(ledger: Ledger) -> None:
    ledger.reserve(request())
    with pytest.raises(LedgerRefusal, match="another key") as refused:
        ledger.reserve(request(spec_digest="d" * 64))
    assert refused.value.exit_code == 4


def test_charges_are_admitted_up_to_the_cap_and_not_one_unit_above(tmp_path: Path) -> None:
    ledger = ledger_with_account(tmp_path, epsilon=1)
    ledger.reserve(request("run-1", noise=(LaplaceNoise(Fraction(PICO - 1, PICO)),)))
    with pytest.raises(BudgetExceeded, match=r"at most 0\.000000000001") as refused:
        ledger.reserve(request("run-2", noise=(LaplaceNoise(Fraction(2, PICO)),)))
    assert (refused.value.requested, refused.value.remaining) == (2, 1)
    ledger.reserve(request("run-3", noise=(LaplaceNoise(Fraction(1, PICO)),)))
    assert ledger.account("people-2024").remaining == 0
    assert ledger.verify() == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amounts=st.lists(st.integers(1, 2 * PICO), min_size=1, max_size=12), returned=st.sets(st.integers(0, 11)))
def test_whatever_is_charged_and_returned_the_balance_stays_between_zero_and_the_cap(
    tmp_path_factory: pytest.TempPathFactory, amounts: list[int], returned: set[int]
) -> None:
    ledger = ledger_with_account(tmp_path_factory.mktemp("ledger"))
    expected = 0
    for number, amount in enumerate(amounts):
        try:
            charge = ledger.reserve(request(f"run-{number}", noise=(LaplaceNoise(Fraction(amount, PICO)),)))
        except BudgetExceeded:
            assert expected + amount > 3 * PICO
            continue
        expected += charge.amount
        if number in returned:
            ledger.return_charge(f"run-{number}")
            expected -= charge.amount
        state = ledger.account("people-2024")
        assert state.spent == expected
        assert 0 <= state.spent <= state.cap
    assert ledger.verify() == []
    ledger.close()


def test_a_grant_that_was_never_opened_is_returned_and_may_be_reserved_again(ledger: Ledger) -> None:
    amount = ledger.reserve(request()).amount
    ledger.return_charge("run-1")
    ledger.return_charge("run-1")
    assert ledger.account("people-2024").spent == 0
    with pytest.raises(LedgerRefusal, match="returned"):
        ledger.open_grant("run-1")
    assert ledger.reserve(request()).amount == amount
    assert ledger.account("people-2024").spent == amount


def test_an_opened_grant_stays_spent(ledger: Ledger) -> None:
    ledger.reserve(request())
    ledger.open_grant("run-1")
    with pytest.raises(LedgerRefusal, match="never opened"):
        ledger.return_charge("run-1")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"account": "nobody"}, "sudare budget open nobody"),
        ({"source": "file:other.csv"}, "sudare budget bind"),
        ({"adjacency": "replace_one"}, "replace_one"),
        ({"unit": "person_id"}, "person_id"),
    ],
)
def test_a_charge_for_other_people_or_another_relation_is_refused_naming_both_sides(
    ledger: Ledger, changed: dict[str, object], named: str
) -> None:
    with pytest.raises(LedgerRefusal, match=named):
        ledger.reserve(request(**changed))
    assert ledger.account("people-2024").spent == 0


def test_a_source_of_other_people_is_refused_and_never_changes_its_people(ledger: Ledger) -> None:
    ledger.bind_source("file:firms.csv", "firms", "2024")
    with pytest.raises(LedgerRefusal, match="firms"):
        ledger.reserve(request(source="file:firms.csv"))
    with pytest.raises(LedgerRefusal, match="never changes its people"):
        ledger.bind_source("file:firms.csv", "people", "2024")


def test_a_closed_account_takes_no_charge_and_keeps_what_it_lost(ledger: Ledger) -> None:
    amount = ledger.reserve(request()).amount
    assert ledger.close_account("people-2024").status == "closed"
    with pytest.raises(LedgerRefusal, match="closed"):
        ledger.reserve(request("run-2"))
    assert ledger.account("people-2024").spent == amount
    assert ledger.verify() == []


def test_terms_of_an_account_never_change(ledger: Ledger) -> None:
    known = ledger.account("people-2024").terms
    assert ledger.open_account(known).terms == known
    with pytest.raises(LedgerRefusal, match="a cap never changes"):
        ledger.open_account(replace(known, epsilon=known.epsilon + 1))


def test_gaussian_noise_on_a_pure_account_is_refused_with_what_would_do(tmp_path: Path) -> None:
    ledger = ledger_with_account(tmp_path, PureCalculus())
    with pytest.raises(LedgerRefusal, match="--calculus renyi"):
        ledger.reserve(request(noise=(GaussianNoise(Fraction(1, 10)),)))


def test_versions_are_numbered_by_release_and_a_run_has_one(ledger: Ledger) -> None:
    small = (LaplaceNoise(Fraction(1, 100)),)
    for run in ("run-1", "run-2"):
        ledger.reserve(request(run, noise=small))
    ledger.reserve(request("run-3", noise=small, release="other"))
    assert [ledger.allocate_version(run).number for run in ("run-1", "run-2", "run-1", "run-3")] == [1, 2, 1, 1]


def test_seeded_noise_is_never_published(ledger: Ledger) -> None:
    ledger.reserve(request())
    ledger.open_grant("run-1", seeded=SeededBytes(1))
    ledger.allocate_version("run-1")
    with pytest.raises(LedgerRefusal, match="never published"):
        ledger.record_publication("run-1", "e" * 64)
    with pytest.raises(LedgerRefusal, match="seeded"):
        ledger.open_grant("run-1")


def test_the_secure_source_cannot_be_given_other_bytes() -> None:
    with pytest.raises(AttributeError):
        SecureBytes().take = SeededBytes(7).take  # type: ignore[method-assign]


@pytest.mark.parametrize("changed", [{"unit": "person_id"}, {"adjacency": "replace_one"}, {}])
def test_people_of_one_time_block_have_one_account_open_or_closed(ledger: Ledger, changed: dict[str, str]) -> None:
    """A second account for the same people would be a second cap."""
    known = ledger.account("people-2024").terms
    second = replace(known, name="another", **changed)  # type: ignore[arg-type]
    with pytest.raises(LedgerRefusal, match="second cap"):
        ledger.open_account(second)
    ledger.close_account("people-2024")
    with pytest.raises(LedgerRefusal, match="second cap"):
        ledger.open_account(second)
    assert ledger.open_account(replace(known, name="next", block="2025")).spent == 0


def test_rows_of_one_time_block_cannot_be_charged_to_another(ledger: Ledger) -> None:
    ledger.open_account(replace(ledger.account("people-2024").terms, name="people-2025", block="2025"))
    with pytest.raises(LedgerRefusal, match="2025") as refused:
        ledger.reserve(request(account="people-2025"))
    assert refused.value.findings[0].field == "block"


def test_what_reserve_would_refuse_can_be_foreseen_and_nothing_is_written(ledger: Ledger) -> None:
    before = ledger.journal()
    amount = ledger.foresee(request())
    assert ledger.journal() == before
    assert ledger.reserve(request()).amount == amount
    with pytest.raises(BudgetExceeded):
        ledger.foresee(request("run-2", noise=(LaplaceNoise(Fraction(5)),)))


def test_a_gate_that_stopped_a_release_stays_written(ledger: Ledger) -> None:
    """Trying a gate again and again is asking the data; each answer is in the journal, without a charge."""
    for _ in range(2):
        ledger.record_gate_failure(request(), ["domain:age"])
    last = ledger.journal()[-1].sequence
    assert [ledger.gate_failures("people-2024", before=end) for end in (last - 1, last, last + 1)] == [0, 1, 2]
    assert ledger.gate_failures("others", before=last + 1) == 0
    assert ledger.account("people-2024").spent == 0
    assert ledger.verify() == []


def test_a_version_never_changes_once_it_is_entered(ledger: Ledger) -> None:
    ledger.reserve(request())
    ledger.open_grant("run-1")
    ledger.allocate_version("run-1")
    ledger.record_publication("run-1", "e" * 64)
    with pytest.raises(LedgerRefusal, match="a version never changes"):
        ledger.record_publication("run-1", "f" * 64)


def test_a_publication_is_entered_once_and_proven_under_a_signed_checkpoint(ledger: Ledger) -> None:
    ledger.reserve(request())
    ledger.open_grant("run-1").measure(Counted(np.zeros(4, np.int64)).handle, noise=HALF, key="a")
    ledger.allocate_version("run-1")
    entry = ledger.record_publication("run-1", "e" * 64)
    assert ledger.record_publication("run-1", "e" * 64) == entry
    signer = Signer(bytes(range(32)))
    proof = ledger.prove(ledger.entries_of("run-1"), signer)
    kinds = [proven["entry"]["kind"] for proven in proof["entries"]]
    assert kinds == ["charge_reserved", "grant_opened", "noise_drawn", "version_published"]
    assert signature_holds(signer.public_key, "checkpoint", proof["checkpoint"], proof["signature"])
    for proven in proof["entries"]:
        told = entry_from_json(proven["entry"])
        size, root = proof["checkpoint"]["size"], proof["checkpoint"]["root"]
        assert root_from_proof(told.hash, told.sequence, size, proven["path"]) == root


def test_the_journal_does_not_tell_where_the_source_lies(ledger: Ledger) -> None:
    ledger.reserve(request())
    body = ledger.entries_of("run-1")[0].body
    assert "people.parquet" not in str(body)


# --- the journal --------------------------------------------------------------------------------------------


def database(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "ledger.sqlite")


@pytest.mark.parametrize("statement", ["UPDATE journal SET at = 'never'", "DELETE FROM journal WHERE sequence = 1"])
def test_the_database_itself_refuses_to_change_the_journal(tmp_path: Path, statement: str) -> None:
    ledger_with_account(tmp_path).close()
    with database(tmp_path) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)


@pytest.mark.parametrize(
    ("tampering", "named"),
    [
        ("UPDATE journal SET body = replace(body, '3000000000000', '9000000000000') WHERE sequence = 1", "hash"),
        ("DELETE FROM journal WHERE sequence = 1", "sequence"),
        ("UPDATE accounts SET spent = 0", "balance"),
        ("UPDATE accounts SET cap = cap * 2", "balance"),
    ],
)
def test_verification_finds_what_somebody_changed_behind_the_triggers(
    tmp_path: Path, tampering: str, named: str
) -> None:
    ledger = ledger_with_account(tmp_path)
    ledger.reserve(request())
    assert ledger.verify() == []
    with database(tmp_path) as connection:
        for action in ("UPDATE", "DELETE"):
            connection.execute(f"DROP TRIGGER journal_refuses_{action}")
        connection.execute(tampering)
    assert named in {finding.field for finding in ledger.verify()}


def test_two_writers_cannot_append_after_the_same_entry(tmp_path: Path) -> None:
    ledger = ledger_with_account(tmp_path)
    with pytest.raises(LedgerConflict):
        append_after_the_same_entry(ledger)


def append_after_the_same_entry(ledger: Ledger) -> None:
    with ledger._store.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO journal (sequence, previous, hash, kind, at, body) "
            "SELECT sequence + 9, previous, 'other', kind, at, body FROM journal WHERE sequence = 1"
        )


# --- the database -------------------------------------------------------------------------------------------


def test_a_ledger_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    with database(tmp_path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(LedgerUnavailable, match="schema version 99"):
        open_ledger(tmp_path)


def test_a_database_that_cannot_be_opened_is_a_fault_not_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable) as unavailable:
        Ledger(f"sqlite:///{tmp_path / 'missing' / 'ledger.sqlite'}", draws=tmp_path)
    assert unavailable.value.exit_code == 1
    with pytest.raises(LedgerUnavailable, match="sqlite"):
        Ledger("mysql://nowhere/ledger", draws=tmp_path)


CHARGER = """
import sys
from fractions import Fraction
from pathlib import Path
from privacy.ledger.errors import BudgetExceeded
from privacy.marginals.sensitivity import LaplaceNoise
from tests.privacy.ledgers import open_ledger, request
folder, name = Path(sys.argv[1]), sys.argv[2]
ledger = open_ledger(folder)
admitted = 0
for number in range(20):
    try:
        ledger.reserve(request(f"{name}-{number}", noise=(LaplaceNoise(Fraction(1, 20)),)))
        admitted += 1
    except BudgetExceeded:
        pass
print(admitted)
"""


def test_processes_that_charge_at_once_never_pass_the_cap(tmp_path: Path) -> None:
    """Six processes ask for 120 charges of ε = 0.05 on a cap of 3: exactly 60 are admitted."""
    ledger_with_account(tmp_path).close()
    command = [sys.executable, "-c", CHARGER, str(tmp_path)]
    processes = [subprocess.Popen([*command, f"p{i}"], stdout=subprocess.PIPE, text=True) for i in range(6)]
    admitted = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(admitted) == 60
    ledger = open_ledger(tmp_path)
    assert ledger.account("people-2024").remaining == 0
    assert ledger.verify() == []


@pytest.mark.parametrize("calculus", CALCULI, ids=lambda calculus: calculus.kind)
def test_opening_an_account_whose_cap_leaves_no_room_is_refused(tmp_path: Path, calculus: Calculus) -> None:
    from privacy.accounting.amounts import AmountRefused

    with pytest.raises(AmountRefused):
        open_ledger(tmp_path).open_account(terms(calculus, epsilon=0))
