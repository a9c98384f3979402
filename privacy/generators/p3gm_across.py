"""P3GM over the rows of several sites: its sums and its training, planned and made of what was released.

The measurements, their order and shares of the budget, what is made of them, and the decoder are `p3gm`'s; here they
are planned as sums across sites, then as a training across sites calibrated to what the sums leave. Whoever has the
released sums works out the same centre, axes, mixture and learner from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Final

from privacy.accounting.amounts import AmountRefused
from privacy.arrays import Singles
from privacy.federation.plan import FederatedPlan, Trust, planned
from privacy.federation.plans import PhasedPlan, SumBounds, SummingPlan
from privacy.federation.rounds import RoundSum
from privacy.generators.decoder import DecoderModel
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.latent import PhasedOptions, check_relation, sum_noises
from privacy.generators.p3gm import ModelForm, P3gm
from privacy.generators.projection import Projected
from privacy.grant.measurement import SumMeasurement
from privacy.learning.layout import RowLayout
from privacy.learning.learners import LatentModel, learner_slots
from privacy.learning.mixture import Mixture
from privacy.learning.moments import Moments
from privacy.learning.network import CannotTrain
from privacy.learning.plan import checked_useful

FEDERATED: Final = frozenset(
    {
        *("label", "hidden", "learning_rate", "dimensions", "components", "labels", "rounds"),
        *("clip", "scale", "numbers", "first_share", "spread", "variance_hidden"),
        *("number_loss", "number_variance", "kl_weight", "latent_samples"),
    }
)
"""Options that a federation may give; the others are the federation's own, or each party's."""


@dataclass(frozen=True)
class Across:
    """Over which sites, and how the decoder is trained; public.

    Args:
        sites, rows_about, trust: as of `FederatedPlan`.
        rounds: of the decoder's training.
        batch: expected rows a round of it, of all sites together [rows].
        clipping_norm: of its gradients.
        reserve: lost attempts of it that may be made up for.
        sums_reserve: lost attempts of sums that may be made up for.
    """

    sites: tuple[str, ...]
    rows_about: tuple[int, ...]
    trust: Trust
    rounds: int
    batch: int
    clipping_norm: Fraction
    reserve: int
    sums_reserve: int


class P3gmAcross:
    """What the parties of a federation make of released sums.

    Args:
        asked: columns, relation and charge.
        options: of the generator.
        across: sites and training.
    Raises:
        CannotGenerate, CannotTrain: no such sums or training can be planned.
    Privacy: reads no data; `plan.person_events` together fit into the charge.
    """

    def __init__(self, task: SynthesisTask, options: PhasedOptions, across: Across) -> None:
        self._made_by, self._asked, self._options = P3gm(), task, options
        # Whatever decoder is asked for: sites always train.
        check_relation(task, self._made_by.name, instead="marginals")
        self._form: ModelForm = self._made_by.form(task, options)
        self.plan = _planned(task, options, self._form, across)

    @property
    def layout(self) -> RowLayout:
        """Of the rows that are added up."""
        return self._form.layout

    @property
    def trained_layout(self) -> RowLayout:
        """Of the rows that are trained on: without the label, where it owns components."""
        return self.layout.select(self._form.projection.names)

    def statistic(self, sums: Sequence[RoundSum]) -> Moments:
        """Return what is added up next, after these sums. Post-processing.

        Raises:
            IndexError: there is nothing more to add up.
        """
        # The fit runs over the released sums until it asks for one that is missing: the next one.
        told = _RoundProgress(self.plan.sums, sums)
        try:
            self._embedded(told)
        except _Reached as reached:
            return reached.statistic
        raise IndexError(f"{len(sums)} sums are all that there are")

    def learner(self, sums: Sequence[RoundSum]) -> LatentModel:
        """Return what is trained, after all sums. Post-processing."""
        return self._made_by.learner(self._form, self._options, *self._embedded(_RoundProgress(self.plan.sums, sums)))

    def model(self, sums: Sequence[RoundSum], parameters: Singles) -> tuple[DecoderModel, tuple[str, ...]]:
        """Return the model in whole numbers, and what a reader should know. Post-processing.

        Args:
            sums: all released sums.
            parameters: the flat vector that the training has released.
        """
        made, mixture = self._embedded(_RoundProgress(self.plan.sums, sums))
        learner = self._made_by.learner(self._form, self._options, made, mixture)
        layers = tuple(
            (parameters[slot.weights].reshape(slot.layer.weight_shape), parameters[slot.biases])
            for slot in learner_slots(learner)
            if slot.part == "decoder"
        )
        return self._made_by.model(self._asked, self._options, self._form, made, mixture, layers)

    def _embedded(self, progress: _RoundProgress) -> tuple[Projected, Mixture]:
        sums, last = self.plan.sums, self.plan.sums.rounds - 1
        variance = sums.variance(last, (True,) * len(sums.sites))
        deviation = sqrt(variance) / self._form.statistics[last].move
        return self._made_by.embedded(self._form, progress.measure, deviation=deviation)


class _Reached(Exception):
    """The sums that were released are used up; this is what comes next."""

    def __init__(self, statistic: Moments) -> None:
        super().__init__("the next sum")
        self.statistic = statistic


class _RoundProgress:
    """Tells released sums in the order in which they are asked for."""

    def __init__(self, plan: SummingPlan, sums: Sequence[RoundSum]) -> None:
        self._plan, self._left = plan, list(sums)
        self._number = 0

    def measure(self, statistic: Moments) -> SumMeasurement:
        """Return the next sum, in the statistic's lattice."""
        if not self._left:
            raise _Reached(statistic)
        number, summed = self._number, self._left.pop(0)
        if summed.steps.shape != (statistic.length,):
            raise CannotTrain("sums", f"{summed.steps.size} numbers", f"{statistic.length} in sum {number + 1}")
        self._number += 1
        values, variance = self._plan.received(number, summed.steps), self._plan.variance(number, summed.present)
        event = self._plan.person_event(number)
        return SumMeasurement(f"{number:05d}", values, event, variance, number, summed.sha256, statistic)


def _planned(task: SynthesisTask, options: PhasedOptions, form: ModelForm, across: Across) -> PhasedPlan:
    """Share the charge out: the sums and their reserve, and the training in what they leave."""
    weights = form.weights
    # A lost sum may be made up for at the largest share of all.
    reserve = (across.sums_reserve * max(weights),) if across.sums_reserve else ()
    noises = sum_noises(task, options.first_share, (*weights, *reserve))
    parties = (across.sites, across.rows_about, across.trust)
    adjacency, unit = task.adjacency, task.rows_per_unit
    try:
        sums = SummingPlan(
            tuple(
                SumBounds.of(each, adjacency=adjacency, rows_per_unit=unit, rho=noise.rho)
                for each, noise in zip(form.statistics, noises[: len(weights)], strict=True)
            ),
            adjacency,
            unit,
            *parties,
            across.sums_reserve,
        )
        training = planned(
            *parties,
            rounds=across.rounds,
            batch=across.batch,
            clipping_norm=across.clipping_norm,
            reserve=across.reserve,
            epsilon=task.epsilon,
            delta=task.delta,
            beside=sums.person_events,
        )
        return PhasedPlan(sums, _useful(training, form.parameters, task.epsilon))
    except AmountRefused as refused:
        raise CannotGenerate(f"p3gm: {refused}; do: raise epsilon, or clip less") from refused


def _useful(plan: FederatedPlan, parameters: int, epsilon: Fraction) -> FederatedPlan:
    """Return the plan, or refuse noise that drowns what could be learnt, or a lattice that is too coarse."""
    plan.clipped_to(parameters)
    checked_useful(plan.training, parameters, epsilon=epsilon)
    return plan
