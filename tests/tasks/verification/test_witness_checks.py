"""Rule 15: a cosignature counts where its line holds and its time can be; what is wrong is named by witness."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from privacy.ledger.journal.notes import COSIGNATURE, TreeHead, VerifierKey, cosign_note
from privacy.ledger.journal.signing import SeedKey, Signer
from tasks.verification.witness_checks import check_witnesses, pinned_policy

NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)
SIGNER = Signer(bytes([7]) * 32)
WITNESS = SeedKey(bytes([8]) * 32)
KEY = VerifierKey("witness.example/a", WITNESS.public, COSIGNATURE)
POLICY = pinned_policy(f"witness a {KEY.text}\nquorum a\n", "policy")


def cosigned_at(time: int) -> str:
    note = SIGNER.note(TreeHead(SIGNER.verifier.name, 3, "0" * 64).text)
    return note.signed_by(cosign_note(note.text, KEY, WITNESS.sign, time=time)).to_bytes().decode()


@pytest.mark.parametrize("ahead", [-86_400, 0, 3600])
def test_a_witness_whose_clock_is_an_hour_ahead_counts(ahead: int) -> None:
    findings, notes = check_witnesses(cosigned_at(int(NOW.timestamp()) + ahead), POLICY, now=NOW)
    assert findings == []
    assert notes[0].startswith("witness a saw this journal at 2026-11-2")


@pytest.mark.parametrize("time", [0, int(NOW.timestamp()) + 3601, 2**62, 2**63 - 1])
def test_a_time_that_cannot_be_is_a_finding_by_name_and_its_line_does_not_count(time: int) -> None:
    """Its signature holds: whoever has the witness's key made it. No number stops the checker."""
    findings, notes = check_witnesses(cosigned_at(time), POLICY, now=NOW)
    assert [finding.field for finding in findings] == ["witness a", "cosignatures"]
    assert findings[0].found.startswith(f"time {time}")
    assert findings[0].remedy
    assert notes == []


@pytest.mark.parametrize(
    ("days", "holds"), [(0, True), (-1, True), (29, True), (-2, False), (33, False), (7 * 365, False)]
)
def test_the_journals_dates_are_those_at_which_witnesses_saw_it(days: int, holds: bool) -> None:
    """A journal that is dated 2019 and was first seen in 2026 was dated by a clock that was wrong, or by choice."""
    seen = cosigned_at(int(NOW.timestamp()) - 3600)
    published = NOW - timedelta(days=days, hours=1)
    findings, notes = check_witnesses(seen, POLICY, now=NOW, published=published)
    assert [finding.field for finding in findings] == ([] if holds else ["version_published, date"])
    assert len(notes) == 1
