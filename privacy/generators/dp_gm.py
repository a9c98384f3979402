"""Clusters by noisy k-means, and a variational autoencoder a cluster (DP-GM).

    MEASURE   the centre of all rows' vectors, and their second moment about it: the axes        (`projection`)
    MEASURE   clusters on these axes, by rounds of noisy k-means: centres and sizes
    TRAIN     an autoencoder a cluster, all in one training: a row moves that of the nearest centre alone
    SAMPLE    a cluster by its noisy size, a standard normal latent vector, and its decoder's outputs

Under add_remove a row that comes or goes is in one cluster, and its clipped gradient in one autoencoder's part of the
parameters: one training's events pay for all (`ClusteredModel`).

Source: Acs, Melis, Castelluccia, De Cristofaro 2017, which P3GM is compared with. Deviates in plain k-means on
private principal axes instead of kernel k-means on random features.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import ClassVar, Final

import numpy as np

from privacy.generators.decoder import (
    decoder_model,
    layers_of,
    shares_kept,
    side_by_side,
    standard_latents,
    whole_decoder,
)
from privacy.generators.fit_times import sums_seconds
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    SynthesisTask,
)
from privacy.generators.latent import (
    ClusteredOptions,
    Sums,
    Timer,
    check_loss,
    check_relation,
    generator_plan,
    plan_of,
    planned_training,
    sum_events,
    sum_in_words,
    sum_noises,
    train,
)
from privacy.generators.p3gm import fixed_mean, reach
from privacy.generators.projection import Projected, Projection, check_clip, checked_layout, projected
from privacy.generators.vae import variational
from privacy.grant.draws import Draws
from privacy.learning.kmeans import Clusters, cluster_statistic, fit_clusters, initial_centres
from privacy.learning.learners import ClusteredModel, parameters_of
from privacy.learning.moments import Moments
from privacy.marginals.portable import PostProcessingSeed

_CENTRE: Final = Fraction(1)
_AXES: Final = Fraction(5)
_CLUSTERS: Final = Fraction(10)
"""How the sums' part of the budget is split."""
_SEED: Final = PostProcessingSeed(20171109)


class ClusteredVae:
    """Fits clusters, and a variational autoencoder to each."""

    name: ClassVar[str] = "dp_gm"
    takes_pictures: ClassVar[bool] = True
    options = ClusteredOptions

    def plan(self, task: SynthesisTask, options: ClusteredOptions) -> GeneratorPlan:
        """Plan the sums, and the training in what they leave.

        Raises:
            CannotGenerate: as of `p3gm`.
        """
        projection = self._projection(task, options)
        statistics, weights = _stand_ins(projection, options), _weights(projection, options)
        events = sum_events(task, statistics, sum_noises(task, options.first_share, weights), self.name)
        # The clusters are one training, whose noise falls on the parameters of all of them.
        parameters = options.clusters * parameters_of(variational(projection.width, options))
        plan = planned_training(task, options, parameters=parameters, beside=events, what=self.name)
        names = ("centre", "second moment") if projection.projects else ("centre",)
        noise = [sum_in_words(event, each.move) for event, each in zip(events, statistics, strict=True)]
        shares = [float(each / sum(weights)) * options.first_share for each in weights]
        told = [(name, 1, shares[place], noise[place]) for place, name in enumerate(names)]
        told.append(("clusters", options.rounds, sum(shares[len(names) :]), noise[-1]))
        return generator_plan(
            options,
            told,
            events,
            plan,
            parameters=parameters,
            width=projection.width,
            columns=len(projection.names),
            what=self.name,
            networks=options.clusters,
            seconds=sums_seconds(statistics, rows=options.rows_about),
        )

    def fit(
        self,
        task: SynthesisTask,
        options: ClusteredOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure clusters, train their autoencoders, and put their decoders side by side in whole numbers.

        Raises:
            OutOfTime, TrainingDiverged, GrantExceeded: as of `p3gm`.
        Privacy: exactly the planned events; those of the reserve only after a crash.
        """
        timer, projection = Timer(options, progress), self._projection(task, options)
        rows, noises = (
            counts.rows(task.domain.columns),
            sum_noises(task, options.first_share, _weights(projection, options)),
        )
        sums = Sums(grant, rows, noises, timer)
        made = projected(projection, sums.measure)
        # A count's noise has the deviation 1 / sqrt(rho): below twice that a centre stays where it is.
        clusters = _clusters(projection, made, options, sums, least=max(1.0, 2 / sqrt(float(noises[-1].rho))))
        member = variational(projection.width, options)
        learner = ClusteredModel(
            (member,) * options.clusters, fixed_mean(made, 1.0), clusters.centres.astype(np.float32)
        )
        trained = train(grant, rows, learner, plan_of(options, plan.events), options, timer)
        decoders = [layers_of(trained, f"{number}/decoder") for number in range(options.clusters)]
        network, notes = whole_decoder(side_by_side(decoders))
        latents = standard_latents(clusters.counts, options.latent)
        if options.label is not None:
            latents = shares_kept(latents, network, projection.layout, options.label, made.means)
        model = decoder_model(task, projection.layout, made.rows, latents, network)
        progress(1.0, "done")
        return Fitted(model, (*sums.drawn, trained), notes)

    def _projection(self, task: SynthesisTask, options: ClusteredOptions) -> Projection:
        layout = checked_layout(task, options.label, self.name)
        check_loss(layout, options)
        check_relation(task, self.name)
        projection = Projection(layout, layout.names, options.dimensions, options.clip)
        check_clip(projection)
        return projection


def _weights(projection: Projection, options: ClusteredOptions) -> tuple[Fraction, ...]:
    """Return the shares of the sums' part of the budget, draw by draw."""
    axes = (_AXES,) if projection.projects else ()
    return (_CENTRE, *axes, *(_CLUSTERS / options.rounds,) * options.rounds)


def _stand_ins(projection: Projection, options: ClusteredOptions) -> tuple[Moments, ...]:
    """Return statistics of the same bounds as those that are measured."""
    embedded = projection.stand_in()
    rounds = (cluster_statistic(np.zeros((options.clusters, embedded.dimension)), embedded),) * options.rounds
    axes = (projection.axes_statistic(None),) if projection.projects else ()
    return (projection.centre_statistic(), *axes, *rounds)


def _clusters(
    projection: Projection, projected: Projected, options: ClusteredOptions, sums: Sums, *, least: float
) -> Clusters:
    """Measure clusters on the axes, from centres of the axes' variances on."""
    axes = projected.axes if projection.projects else None
    embedded = projection.embedding(projected.centre, axes, bound=reach(projection, projected))
    initial = initial_centres(options.clusters, variances=projected.variances, seed=_SEED)
    return fit_clusters(sums.blocks, initial, embedded, rounds=options.rounds, least=least)
