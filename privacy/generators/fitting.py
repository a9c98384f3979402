"""One fit on its way: it measures and chooses through the grant, and estimates a model from what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final

from contracts.contract.impossible_cells import Clique
from privacy.generators.generator import (
    CountsSource,
    FitProgress,
    Fitted,
    Model,
    OutOfTime,
    SynthesisTask,
)
from privacy.generators.models import PublishedModel
from privacy.generators.options import Options
from privacy.generators.spending import Spending
from privacy.grant.draws import Draws
from privacy.grant.measurement import Measurement, Selection
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.estimation import STEPS, estimate
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.measured import Measured, StructuralZeros, estimate_total
from privacy.marginals.scores import Candidate, Score
from privacy.marginals.triangulation import model_size

Stopwatch = Callable[[], float]
ROUGH_TOLERANCE: Final = 0.02
"""Where estimation of a larger model between draws stops: a gap of so many noise variances a measured cell."""
SMALL_TOLERANCE: Final = 0.01
SMALL_STEPS: Final = 3
SMALL_MODEL: Final = 2.0
MANY_CLIQUES: Final = 100
"""Models up to these [MB, cliques] are estimated more finely between draws: 1 to 4 % lower errors for three times the
time, which is short there."""
LARGE_MODEL: Final = 8.0
"""Models above it are estimated in one step: a third of the time, and errors that differ by less than 1 % [MB]."""


class MarginalGenerator:
    """What generators of marginals have alike: they ask for marginals alone, of which their model is `fitted_model`.

    Args:
        clock: seconds since any moment; for the time limit.
    """

    reads_rows: ClassVar[bool] = False
    takes_copies: ClassVar[bool] = True

    def __init__(self, clock: Stopwatch = time.monotonic) -> None:
        self._clock = clock


class Fitting:
    """The state of a fit; all that it holds is released, the handles apart, which it cannot open.

    Args:
        asked: what is asked for.
        options: the options common to all.
        counts: where handles come from.
        grant: draws.
        progress: told how far it is.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        task: SynthesisTask,
        options: Options,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        clock: Stopwatch = time.monotonic,
    ) -> None:
        self.asked = task
        self.options = options
        self.spending = Spending(task, options.noise)
        self.measurements: list[Measurement] = []
        self.selections: list[Selection] = []
        self.progress = progress
        self._counts, self._grant = counts, grant
        self._handles: dict[Clique, PrivateCounts] = {}
        self._clock, self._began = clock, clock()

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        limit = self.options.time_limit
        return limit is not None and self._clock() - self._began >= limit

    def refuse_late(self, what: str) -> None:
        """Refuse to go on when the time limit has passed and there is no model yet.

        Raises:
            OutOfTime: what was drawn stays charged; a run that resumes replays it.
        """
        if self.late:
            raise OutOfTime(
                f"time_limit {self.options.time_limit:g} s has passed before the {what} were measured; "
                "do: run the same spec again, which replays what was measured and goes on from there; with another "
                "time_limit it is another release, and is charged anew"
            )

    def ended_early(self, nothing_measured: bool) -> bool:
        """Say whether the time limit ends the choices here, or ended them here when this fit was first made.

        A fit that is made again, after a crash or by who checks it, comes to the same end whatever its clock says:
        a choice is due, and not it but the next measurement was drawn.

        Args:
            nothing_measured: then there is no model to end with.
        Raises:
            OutOfTime: it ends here, and nothing was measured.
        """
        if self.options.time_limit is None or self._grant.holds(self._key_of_choice):
            return False
        if nothing_measured:
            self.refuse_late("first marginal")
        return self.late or self._grant.holds(self._key_of_measurement)

    @property
    def _key_of_measurement(self) -> str:
        # A draw's key is its place in the order: the same fit run again finds it.
        return f"measurement-{len(self.measurements) + 1:04d}"

    @property
    def _key_of_choice(self) -> str:
        return f"choice-{len(self.selections) + 1:04d}"

    def look_up(self, cliques: Sequence[Clique]) -> None:
        """Get handles for many cliques at once, so that they can be counted in one scan."""
        new = [clique for clique in dict.fromkeys(cliques) if clique not in self._handles]
        if new:
            self._handles.update(zip(new, self._counts.marginals(new), strict=True))

    def measure(self, clique: Clique, part: Fraction) -> Measurement:
        """Measure a clique for a share of the budget."""
        self.look_up([clique])
        key = self._key_of_measurement
        drawn = self._grant.draw(MarginalQuery(self._handles[clique], self.spending.buys(part)), key=key)
        self.spending.take(drawn.event)
        self.measurements.append(drawn)
        return drawn

    def choose(self, scores: Mapping[Clique, Score], part: Fraction) -> Selection:
        """Choose one of the cliques for a share of the budget."""
        self.look_up(list(scores))
        candidates = [Candidate(self._handles[clique], score) for clique, score in scores.items()]
        key = self._key_of_choice
        chosen = self._grant.draw(ChoiceQuery(tuple(candidates), self.spending.chooses(part)), key=key)
        self.spending.take(chosen.event)
        self.selections.append(chosen)
        return chosen

    def total(self) -> float:
        """Return the number of rows: the public one, or the one estimated from what was measured [rows]."""
        return total_of(self.asked, [*self._measured(), *self.asked.known])

    def rough(self, start: GraphicalModel | None = None) -> GraphicalModel:
        """Return a model that is good enough to choose by, while more measurements are to come."""
        cliques = {one.clique for one in [*self._measured(), *self._known()]} | set(self.asked.impossible)
        if len(cliques) <= MANY_CLIQUES and model_size(self.asked.domain, list(cliques)) <= SMALL_MODEL:
            return self._estimate(start, steps=SMALL_STEPS, tolerance=SMALL_TOLERANCE)
        return self._estimate(start, steps=1, tolerance=ROUGH_TOLERANCE)

    def final(self, start: GraphicalModel | None = None, notes: Sequence[str] = ()) -> Fitted[Model]:
        """Estimate the model that fits best, and return it with all that was drawn."""
        self.progress(0.95, "estimating")
        measured = [*self._measured(), *self._known()]
        model = fitted_model(self.asked, self.options, measured, self.total(), start)
        return Fitted(model, (*self.measurements, *self.selections), tuple(notes))

    def _estimate(self, start: GraphicalModel | None, **precision: Any) -> GraphicalModel:
        measured = [*self._measured(), *self._known()]
        return _estimate(self.asked, self.options, measured, self.total(), start, **precision)

    def _measured(self) -> list[Measured]:
        return released_counts(self.measurements)

    def _known(self) -> Sequence[Measured]:
        """Return what was known before, as far as the model's cap allows beside what was measured."""
        cliques = [*self.asked.impossible, *(one.clique for one in self.measurements)]
        cap, whole = self.options.max_model_megabytes, [*cliques, *(one.clique for one in self.asked.known)]
        if not self.asked.known or model_size(self.asked.domain, whole) <= cap:
            return self.asked.known
        fitting: list[Measured] = []
        for one in self.asked.known:
            if model_size(self.asked.domain, [*cliques, one.clique]) <= cap:
                fitting.append(one)
                cliques.append(one.clique)
        return fitting


def released_counts(measurements: Sequence[Measurement]) -> list[Measured]:
    """Return noisy marginals as a model is fitted to them."""
    return [Measured(one.clique, one.values, one.variance) for one in measurements]


def zeros(task: SynthesisTask) -> tuple[StructuralZeros, ...]:
    """Return the structural zeros as the engine takes them."""
    return tuple(StructuralZeros(clique, mask) for clique, mask in task.impossible.items())


def total_of(task: SynthesisTask, measured: Sequence[Measured]) -> float:
    """Return the public number of rows, or the one estimated from what was measured [rows]."""
    return estimate_total(measured) if task.public_total is None else float(task.public_total)


def fitted_model(
    task: SynthesisTask,
    options: Options,
    measured: Sequence[Measured],
    total: float,
    start: GraphicalModel | None = None,
) -> PublishedModel:
    """Return the model that fits noisy marginals best, in whole numbers.

    Args:
        task: gives domain and structural zeros.
        options: give the model's cap.
        measured: the noisy marginals.
        total: public or estimated number of rows; may be negative [rows].
        start: where the search starts; it changes the time alone.
    Privacy: post-processing.
    """
    size = model_size(task.domain, [*task.impossible, *(one.clique for one in measured)])
    found = _estimate(task, options, measured, total, start, steps=STEPS if size <= LARGE_MODEL else 1)
    # The estimate may be negative; a number of rows is not.
    return PublishedModel.of(found, max(0, round(total)))


def _estimate(
    task: SynthesisTask,
    options: Options,
    measured: Sequence[Measured],
    total: float,
    start: GraphicalModel | None,
    **precision: Any,
) -> GraphicalModel:
    """Estimate; a model of one row where the total is 0 or negative."""
    found = estimate(
        task.domain,
        measured,
        total=max(total, 1.0),
        structural_zeros=zeros(task),
        start=start,
        cap_mb=options.max_model_megabytes,
        **precision,
    )
    return found.model
