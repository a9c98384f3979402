"""The clock before a charge: far ahead of the journal's last entry, the operator says whether it is right."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from flows.periods.clock import ClockAhead, check_clock
from privacy.ledger.ledger import Ledger
from tasks.storage.workspace.settings import FILE, Workspace


def test_a_clock_far_ahead_of_the_journal_has_to_be_confirmed(tmp_path: Path) -> None:
    """Else one run at 2031 would leave every honest one until then behind. How far is a setting of the workspace."""
    made = Workspace.create(tmp_path / "w")
    now = ["2026-01-01T00:00:00Z"]
    ledger = Ledger(made.ledger_url, draws=made.draws, clock=lambda: now[0])
    with closing(ledger):
        check_clock(ledger, made.clock_ahead, accepted=False)
        now[0] = "2027-02-05T00:00:00Z"
        check_clock(ledger, made.clock_ahead, accepted=False)
        now[0] = "2027-02-06T00:00:00Z"
        with pytest.raises(ClockAhead) as refused:
            check_clock(ledger, made.clock_ahead, accepted=False)
        check_clock(ledger, made.clock_ahead, accepted=True)
    [finding] = refused.value.findings
    assert (finding.found, refused.value.exit_code) == (now[0], 4)
    assert "400 days after 2026-01-01T00:00:00Z" in finding.allowed
    settings = made.root / FILE
    settings.write_text(settings.read_text().replace('ahead = "400 days"', 'ahead = "3 days"'))
    assert Workspace.open(made.root).clock_ahead == 3
