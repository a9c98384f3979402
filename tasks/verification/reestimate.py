"""Rule 11, asked for by `--deep`: fit the model again from the published measurements and choices, and compare.

The generator itself is run again, with a grant that draws nothing: it hands out what was published, in the order in
which it is asked for, and refuses anything else. So it is checked, too, that measurements and choices are those that
this generator with these options makes, given the answers before them; that a choice names the candidate at its
place; and that nothing was measured beside. Estimation is floating point: the models are compared by their marginals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import combinations, islice
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from contracts.errors import Finding, SudareError
from privacy.accounting.events import ExponentialMechanism
from privacy.audit.readable import printable, shown
from privacy.audit.synthetic import DrawnEvent, SyntheticMeaning
from privacy.audit.synthetic_statements import SyntheticDraw, SyntheticReplay
from privacy.generators.generator import Generator, Model, OutOfTime
from privacy.generators.registry import generator
from privacy.generators.release_plan import plan_synthetic
from privacy.learning.layout import row_layout
from privacy.learning.rows import PrivateRows
from privacy.ledger.grant import Grant, Measurement, Selection
from privacy.marginals.counts import Clique, PrivateCounts
from privacy.marginals.scores import Candidate
from privacy.marginals.sensitivity import Noise, noise_event
from privacy.marginals.uncertainty import variance
from tasks.progress import Bar
from tasks.verification.published_model import UNREADABLE

TOLERANCE: Final = 0.005
"""Largest L1 distance of two marginals, of each over their number of rows, that is passed over."""
_MOST_PAIRS: Final = 300
"""Pairs of columns that are compared beside all that was measured, from which the other pairs follow."""
_MOST_CELLS: Final = 2**22
_OTHER_FIT: Final = "the model is not what the generator makes of the published measurements: do not use this version"
_WHERE: Final = "model"


class OtherDraw(SudareError):
    """The generator asks for something else than what was published."""


def reestimate(
    replay: SyntheticReplay,
    events: Sequence[DrawnEvent],
    values: Mapping[str, NDArray[np.int64]],
    meaning: SyntheticMeaning,
    published: Model,
    bar: Bar,
) -> tuple[list[Finding], list[str]]:
    """Fit again, and compare the models.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        values: the published noisy marginals, by key of the draw, in their shapes.
        meaning: contract and product.
        published: the published model.
        bar: told how far it is.
    Returns:
        tuple: what is wrong, and what could not be checked.
    """
    try:
        epsilon, delta = Decimal(replay.charge.epsilon), Decimal(replay.charge.delta)
        made_by: Generator[Any] = generator(meaning.product.generator)
        options = made_by.options.model_validate(meaning.product.options)
        unlimited = options.model_copy(update={"time_limit": None}) if hasattr(options, "time_limit") else options
        plan = plan_synthetic(meaning.product, meaning.contract, unlimited, epsilon=epsilon, delta=delta)
    except (SudareError, ValidationError, InvalidOperation, ValueError) as error:
        return [], [f"the fit: this installation cannot plan it ({printable(str(error))})"]
    grant = _PublishedDraws(replay, events, values, meaning)
    try:
        fitted = made_by.fit(plan.asked, unlimited, plan.made, _NoCounts(meaning), cast(Grant, grant), bar.advance)
    except OutOfTime:
        return [], ["the fit: it was stopped by its time limit, and cannot be followed from there"]
    except UNREADABLE as error:
        allowed = "the draws that the generator asks for"
        return [Finding(_WHERE, "the fit", printable(str(error)), allowed, _OTHER_FIT)], []
    findings = []
    limited = getattr(options, "time_limit", None) is not None
    if grant.asked != len(replay.draws) or (grant.ran_out and not limited):
        wanted = "more than these" if grant.ran_out else f"the {grant.asked} that the generator asks for"
        findings.append(Finding(_WHERE, "the draws", f"{len(replay.draws)} draws", wanted, _OTHER_FIT))
    return findings + _compare(published, fitted.model, [draw.clique for draw in replay.draws]), []


def _compare(published: Model, again: Model, drawn: Sequence[Clique]) -> list[Finding]:
    """Compare the models by number of rows, form, and the marginals that were measured and those of all pairs.

    A model of the same cliques has no other distribution with the same marginals on them; one of larger cliques
    could hold what was never measured, and agree on all that was.
    """
    findings = []
    stated, found_again = (_form(model) for model in (published, again))
    if stated != found_again:
        differing = sorted(name for name in stated.keys() | found_again if stated.get(name) != found_again.get(name))
        found, allowed = shown(stated.get(differing[0])), f"{shown(found_again.get(differing[0]))}, estimated again"
        findings.append(Finding(_WHERE, printable(differing[0]), found, allowed, _OTHER_FIT))
    if abs(published.rows - again.rows) > TOLERANCE * max(again.rows, 1) + 1:
        findings.append(Finding(_WHERE, "rows", str(published.rows), f"{again.rows}, estimated again", _OTHER_FIT))
    names = published.domain.columns
    cliques = {tuple(name for name in names if name in clique): None for clique in drawn if clique}
    cliques |= dict.fromkeys((name,) for name in names)
    small = (pair for pair in combinations(names, 2) if published.domain.cells(pair) <= _MOST_CELLS)
    cliques |= dict.fromkeys(islice(small, _MOST_PAIRS))
    worst: tuple[float, Clique] = (0.0, ())
    for clique in cliques:
        one, other = (_shares(model.marginal(clique)) for model in (published, again))
        worst = max(worst, (float(np.abs(one - other).sum()), clique))
    if worst[0] > TOLERANCE:
        field = f"marginal of {printable(' × '.join(worst[1]))}"
        found, allowed = f"an L1 distance of {worst[0]:.4g}", f"at most {TOLERANCE} from the model estimated again"
        findings.append(Finding(_WHERE, field, found, allowed, _OTHER_FIT))
    return findings


def _form(model: Model) -> dict[str, Any]:
    """Return what a model consists of beside its numbers, such as its cliques."""
    values, arrays = model.to_arrays()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    return {**{name: value for name, value in values.items() if name != "rows"}, "shapes": shapes}


def _shares(marginal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a marginal as shares; all zero where it has no rows."""
    total = float(marginal.sum())
    return marginal / total if total > 0 else marginal


class _NoCounts:
    """A source of handles that nobody can open."""

    def __init__(self, meaning: SyntheticMeaning) -> None:
        self._contract = meaning.contract

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique."""
        digest = self._contract.digest
        return tuple(PrivateCounts(each, self._contract.shape(each), "", digest, _refuse) for each in cliques)

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on rows."""
        return PrivateRows(row_layout(self._contract, names), "", self._contract.digest, _refuse)


def _refuse() -> NoReturn:
    raise OtherDraw("exact counts were asked for; a published version has none")


class _PublishedDraws:
    """Stands in for the grant: what was published, in its order.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        values: the noisy marginals, by key.
        meaning: contract and product.
    """

    def __init__(
        self,
        replay: SyntheticReplay,
        events: Sequence[DrawnEvent],
        values: Mapping[str, NDArray[np.int64]],
        meaning: SyntheticMeaning,
    ) -> None:
        self._draws, self._events, self._values = replay.draws, events, values
        self._terms = meaning.contract.adjacency, meaning.contract.unit.max_rows_per_unit
        self.asked = 0
        self.ran_out = False

    def measure(self, counts: PrivateCounts, *, noise: Noise, key: str) -> Measurement:
        """Hand out the published marginal, if it is the one that is asked for."""
        draw, event = self._next(key)
        wanted = noise_event(noise, adjacency=self._terms[0], rows_per_unit=self._terms[1])
        if isinstance(event, ExponentialMechanism) or (draw.clique, event) != (counts.clique, wanted):
            raise OtherDraw(
                f"draw {key!r}: {wanted.kind} on {'×'.join(counts.clique)} was asked for, not what is there"
            )
        return Measurement(key, draw.clique, self._values[key], event, variance(event), draw.number, draw.sha256)

    def select(self, candidates: Sequence[Candidate], *, epsilon: Fraction, key: str) -> Selection:
        """Hand out the published choice, if it was made among these candidates."""
        draw, event = self._next(key)
        index = -1 if draw.index is None else draw.index
        if event != ExponentialMechanism(epsilon) or not 0 <= index < len(candidates):
            raise OtherDraw(f"draw {key!r}: a choice among {len(candidates)} was asked for, not what is there")
        if candidates[index].clique != draw.clique:
            named = "×".join(candidates[index].clique)
            raise OtherDraw(f"draw {key!r}: candidate {index} is {named}, not {'×'.join(draw.clique)}")
        return Selection(key, index, draw.clique, ExponentialMechanism(epsilon), draw.number, draw.sha256)

    def _next(self, key: str) -> tuple[SyntheticDraw, DrawnEvent]:
        if self.asked >= len(self._draws):
            self.ran_out = True
            raise OutOfTime(f"draw {key!r} was not published")
        draw, event = self._draws[self.asked], self._events[self.asked]
        if draw.key != key:
            raise OtherDraw(f"draw {key!r} was asked for, where {shown(draw.key)} was published")
        self.asked += 1
        return draw, event
