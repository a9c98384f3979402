"""A small generator that trains an autoencoder by DP-SGD, registered as an installed package registers one."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

from privacy.generators.decoder import DecoderModel
from privacy.generators.generator import (
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    SynthesisTask,
)
from privacy.grant.grant import Grant
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import RowLayout
from privacy.learning.learners import FixedDeviation, FixedMean, LatentModel
from privacy.learning.network import Adam, perceptron
from privacy.learning.outputs import output_columns
from privacy.learning.plan import Execution, Schedule, TrainingPlan, calibrated_multiplier
from privacy.learning.whole_network import LatentMixture, to_steps, whole_layers

NAME = "small_autoencoder"
INTERRUPT_AT: list[int] = []
"""Steps at which somebody presses Ctrl-C, once each."""
SCHEDULE = Schedule(rows_about=3000, batch=200, epochs=Fraction(2), checkpoints=3, reserve=2)


class Options(BaseModel):
    """None."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SmallAutoencoder:
    """Two latent entries, one hidden layer, a fixed projection."""

    name: ClassVar[str] = NAME
    options = Options

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan the training, its reserve included."""
        training = self._training(task)
        steps = (PlannedStep("training", training.checkpoints, 1.0, "Gaussian on clipped gradients"),)
        return GeneratorPlan(training.events, steps, 1.0, 1.0, {})

    def fit(
        self,
        task: SynthesisTask,
        options: Options,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Grant,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Train, and write the decoder down."""
        assert task.layout is not None
        learner, rows = self._learner(task.layout), counts.rows(task.domain.columns)

        def told(done: int, steps: int) -> None:
            if done in INTERRUPT_AT:
                INTERRUPT_AT.remove(done)
                raise KeyboardInterrupt

        trained = grant.draw(
            TrainingQuery(rows, learner, self._training(task), Execution("cpu", 256)), key="training", progress=told
        )
        layers = [trained.layers["decoder", place] for place in (0, 2)]
        model = DecoderModel(
            rows=500,
            columns=output_columns(task.layout),
            latents=LatentMixture(np.array([1], np.int64), to_steps(np.zeros((1, 2))), to_steps(np.eye(2)[None])),
            network=whole_layers([(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]),
            reading="logits",
            spreads=np.zeros(task.layout.width, np.int64),
            label=None,
            labels=np.empty(0, np.int64),
            impossible=task.impossible,
        )
        return Fitted(model, (trained,))

    def _training(self, task: SynthesisTask) -> TrainingPlan:
        multiplier = calibrated_multiplier(SCHEDULE, epsilon=task.epsilon, delta=task.delta)
        return SCHEDULE.plan(noise_multiplier=multiplier, clipping_norm=Fraction(1))

    def _learner(self, layout: RowLayout) -> LatentModel:
        axes = np.linalg.qr(np.random.default_rng(8).normal(0, 1, (layout.width, 2)))[0]
        return LatentModel(
            latent=2,
            decoder=perceptron(2, 8, outputs=layout.width),
            mean=FixedMean(np.full(layout.width, 0.5), axes),
            deviation=FixedDeviation(0.1),
            prior=None,
            optimizer=Adam(0.01),
            seed=4,
        )


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Put a package's metadata with the entry point where Python looks for packages."""
    about = folder / "small_autoencoder-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: small-autoencoder\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[sudare.generators]\n{NAME} = tests.worlds.trained_generator:SmallAutoencoder\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
