"""A copy of a ledger is the ledger, in either database; what is no whole copy fills nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import SudareError
from privacy.grant.grant import open_grant
from privacy.ledger.backup import dump, restore
from privacy.ledger.entries import LedgerRefusal, LedgerUnavailable
from privacy.ledger.ledger import Ledger
from tests.privacy.conftest import Databases, NewPlace
from tests.privacy.ledger.ledgers import Place, laplace, ledger_with_account, published, request

NOISE = laplace(0.1)


def _filled(place: Place) -> Ledger:
    ledger = ledger_with_account(place)
    for run in ("run-1", "run-2"):
        published(ledger, run, noise=NOISE)
    ledger.reserve(request("run-3", noise=NOISE))
    return ledger


def test_what_comes_back_is_the_ledger_in_either_database(
    place: Place, sqlite_databases: Databases, postgres_databases: Databases, tmp_path: Path
):
    """From each store into both: the journal entry by entry, balances, and it goes on where it was."""
    ledger = _filled(place)
    entries = dump(place.url, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert entries == len(ledger.journal())
    for number, databases in enumerate((sqlite_databases, postgres_databases)):
        url = databases.new(tables=False)
        assert restore(tmp_path / "copy", url, public_key=None) == entries
        back = Ledger(url, draws=tmp_path / f"draws-{number}")
        assert back.journal() == ledger.journal()
        assert back.accounts() == ledger.accounts()
        assert back.verify() == []
        assert open_grant(back, "run-3") is not None
        back.close()
        databases.drop(url)


def test_a_ledger_is_never_overwritten_and_a_copy_neither(place: Place, tmp_path: Path):
    _filled(place)
    dump(place.url, tmp_path / "copy")
    with pytest.raises(LedgerRefusal, match="never overwritten"):
        restore(tmp_path / "copy", place.url, public_key=None)
    with pytest.raises(LedgerRefusal, match="not replaced"):
        dump(place.url, tmp_path / "copy")
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        dump(f"sqlite:///{tmp_path / 'nothing.sqlite'}", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def _cut(lines: list[str]) -> list[str]:
    return lines[:-1]


def _raised_cap(lines: list[str]) -> list[str]:
    """More under a cap than the journal says."""
    changed = [json.loads(line) for line in lines]
    for value in changed:
        if value.get("table") == "accounts":
            value["row"]["cap"] *= 2
    return [json.dumps(value) for value in changed]


@pytest.mark.parametrize(
    "forged", [_cut, _raised_cap, lambda lines: lines[1:], lambda lines: lines[:3] + lines[4:], lambda lines: ["{}"]]
)
def test_what_is_no_whole_copy_fills_nothing(
    new_place: NewPlace, tmp_path: Path, forged: Callable[[list[str]], list[str]]
):
    """A file that was cut, changed or is something else is refused, and the database stays empty."""
    place, empty = new_place(), new_place(tables=False)
    _filled(place)
    dump(place.url, tmp_path / "copy")
    lines = (tmp_path / "copy").read_text().splitlines()
    (tmp_path / "forged").write_text("\n".join(forged(lines)) + "\n")
    with pytest.raises(SudareError):
        restore(tmp_path / "forged", empty.url, public_key=None)
    assert restore(tmp_path / "copy", empty.url, public_key=None) > 0
