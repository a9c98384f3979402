"""Private choices: each is the one that was entered when it was made, and what was chosen is measured afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.queries.choice import ChoiceQuery
from tasks.records.draws.choice import ChoiceDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import read_json, shown
from tasks.verification.draws.draw_checks import DrawChecks, FittedMeaning, OtherDraw, PublishedValues
from tasks.verification.files.version_folder import OpenFiles
from tasks.verification.record_identity import OTHER
from tasks.verification.refinement_replay import values_sha256

CHOICES: Final = "measurements/choices.json"
_OTHER_CHOICES: Final = "the choices are not those that were made and paid for: do not use this version"


class ChoiceChecks(DrawChecks[ChoiceDraw, ChoiceQuery]):
    """The checks of private choices."""

    events = (ExponentialMechanism,)

    def check(
        self,
        placed: Sequence[tuple[int, ChoiceDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check each choice against what was entered, and against the draws after it."""
        return [finding for place, draw in placed for finding in _check_choice(draw, draws, place, where)]

    def files_beside(self, draws: Sequence[ChoiceDraw]) -> frozenset[str]:
        """One file for all choices."""
        return frozenset({CHOICES})

    def read_beside(
        self, draws: Sequence[ChoiceDraw], meaning: FittedMeaning, files: OpenFiles, findings: list[Finding]
    ) -> dict[str, Any]:
        """Check that the file has the choices of the record."""
        expected, data = [_entry(draw) for draw in draws], files.read(CHOICES, findings)
        if data is not None:
            found, wrong = read_json(data, where=CHOICES)
            findings += wrong
            if found != expected:
                allowed = f"the {len(expected)} choices of the record"
                findings.append(Finding(CHOICES, "the choices", shown(found), allowed, _OTHER_CHOICES))
        return {}

    def drawn(self, draw: ChoiceDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the place of the choice."""
        return np.array([draw.index])

    def matching(self, query: ChoiceQuery, draw: ChoiceDraw, values: PublishedValues) -> ChoiceQuery:
        """Compare the chosen candidate with the columns that are stated of it."""
        candidates = query.candidates
        if not draw.index < len(candidates):
            raise OtherDraw(f"draw {draw.key!r}: a choice among {len(candidates)} was asked for, not what is there")
        if candidates[draw.index].clique != draw.clique:
            named = "×".join(candidates[draw.index].clique)
            raise OtherDraw(f"draw {draw.key!r}: candidate {draw.index} is {named}, not {'×'.join(draw.clique)}")
        return query


def _entry(draw: ChoiceDraw) -> dict[str, Any]:
    """Return a choice as it must stand in its file."""
    return {
        "key": draw.key,
        "number": draw.number,
        "columns": list(draw.clique),
        "index": draw.index,
        "epsilon": draw.event.get("epsilon"),
    }


def _check_choice(draw: ChoiceDraw, draws: Sequence[FittedDraw], place: int, where: str) -> list[Finding]:
    at = f"replay.draws[{place}]"
    if draw.measurements is not None or draw.shape:
        return [
            Finding(where, at, "a choice with a marginal", "the place of what was chosen, and no marginal", OTHER)
        ]
    found = values_sha256(np.array([draw.index], dtype=np.int64))
    findings = []
    if found != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when the choice was made"
        findings.append(Finding(where, f"{at}.index", f"{draw.index}, SHA-256 {found}", allowed, OTHER))
    later = [set(each.clique) for each in draws[place + 1 :] if not isinstance(each, ChoiceDraw)]
    if set(draw.clique) not in later:
        allowed = "a choice whose columns are measured afterwards"
        findings.append(Finding(where, f"{at}.clique", shown(list(draw.clique)), allowed, OTHER))
    return findings
