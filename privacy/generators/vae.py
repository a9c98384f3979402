"""A variational autoencoder trained by DP-SGD: encoder and decoder together, with a standard normal prior (DP-VAE).

    MEASURE   how many rows there are, label by label
    TRAIN     the encoder's mean and variance, and the decoder
    SAMPLE    a standard normal latent vector, the decoder's outputs, and what they say

The label is one of the columns that are trained on; its biases are moved afterwards until it has its noisy shares.

Source: Kingma, Welling 2014; Takagi et al. 2021, section 4, whose DP-VAE it is: P3GM without its phase one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final

import numpy as np

from privacy.generators.decoder import biases_moved, decoder_model, layers_of, standard_latents, whole_decoder
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
    Sums,
    Timer,
    VariationalOptions,
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
from privacy.generators.projection import BITS, checked_layout
from privacy.grant.draws import Draws
from privacy.learning.embedding import embedding
from privacy.learning.layout import RowLayout
from privacy.learning.learners import LatentModel, parameters_of
from privacy.learning.moments import Everyone, LabelCodes, Moments
from privacy.learning.network import Adam, perceptron

SEED: Final = 1


def variational(width: int, options: VariationalOptions) -> LatentModel:
    """Return a variational autoencoder of vectors of that width."""
    encoder = perceptron(width, *options.encoder_hidden, outputs=options.latent)
    decoder = perceptron(options.latent, *options.hidden, outputs=width)
    optimizer = Adam(options.learning_rate, decay="cosine")
    return LatentModel(options.latent, decoder, encoder, encoder, None, optimizer, SEED, **options.loss)


class Vae:
    """Fits a variational autoencoder."""

    name: ClassVar[str] = "vae"
    takes_pictures: ClassVar[bool] = True
    options = VariationalOptions

    def plan(self, task: SynthesisTask, options: VariationalOptions) -> GeneratorPlan:
        """Plan the counts, and the training in what they leave.

        Raises:
            CannotGenerate: as of `p3gm`.
        """
        layout = self._checked(task, options)
        statistic = _counts(layout, options)
        events = sum_events(task, (statistic,), sum_noises(task, options.first_share, [Fraction(1)]), self.name)
        parameters = parameters_of(variational(layout.width, options))
        plan = planned_training(task, options, parameters=parameters, beside=events, what=self.name)
        told = [("rows", 1, options.first_share, sum_in_words(events[0], statistic.move))]
        return generator_plan(
            options,
            told,
            events,
            plan,
            parameters=parameters,
            width=layout.width,
            columns=len(layout.columns),
            what=self.name,
            seconds=sums_seconds((statistic,), rows=options.rows_about),
        )

    def fit(
        self,
        task: SynthesisTask,
        options: VariationalOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Count the rows, train, and round the decoder to whole numbers.

        Raises:
            OutOfTime, TrainingDiverged, GrantExceeded: as of `p3gm`.
        Privacy: exactly the planned events; those of the reserve only after a crash.
        """
        timer, layout = Timer(options, progress), self._checked(task, options)
        rows, noises = counts.rows(task.domain.columns), sum_noises(task, options.first_share, [Fraction(1)])
        sums = Sums(grant, rows, noises, timer)
        counted = np.asarray(sums.blocks(_counts(layout, options)).counts)
        learner = variational(layout.width, options)
        trained = train(grant, rows, learner, plan_of(options, plan.events), options, timer)
        network, notes = whole_decoder(layers_of(trained, "decoder"))
        # One network needs no mark: its biases stay biases.
        latents = standard_latents(np.ones(1), options.latent, marked=False)
        if options.label is not None:
            network = biases_moved(latents, network, layout, options.label, counted)
        model = decoder_model(task, layout, float(counted.sum()), latents, network)
        progress(1.0, "done")
        return Fitted(model, (*sums.drawn, trained), notes)

    def _checked(self, task: SynthesisTask, options: VariationalOptions) -> RowLayout:
        layout = checked_layout(task, options.label, self.name)
        check_loss(layout, options)
        check_relation(task, self.name)
        return layout


def _counts(layout: RowLayout, options: VariationalOptions) -> Moments:
    """Return the statistic of the number of rows, of each label where there is one."""
    label = options.label
    groups = Everyone() if label is None else LabelCodes(label, int(layout.column(label).table.shape[0]))
    # Counts do not depend on the embedding, whose bound may be any.
    return Moments(embedding(layout, bound=Fraction(1), bits=BITS), groups, ("counts",))
