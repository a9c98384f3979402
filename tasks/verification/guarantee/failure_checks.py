"""Do selections of keys stay within what each account has set aside for them? For every account that was charged.

1. an account that sets a part of its δ aside states the sum of failures before and after the charge; no other does
2. after is before and what the charge's selections may fail with, recomputed from the events by independent code
3. after is within what is set aside, and that within the account's δ
4. a selection is charged to no account that sets nothing aside
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from contracts.errors import Finding
from privacy.accounting.amounts import ATTO, atto_to_text
from tasks.records.model.journal_statements import AccountBody, TakenStatement
from tasks.records.strict_json import printable
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.loss import NotRecomputable, recompute_failure, set_aside

_OVERSPENT: Final = (
    "more selections of keys were charged than the account's terms allow: ask the publisher for the journal"
)


def check_failures(account: AccountBody, part: TakenStatement, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check the second sum of one account; empty where it holds, or has nothing to hold.

    Args:
        account: as it was opened.
        part: what the charge took from it.
        run: the run as the journal has it.
        where: the proof's file name.
    """
    field = printable(f"account {account.name}, failures")
    try:
        aside = set_aside(account.calculus)
        # Each event is rounded up by itself, as it is charged.
        failure = sum(ceil(recompute_failure([event]) * ATTO) for event in run.charge.events)
    except NotRecomputable as error:
        return [Finding(where, field, printable(str(error)), "selections of a known failure", _OVERSPENT)]
    wrong = _wrong(part.failure_before, part.failure_after, failure=failure, aside=aside, delta=account.delta)
    return [Finding(where, field, found, allowed, _OVERSPENT) for found, allowed in wrong]


def _wrong(
    before: int | None, after: int | None, *, failure: int, aside: int, delta: int
) -> Iterator[tuple[str, str]]:
    """Yield what does not hold: found and allowed."""
    if not aside:
        if failure:
            yield f"selections that may fail with {atto_to_text(failure)}", "none: it sets nothing aside for them"
        if (before, after) != (None, None):
            yield "a sum of failures", "none: it sets nothing aside for them"
        return
    if aside > delta:
        yield f"{atto_to_text(aside)} set aside", f"at most {atto_to_text(delta)}, its δ"
    if before is None or after is None:
        yield "none stated", "the sums before and after, as it sets a part of δ aside"
        return
    if after != before + failure:
        yield (
            f"{atto_to_text(after)} after",
            f"{atto_to_text(before + failure)}: before, and what the events fail with",
        )
    if after > aside:
        yield f"{atto_to_text(after)} after", f"at most {atto_to_text(aside)}, which is set aside"
