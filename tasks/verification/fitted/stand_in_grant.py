"""A grant that draws nothing: it hands out what was published, in its order, and refuses anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from contracts.contract.impossible_cells import Clique
from contracts.errors import SudareError
from privacy.accounting.events import DiscreteGaussian, ExponentialMechanism
from privacy.generators.generator import OutOfTime
from privacy.grant.measurement import Measurement, ParameterMeasurement, Selection, SumMeasurement
from privacy.learning.execution import Execution
from privacy.learning.layout import row_layout
from privacy.learning.learners import Learner, learner_digest
from privacy.learning.moments import Moments, sum_event
from privacy.learning.perturbed import Perturbation
from privacy.learning.plan import TrainingPlan
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained, unpacked
from privacy.learning.written_statistics import nearly
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import Candidate
from privacy.marginals.sensitivity import GaussianNoise, Noise, noise_event
from privacy.marginals.uncertainty import variance
from tasks.records.model.synthetic_statements import FittedReplay, SyntheticDraw
from tasks.records.strict_json import shown
from tasks.verification.fitted.model_distance import SHARE
from tasks.verification.fitted_meaning import FittedEvent, FittedMeaning

OptionsT = TypeVar("OptionsT", bound=BaseModel)


class OtherDraw(SudareError):
    """The generator asks for something else than what was published."""


@dataclass(frozen=True)
class PublishedValues:
    """What was published of the measurements.

    Args:
        noisy: the noisy values, by key of the draw, in their shapes.
        statistics: what was added up in sums over rows, by key of the draw.
    """

    noisy: Mapping[str, NDArray[np.int64]]
    statistics: Mapping[str, Moments]


def without_limit(options: OptionsT) -> OptionsT:
    """Return a fit's options without its time limit: what is published says how far it came."""
    return options.model_copy(update={"time_limit": None}) if hasattr(options, "time_limit") else options


class NoCounts:
    """A source of handles that nobody can open."""

    def __init__(self, meaning: FittedMeaning) -> None:
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


class PublishedDraws:
    """Stands in for the grant: what was published, in its order.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        values: the published noisy values.
        meaning: contract and product.
    """

    def __init__(
        self,
        replay: FittedReplay,
        events: Sequence[FittedEvent],
        values: PublishedValues,
        meaning: FittedMeaning,
    ) -> None:
        self._draws, self._events, self._values = replay.draws, events, values
        self._terms = meaning.contract.adjacency, meaning.contract.unit.max_rows_per_unit
        self.asked = 0
        self.ran_out = False

    def measure(self, counts: PrivateCounts, *, noise: Noise, key: str) -> Measurement:
        """Hand out the published marginal, if it is the one that is asked for."""
        draw, event = self._next(key)
        wanted = noise_event(noise, adjacency=self._terms[0], rows_per_unit=self._terms[1])
        if (draw.clique, event) != (counts.clique, wanted):
            raise OtherDraw(
                f"draw {key!r}: {wanted.kind} on {'×'.join(counts.clique)} was asked for, not what is there"
            )
        noisy = self._values.noisy[key]
        return Measurement(key, draw.clique, noisy, wanted, variance(wanted), draw.number, draw.sha256)

    def measure_sums(
        self, rows: PrivateRows, statistic: Moments, *, noise: GaussianNoise, key: str
    ) -> SumMeasurement:
        """Hand out the published sums, if they are those that are asked for.

        Axes, centres and the like were computed in floating point from sums before: those that were published count.
        """
        draw, event = self._next(key)
        wanted = sum_event(statistic, noise, adjacency=self._terms[0], rows_per_unit=self._terms[1])
        published = self._values.statistics.get(key)
        if published is None or event != wanted or not isinstance(event, DiscreteGaussian):
            raise OtherDraw(f"draw {key!r}: {wanted.kind} on sums over rows was asked for, not what is there")
        if not nearly(published, statistic, share=SHARE):
            raise OtherDraw(f"draw {key!r}: sums of another statistic were asked for, not of what is there")
        noisy = self._values.noisy[key]
        return SumMeasurement(key, published, noisy, event, variance(event), draw.number, draw.sha256)

    def train(
        self,
        rows: PrivateRows,
        learner: Learner,
        *,
        plan: TrainingPlan,
        key: str,
        execution: Execution,
        progress: Callable[[int, int], None] = lambda done, steps: None,
    ) -> Trained:
        """Hand out the published last checkpoint, if it is that of this training."""
        keys = tuple(f"{key}/{place:05d}" for place in range(plan.checkpoints))
        wanted = {"plan": plan.to_json(), "learner": learner_digest(learner)}
        for each in keys:
            while self.asked < len(self._draws) and self._draws[self.asked].key.startswith(f"{each}/lost-"):
                self.asked += 1
            draw, _ = self._next(each)
            stated = draw.training
            if stated is None or {"plan": stated.plan, "learner": stated.learner} != wanted:
                raise OtherDraw(f"draw {each!r}: another training was asked for, not what is there")
        from privacy.learning.training import TrainingState, state_size  # torch takes seconds to import

        words = self._values.noisy[keys[-1]]
        state = TrainingState.of(learner, unpacked(words, state_size(learner)))
        return Trained(learner, rows.layout, state.trained, keys, draw.sha256, plan, words)

    def perturb(
        self,
        rows: PrivateRows,
        perturbation: Perturbation,
        *,
        noise: Noise,
        key: str,
        progress: Callable[[int, int], None] = lambda done, draws: None,
    ) -> tuple[ParameterMeasurement, ...]:
        """Hand out the published parameters, if they are those of this training; of earlier draws nothing."""
        wanted = perturbation.event(noise, rows_per_unit=self._terms[1])
        made = []
        for place in range(perturbation.draws):
            draw, event = self._next(f"{key}/{place:05d}")
            stated = draw.parameters
            if stated is None or (stated.perturbation, event) != (perturbation.to_json(), wanted):
                raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
            values = self._values.noisy.get(draw.key, np.empty(0, np.int64))
            number = draw.number
            made.append(ParameterMeasurement(draw.key, perturbation, place, values, wanted, number, draw.sha256))
        return tuple(made)

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

    def _next(self, key: str) -> tuple[SyntheticDraw, FittedEvent]:
        if self.asked >= len(self._draws):
            self.ran_out = True
            raise OutOfTime(f"draw {key!r} was not published")
        draw, event = self._draws[self.asked], self._events[self.asked]
        if draw.key != key:
            raise OtherDraw(f"draw {key!r} was asked for, where {shown(draw.key)} was published")
        self.asked += 1
        return draw, event
