"""P3GM: phase one embeds rows in a principal subspace with a mixture prior, phase two trains variance and decoder.

    MEASURE   the centre of all rows' vectors, how far numbers are stretched (`projection`), and the second moment
              about the centre: the axes                                                         (`projection`)
    MEASURE   a Gaussian mixture of the projected rows, by rounds of DP-EM
    TRAIN     the decoder, and the network that gives a row's variance, by DP-SGD with the encoder's mean fixed
    SAMPLE    a component, a latent vector of it, the decoder's outputs, and what they say

Noisy sums and training are one release: Rényi losses of all draws are added up, and the training's noise is
calibrated to what the sums leave. `ae` fixes the variance too, at 0 (equation 9).

Source: Takagi, Takahashi, Cao, Yoshikawa 2021, section 3. Deviates in: axes from Gaussian noise on the second moment
(the Wishart mechanism is not private); EM's statistics under one joint bound; Poisson sampling; domains and bounds
from the contract, and of numbers a measured part of it; labels that own components where all other columns are
numbers or pictures (the paper's is `labels: joined` everywhere); the loss of numbers is their cross entropy (the
paper's is `number_loss: squared_error`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Final

import numpy as np

from contracts.message import joined, message, plural
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.generators.decoder import (
    DecoderLayers,
    DecoderModel,
    decoder_model,
    layers_of,
    shares_kept,
    whole_decoder,
)
from privacy.generators.fit_times import sums_seconds
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    SynthesisTask,
)
from privacy.generators.latent import (
    PhasedOptions,
    Sums,
    Timer,
    calibrated_training,
    check_phased,
    check_relation,
    generator_plan,
    plan_of,
    planned_training,
    rounds_note,
    sum_events,
    sum_in_words,
    sum_noises,
    train,
)
from privacy.generators.linear_decoder import NORM_BITS, LinearForm, linear_fit, linear_form, linear_plan
from privacy.generators.projection import (
    BITS,
    Projected,
    Projection,
    check_clip,
    checked_layout,
    entering,
    entry_notes,
    projected,
)
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.learning.embedding import Embedding, least_bound
from privacy.learning.layout import RowLayout
from privacy.learning.learners import FixedDeviation, FixedMean, GaussianMixture, LatentModel
from privacy.learning.mixture import Mixture, fit_mixture, initial_mixture, mixture_statistic, smallest_floor
from privacy.learning.moments import LabelCodes, MomentBlocks, Moments
from privacy.learning.network import Adam, CannotTrain, Network, perceptron
from privacy.learning.plan import signal_to_noise
from privacy.learning.whole_network import LARGEST_LATENT, WEIGHT, LatentMixture, to_steps
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise

# --- The mixture that latent vectors come from.


_WEIGHT_BITS: Final = 9
_MIXTURE_SEED: Final = PostProcessingSeed(20210106)
_NARROWER: Final = 0.5
"""How much narrower than all rows components are in the beginning, where nothing else parts them."""
_LEAST, _LEAST_STRETCHED = Fraction(1, 100), Fraction(1, 2)
"""How much smaller it may be than the bound before the projection; stretched, products must stay whole."""
_FARTHEST: Final = 60
"""Norm bounds from the origin that a component's entries may begin at; the lattice of mixtures holds 64."""
_ROOM: Final = 1.5
"""The norm bound in the projected space, over the rows' root mean square norm there."""


@dataclass(frozen=True)
class Prior:
    """What mixture is wanted; public.

    Args:
        components: in all, or of each label.
        labels: the column whose cells own components; None for none.
        rounds: of expectation and maximisation.
        spread: root mean square of the latent entries.
        joined: the label's entries of a projected vector, where the label is among the projected columns.
    """

    components: int
    labels: LabelCodes | None
    rounds: int
    spread: float
    joined: range | None = None

    def statistic(self, embedding: Embedding) -> Moments:
        """Return a stand-in of the same bounds as each round's statistic."""
        return mixture_statistic(
            self._initial(embedding, np.full(embedding.dimension, min(1.0, float(embedding.bound) ** 2))),
            embedding,
            weight_bits=_WEIGHT_BITS,
            labels=self.labels,
        )

    def fit(
        self,
        projection: Projection,
        projected: Projected,
        measure: Callable[[Moments, int], MomentBlocks],
        *,
        deviation: float,
    ) -> Mixture:
        """Fit the mixture in the projected space; one draw a round.

        Args:
            projection: what is projected.
            projected: centre and axes.
            measure: draws.
            deviation: of the noise of a count [rows].
        Privacy: that of the rounds' draws.
        """
        bound = reach(projection, projected)
        axes = projected.axes if projection.projects else None
        embedding = projection.embedding(projected.centre, axes, bound=bound, factors=projected.factors)
        initial = self._started(self._initial(embedding, projected.variances), projected)
        # Components that begin outside of what the lattice holds would end a fit that is charged already.
        within = _FARTHEST * float(bound)
        initial = replace(initial, means=np.clip(initial.means, -within, within))
        floor = max(smallest_floor(embedding), float(bound) ** 2 * 1e-6)
        # A component keeps its mean and covariance where its count may be noise.
        least = max(1.0, 2 * deviation)
        fitted = fit_mixture(
            measure,
            initial,
            embedding,
            rounds=self.rounds,
            weight_bits=_WEIGHT_BITS,
            floor=floor,
            least=least,
            labels=self.labels,
        )
        return fitted

    def scale(self, projected: Projected) -> float:
        """Return what projected vectors are multiplied with to be latent ones."""
        return self.spread / math.sqrt(max(float(projected.variances.mean()), 1e-9))

    def _started(self, initial: Mixture, projected: Projected) -> Mixture:
        """Narrow the components that share their rows, and part them by the joined label."""
        if self.labels is not None:
            return initial
        means = initial.means * _NARROWER
        if self.joined is not None:
            # A row of which only the label is known: one of the label's entries is 1, all others lie at the centre.
            entries = np.eye(len(self.joined)) - projected.centre[self.joined]
            anchors = entries @ projected.axes[self.joined]
            # The components take the labels in turn.
            means = means + anchors[np.arange(self.components) % len(anchors)]
        return replace(initial, means=means, covariances=initial.covariances * _NARROWER**2)

    def _initial(self, embedding: Embedding, variances: Floats) -> Mixture:
        floor = smallest_floor(embedding)
        count = 0 if self.labels is None else self.labels.count
        return initial_mixture(
            self.components, variances=variances, covariance="full", floor=floor, seed=_MIXTURE_SEED, labels=count
        )


def reach(projection: Projection, projected: Projected) -> Fraction:
    """Return the norm bound in the projected space: half as much again as the rows' root mean square norm there.

    Where rows are nearly alike it is not below what sums hold exactly (`least_bound`).
    Privacy: made of released numbers.
    """
    wide = Fraction(_ROOM * math.sqrt(float(projected.variances.sum()))).limit_denominator(10**6)
    least = _LEAST if projected.window is None else _LEAST_STRETCHED
    exact = least_bound(projected.axes, bits=BITS)
    return min(projection.bound, max(wide, projection.bound * least, exact))


def fixed_mean(projected: Projected, scale: float) -> FixedMean:
    """Return the encoder's mean: the projection, scaled; of rows within the window, where there is one."""
    window = projected.window
    # Rows are looked at within the window, so the centre is, too.
    centre = projected.centre if window is None else (projected.centre - window.low) * window.factors
    return FixedMean(centre.astype(np.float32), (projected.axes * scale).astype(np.float32))


def prior_of(mixture: Mixture, scale: float) -> GaussianMixture:
    """Return the mixture of latent vectors that a training's divergence is taken to."""
    # A weight of 0 would have no logarithm.
    weights = np.maximum(mixture.weights, 1e-6)
    factors = np.tril(mixture.cholesky()) * scale
    return GaussianMixture(
        (weights / weights.sum()).astype(np.float32),
        (mixture.means * scale).astype(np.float32),
        factors.astype(np.float32),
    )


def log_variance_start(mixture: Mixture, scale: float) -> float:
    """Return the mean log variance that latent vectors keep under the mixture, less log 4: reconstruction wants less.

    A vector's divergence from a component is least where its variance along each axis is 1 / the precision's entry.
    """
    precisions = np.diagonal(np.linalg.inv(mixture.covariances), axis1=1, axis2=2)
    logs = -np.log(np.maximum(precisions, 1e-12)).mean(axis=1) + 2 * math.log(scale) - math.log(4)
    return float(np.clip(mixture.weights @ logs, -20.0, 20.0))


def latents_of(mixture: Mixture, scale: float) -> LatentMixture:
    """Return the mixture of latent vectors in whole numbers; means that noise threw far out are cut to the range."""
    return LatentMixture(
        np.maximum(np.rint(mixture.weights * WEIGHT), 1.0).astype(np.int64),
        np.clip(to_steps(mixture.means * scale), -LARGEST_LATENT, LARGEST_LATENT),
        to_steps(np.tril(mixture.cholesky()) * scale),
    )


_CENTRE: Final = Fraction(1)
_AXES: Final = Fraction(5)
_MIXTURE: Final = Fraction(14)
"""How the sums' part of the budget is split."""
_LEARNS: Final = 1.0
"""The training's ratio of signal to noise (`signal_to_noise`), below which sums alone give the better decoder."""
_SEED: Final = 1


@dataclass(frozen=True, eq=False)
class ModelForm:
    """What the options make of the columns; public."""

    layout: RowLayout
    projection: Projection
    prior: Prior
    owner: str | None
    decoder: Network
    deviation: Network | FixedDeviation

    @property
    def parameters(self) -> int:
        """How many parameters are trained."""
        trained = self.deviation.parameters if isinstance(self.deviation, Network) else 0
        return self.decoder.parameters + trained

    @property
    def statistics(self) -> tuple[Moments, ...]:
        """Stand-ins of all sums, in order."""
        rounds = (self.prior.statistic(self.projection.stand_in()),) * self.prior.rounds
        return (*self.projection.first_statistics(), *rounds)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """Shares of the sums' part of the budget."""
        first = self.projection.shares(_CENTRE, _AXES)
        return (*first, *(_MIXTURE / self.prior.rounds,) * self.prior.rounds)


class P3gm:
    """Fits a decoder of latent vectors in a private principal subspace."""

    name: ClassVar[str] = "p3gm"
    options = PhasedOptions
    takes_pictures: ClassVar[bool] = True
    trains_variance: ClassVar[bool] = True

    def plan(self, task: SynthesisTask, options: PhasedOptions) -> GeneratorPlan:
        """Plan the sums, and the training in what they leave.

        Raises:
            CannotGenerate: no such label, too small a charge, or too little memory or time; of a training also
                replace_one, several rows a unit, or a batch of more than the declared rows.
        """
        form = self.form(task, options)
        plan = self._planned(task, options, form)
        notes = (*entry_notes(task.layout, form.layout), *rounds_note(options, form.prior.rounds))
        return replace(plan, notes=(*notes, *plan.notes))

    def _planned(self, task: SynthesisTask, options: PhasedOptions, form: ModelForm) -> GeneratorPlan:
        if self._is_linear(task, options, form):
            sums, asked = _linear_form(task, options, form), options.decoder == "linear"
            rows, most = options.rows_about, options.max_memory_megabytes
            return linear_plan(task, sums, self.name, rows=rows, most_megabytes=most, asked=asked)
        statistics = form.statistics
        events = sum_events(task, statistics, self._noises(task, options, form), self.name)
        plan = planned_training(task, options, parameters=form.parameters, beside=events, what=self.name)
        told = self._describe_measurements(form, options, events, statistics)
        return generator_plan(
            options,
            told,
            events,
            plan,
            parameters=form.parameters,
            width=form.projection.width,
            columns=len(form.projection.names),
            what=self.name,
            seconds=sums_seconds(statistics, rows=options.rows_about),
        )

    def fit(
        self,
        task: SynthesisTask,
        options: PhasedOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure the embedding, train the decoder, and round it to whole numbers.

        Raises:
            OutOfTime: the time limit has passed; the same run again goes on from the last checkpoint.
            TrainingDiverged: the training came to nothing; what was drawn stays charged.
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned events; those of the reserve only after a crash.
        """
        timer, form = Timer(options, progress), self.form(task, options)
        # What was planned is drawn: a training's events come last, so a sum at the end means that there is none.
        if isinstance(plan.events[-1], DiscreteGaussian):
            sums_form, asked = _linear_form(task, options, form), options.decoder == "linear"
            return linear_fit(task, sums_form, counts, grant, timer, asked=asked)
        noises = self._noises(task, options, form)
        rows = counts.rows(task.domain.columns).with_layout(form.layout)
        sums = Sums(grant, rows, noises, timer)
        # PHASE ONE: centre, axes, mixture
        # Counts, sums and squares move by one bound each: a count's noise has the deviation sqrt(3 / (2 rho)).
        made, mixture = self.embedded(form, sums.measure, deviation=sqrt(1.5 / float(noises[-1].rho)))
        # PHASE TWO: variance and decoder
        learner = self.learner(form, options, made, mixture)
        names = form.projection.names
        trained_rows = counts.rows(names).with_layout(form.layout.select(names))
        trained = train(grant, trained_rows, learner, plan_of(options, plan.events), options, timer)
        model, notes = self.model(task, options, form, made, mixture, layers_of(trained, "decoder"))
        progress(1.0, "done")
        return Fitted(model, (*sums.drawn, trained), notes)

    def embedded(
        self, form: ModelForm, measure: Callable[[Moments], SumMeasurement], *, deviation: float
    ) -> tuple[Projected, Mixture]:
        """Measure centre, axes and mixture, in the order of `ModelForm.statistics`.

        Args:
            form: what the options make of the columns.
            measure: draws a sum, or tells one that was released.
            deviation: of the noise of a component's count [rows].
        Privacy: that of the draws.
        """

        def blocks(statistic: Moments, _turn: int) -> MomentBlocks:
            drawn = measure(statistic)
            return statistic.blocks(drawn.values, variance=drawn.variance)

        made = projected(form.projection, measure)
        return made, form.prior.fit(form.projection, made, blocks, deviation=deviation)

    def form(self, task: SynthesisTask, options: PhasedOptions) -> ModelForm:
        """Return what the options make of the columns, or refuse what must fail."""
        declared = checked_layout(task, options.label, self.name)
        check_phased(declared, options)
        layout = entering(declared, options.numbers)
        if options.decoder != "linear":
            check_relation(task, self.name, instead="decoder: linear")
        treated, components = options.mixture_of(layout)
        owner = options.label if treated == "components" else None
        # A label that owns components is no part of the vectors.
        names = tuple(name for name in layout.names if name != owner)
        projection = Projection(layout, names, options.dimensions, options.clip, options.scale == "measured")
        linear = owner is not None and options.decoder != "trained"
        check_clip(projection, whole_bits=NORM_BITS if linear else None)
        labels = LabelCodes(owner, int(layout.column(owner).table.shape[0])) if owner is not None else None
        # With one component a label there is nothing to share out: one round is exact.
        rounds = 1 if labels is not None and components == 1 else options.rounds
        joined = projection.entries(options.label) if options.label is not None and owner is None else None
        prior = Prior(components, labels, rounds, options.spread, joined)
        width, latent = projection.width, projection.latent
        decoder = perceptron(latent, *options.hidden, outputs=width)
        variance = perceptron(width, *options.variance_hidden, outputs=latent) if self.trains_variance else None
        return ModelForm(layout, projection, prior, owner, decoder, variance or FixedDeviation(0.0))

    def _is_linear(self, task: SynthesisTask, options: PhasedOptions, form: ModelForm) -> bool:
        """Say whether the decoder is made of sums alone; known without any data.

        Raises:
            CannotGenerate: a linear decoder is asked for, and no label owns components.
        """
        if options.decoder == "linear" and form.owner is None:
            raise CannotGenerate(
                f"{self.name}: options.decoder is linear, and no label owns components; allowed: auto, trained; "
                "do: write a label and labels: components, or leave decoder out"
            )
        if options.decoder != "auto" or form.owner is None:
            return options.decoder == "linear"
        try:
            events = sum_events(task, form.statistics, self._noises(task, options, form), self.name)
            plan = calibrated_training(task, options, beside=events, what=self.name)
        except CannotGenerate as refused:
            # A charge that no training fits into is one that a training learns nothing from; a wrong batch is wrong.
            if isinstance(refused.__cause__, CannotTrain) and refused.__cause__.what != "epsilon":
                raise
            return True
        return signal_to_noise(plan, form.parameters) < _LEARNS

    def _noises(self, task: SynthesisTask, options: PhasedOptions, form: ModelForm) -> tuple[GaussianNoise, ...]:
        return sum_noises(task, options.first_share, form.weights)

    def _describe_measurements(
        self,
        form: ModelForm,
        options: PhasedOptions,
        events: Sequence[DiscreteGaussian],
        statistics: Sequence[Moments],
    ) -> list[tuple[str, int, float, str]]:
        """Say what is measured before the training: name, draws, share of the budget, noise."""
        names = form.projection.steps
        rounds, whole = form.prior.rounds, sum(form.weights)
        noise = [sum_in_words(e, s.move) for e, s in zip(events, statistics, strict=True)]
        shares = [float(each / whole) * options.first_share for each in form.weights]
        told = [(name, 1, shares[place], noise[place]) for place, name in enumerate(names)]
        treated = (
            [message("labels {kind}", kind=options.mixture_of(form.layout)[0])] if options.label is not None else []
        )
        mixture = message("mixture ({parts})", parts=joined([*treated, _counted(form)]))
        return [*told, (mixture, rounds, sum(shares[len(names) :]), noise[-1])]

    def learner(self, form: ModelForm, options: PhasedOptions, projected: Projected, mixture: Mixture) -> LatentModel:
        """Return what is trained once the sums are released: decoder and variance."""
        scale = form.prior.scale(projected)
        return LatentModel(
            form.projection.latent,
            form.decoder,
            fixed_mean(projected, scale),
            form.deviation,
            prior_of(mixture, scale) if self.trains_variance else None,
            Adam(options.learning_rate, decay="cosine"),
            _SEED,
            log_variance_start=log_variance_start(mixture, scale) if self.trains_variance else 0.0,
            window=projected.window,
            **options.loss,
        )

    def model(
        self,
        task: SynthesisTask,
        options: PhasedOptions,
        form: ModelForm,
        projected: Projected,
        mixture: Mixture,
        layers: DecoderLayers,
    ) -> tuple[DecoderModel, tuple[str, ...]]:
        """Put latents and decoder together, in whole numbers."""
        network, notes = whole_decoder(layers)
        latents = latents_of(mixture, form.prior.scale(projected))
        if form.owner is None and options.label is not None:
            latents = shares_kept(latents, network, form.layout, options.label, projected.means)
        owners = mixture.owners if form.owner is not None else None
        windows = {name: projected.windowed(form.projection.entries(name)) for name in form.projection.numbers}
        model = decoder_model(task, form.layout, projected.rows, latents, network, form.owner, owners, windows)
        return model, notes


class AutoEncoder(P3gm):
    """As P3GM, with latent vectors that are the projected rows themselves: the decoder alone is trained."""

    name: ClassVar[str] = "ae"
    trains_variance: ClassVar[bool] = False

    def form(self, task: SynthesisTask, options: PhasedOptions) -> ModelForm:
        """Return what the options make of the columns; refuse those that nothing would come of."""
        for name, found, allowed in (
            ("latent_samples", options.latent_samples, 1),
            ("kl_weight", options.kl_weight, 1),
            ("variance_hidden", list(options.variance_hidden), []),
        ):
            if found != allowed:
                raise CannotGenerate(
                    f"{self.name}: {name} is {found}; allowed: {allowed}: its latent vectors are the projected rows "
                    "themselves, without chance, variance and divergence; do: leave it out, or take p3gm"
                )
        return super().form(task, options)


def _linear_form(task: SynthesisTask, options: PhasedOptions, form: ModelForm) -> LinearForm:
    """Return what is measured for a linear decoder."""
    if form.prior.labels is None:
        raise ValueError("a linear decoder is of labels that own components")
    return linear_form(task, form.projection, form.prior.labels, rows=options.rows_about)


def _counted(form: ModelForm) -> str:
    """Say how many components the mixture has."""
    count = form.prior.components
    if form.owner is not None:
        return plural("{count} component for each label", "{count} components for each label", count, count=count)
    return plural("{count} component", "{count} components", count, count=count)
