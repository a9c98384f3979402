"""The benchmark's way of growing a journal writes what the ledger would have written."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchmarks._ledger_growth import grow
from benchmarks._ledger_places import SIGNER, connect, make_ledger, request


def test_a_grown_journal_holds_and_goes_on(tmp_path: Path) -> None:
    """A full check of 200 grown runs finds nothing, and the next charge is admitted behind them."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    make_ledger(url, tmp_path, epsilon=100)
    grow(url, tmp_path, until=1_000)
    with closing(connect(url, tmp_path)) as ledger:
        entries = len(ledger.journal())
        assert entries >= 1_000
        assert ledger.verify(public_key=SIGNER.public_key) == []
        ledger.reserve(request("next"))
        assert len(ledger.journal()) == entries + 1
