"""Was the version accepted by its tests? From the record alone.

1. candidates were tested in order, each by every criterion
2. each but the last missed one, and the last met all
3. the margin of each test keeps a model that misses the criterion from meeting it, but for the stated chance. What
   the bound of the last candidate is in rows follows from the published model; that of one that failed follows from
   its own model, which `--deep` fits again, where the number of rows is not public
"""

from __future__ import annotations

from typing import Final

from contracts.errors import Finding, SudareError
from contracts.release.acceptance import Acceptance, CellCriterion, acceptance_of
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.marginals.noise_tail import tail
from tasks.records.draws.acceptance import AcceptanceDraw
from tasks.records.model.synthetic_statements import SyntheticRecord, SyntheticReplay
from tasks.verification.fitted.modifier_checks import ModifierChecks
from tasks.verification.fitted_meaning import SyntheticMeaning

_NOT_ACCEPTED: Final = "the rows were not accepted by the criteria that they are published under: do not use them"
_ROUNDED: Final = 1 + 1e-6
"""By what share a chance that is computed in floats may be off."""


class AcceptedChecks(ModifierChecks):
    """The checks of candidates of which one was accepted."""

    def check_record(self, record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
        """Check that the version was accepted."""
        return check_accepted(record.replay, meaning, where=where)


def check_accepted(replay: SyntheticReplay, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
    """Check that the version was accepted: by these candidates, criteria, noisy distances and margins.

    Args:
        replay: the record's replay block, its tests checked one by one before.
        meaning: contract and product.
        where: the record's file name.
    """
    acceptance = acceptance_of(meaning.product)
    if acceptance is None:
        return []
    tests = [draw for draw in replay.draws if isinstance(draw, AcceptanceDraw)]
    # As many as there are tests: a stated number of candidates could be of any size.
    criteria = len(acceptance.criteria)
    number, rest = divmod(len(tests), criteria)
    wanted = [divmod(place, criteria) for place in range(len(tests))]
    if rest or not number or [(test.candidate, test.criterion) for test in tests] != wanted:
        allowed = f"every criterion of {criteria} for every candidate, in order"
        return [Finding(where, "replay.draws", f"{len(tests)} acceptance tests", allowed, _NOT_ACCEPTED)]
    findings = []
    for candidate in range(number):
        own = tests[candidate * criteria : (candidate + 1) * criteria]
        missed = [test.criterion + 1 for test in own if test.distance > test.passes_at]
        if (candidate == number - 1) == bool(missed):
            found = (
                f"candidate {candidate + 1} missed criterion {missed[0]}" if missed else "a candidate that met all"
            )
            allowed = "candidates that missed a criterion, then one that met all"
            findings.append(Finding(where, "replay.draws", found, allowed, _NOT_ACCEPTED))
    for place, draw in enumerate(replay.draws):
        if isinstance(draw, AcceptanceDraw):
            findings += _check_margin(draw, acceptance, replay, meaning, draw.candidate == number - 1, place, where)
    return findings


def _check_margin(
    draw: AcceptanceDraw,
    acceptance: Acceptance,
    replay: SyntheticReplay,
    meaning: SyntheticMeaning,
    accepted: bool,
    place: int,
    where: str,
) -> list[Finding]:
    """Check that a model which misses the criterion would hardly have met it."""
    criterion, total = acceptance.criteria[draw.criterion], meaning.contract.total
    known = replay.model.rows if accepted else None if total is None else total.value
    if known is None and not isinstance(criterion, CellCriterion):
        return []
    largest = criterion.largest(known or 0, len(criterion.cliques(meaning.names)))
    try:
        event = event_from_json(draw.event)
    except SudareError:
        return []  # refused where draws are read
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        return []
    chance, most = tail(event, largest - draw.passes_at + 1), float(acceptance.false_accept_each)
    if chance <= most * _ROUNDED:
        return []
    found = f"{draw.passes_at}, which a model beyond the bound of {largest} meets with a chance of {chance:.3g}"
    return [
        Finding(where, f"replay.draws[{place}].passes_at", found, f"a chance of at most {most:.3g}", _NOT_ACCEPTED)
    ]
