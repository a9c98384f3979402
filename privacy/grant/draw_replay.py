"""Compare a draw that was made before with the one that a run asks for again."""

from __future__ import annotations

from typing import Final

from privacy.accounting.events import event_from_json
from privacy.grant.measurement import DrawRequest
from privacy.ledger.draw_files import Draw
from privacy.ledger.entries import LedgerRefusal, refusal

SPOILED: Final = "spoiled"
"""Marks a draw that failed after the exact numbers were there."""
LOST: Final = "lost"
"""Marks an attempt that was begun and never finished: it is paid, and its values never were."""


def check_replay(draw: Draw, request: DrawRequest, *, security: str | None, where: str) -> None:
    """Refuse to replay a draw that is spoiled, or that was drawn for something else.

    Args:
        draw: what was written down.
        request: what is asked for.
        security: what the charge's noise comes from.
        where: whose grant it is.
    Raises:
        LedgerRefusal: nothing is drawn.
    """
    if SPOILED in draw.about:
        raise spoiled_draw(where, draw.key, "an earlier run")
    wanted = (request.key, request.clique, request.event, dict(request.about), security)
    if wanted != (draw.key, draw.clique, event_from_json(dict(draw.event)), dict(draw.about), draw.security):
        raise refusal(
            where,
            f"draw {draw.number}",
            _named(request.key, request.clique) + _other_terms(draw, request),
            f"{_named(draw.key, draw.clique)}, as it was drawn before",
            "a run that resumes asks for the same draws in the same order: use the software that it began with",
        )


def _named(key: str, clique: tuple[str, ...]) -> str:
    """Name a draw and its columns; totals, sums, votes and trainings have none, and are of all rows."""
    return f"{key!r} of {'×'.join(clique) or 'all rows'}"


def _other_terms(draw: Draw, request: DrawRequest) -> str:
    """Say what else is another one, where key and columns are the same."""
    if (request.key, request.clique) != (draw.key, draw.clique):
        return ""
    if request.event != event_from_json(dict(draw.event)):
        return ", with other noise"
    asked, drawn = dict(request.about), dict(draw.about)
    other = [name for name in sorted({*asked, *drawn}) if asked.get(name) != drawn.get(name)]
    return f", of something else ({', '.join(other)})" if other else ", from other randomness"


def spoiled_draw(where: str, key: str, kind: str) -> LedgerRefusal:
    """Say that a draw failed while it was made, and is paid."""
    return refusal(
        where,
        f"draw {key!r}",
        f"it failed while noise was drawn ({kind})",
        "a draw that succeeds at once: it stays charged, and is not made again",
        "start another release; report the failure",
    )
