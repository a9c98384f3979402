"""Any generator of marginals, with copies: further models that show what the noise does to any result.

    FIT       the generator; y its noisy marginals, p the model that fits them best
    REDRAW    for each copy: y' = the marginals of p + noise of the same law and variance as that of y
    REFIT     p' that fits y' best, by the same estimation, on the same marginals

The parametric bootstrap of the release: p' lies around p as p lies around the model without noise. Nothing of it
reads the data, and the noise of the copies comes of the published seed: it hides nothing, and protects nobody. So it
costs nothing (docs/derivations.md, "Copies"). Which marginals were chosen stays as it is: a copy chooses nothing.

Source: Efron and Tibshirani 1993, chapter 6, for the bootstrap; Räisä, Jälkö, Kaski, Honkela 2023 (NAPSU-MQ) draw
models from a posterior given the same noise instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, ClassVar, Final

import numpy as np
from pydantic import BaseModel
from scipy.special import ndtri

from contracts.contract.contract import Contract
from contracts.message import message
from privacy.accounting.events import DiscreteLaplace
from privacy.arrays import Floats
from privacy.generators.calibration import FitModifier
from privacy.generators.copied_model import CopiedModel
from privacy.generators.fitting import estimation_seconds, fitted_model, total_of
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Fitter,
    GeneratorPlan,
    Model,
    Options,
    PlannedStep,
    SynthesisTask,
)
from privacy.generators.rows import copy_seed
from privacy.grant.draws import Draws
from privacy.grant.measurement import Measurement
from privacy.marginals.estimation import Measured
from privacy.marginals.model import PublishedModel
from privacy.marginals.portable import PostProcessingSeed

_FIT_SHARE: Final = 0.5
"""Of the progress; the rest is that of the copies."""


class Copies(Fitter[Any, SynthesisTask, Any]):
    """A generator whose model is fitted again for each copy.

    Args:
        generator: measures marginals and fits a model to them.
        number: of copies.
    """

    name: ClassVar[str] = "copies"
    options = BaseModel

    def __init__(self, generator: Fitter[Any, Any, Any], number: int) -> None:
        self._generator, self._number = generator, number

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan what the generator plans: copies draw nothing.

        Raises:
            CannotGenerate: as the generator's; or its model does not follow from marginals alone.
        """
        if not getattr(self._generator, "takes_copies", False):
            raise CannotGenerate(
                f"product.generator: {self._generator.name!r} with copies: its model cannot be drawn again, since it "
                "does not follow from noisy marginals alone; allowed: aim, mst, privbayes, independent, fixed or "
                "auto with copies; do: drop `copies:`, or choose such a generator"
            )
        plan = self._generator.plan(task, options)
        step = PlannedStep("models of copies", self._number, 0.0, message("no noise of its own: post-processing"))
        return replace(
            plan,
            steps=(*plan.steps, step),
            # The tables of a model are in memory once, the published numbers of each copy beside them.
            megabytes=plan.megabytes * (1 + self._number),
            seconds=plan.seconds + self._number * estimation_seconds(plan.megabytes),
        )

    def fit(
        self,
        task: SynthesisTask,
        options: Options,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Any]:
        """Let the generator fit, then fit each copy.

        Raises:
            OutOfTime, GrantExceeded: as the generator's.
        Privacy: exactly what the generator draws.
        """
        fitted = self._generator.fit(
            task, options, plan, counts, grant, lambda done, what: progress(_FIT_SHARE * done, what), seed
        )
        public = seed()
        copies = []
        for number in range(1, self._number + 1):
            progress(_FIT_SHARE + (1 - _FIT_SHARE) * (number - 1) / self._number, "fitting copies")
            copies.append(_copy(task, options, fitted, copy_seed(public, number)))
        return replace(fitted, model=CopiedModel(fitted.model, tuple(copies)))


class CopiesFit(FitModifier):
    """Further models, fitted after the first."""

    draws = False

    def terms(self, product: Any, contract: Contract) -> dict[str, Any]:
        """Return how many there are."""
        return {"copies": product.copies}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return a generator that fits them too."""
        return Copies(generator, task.copies)


def _copy(task: SynthesisTask, options: Options, fitted: Fitted[Model], seed: PostProcessingSeed) -> Model:
    """Fit a model to the measurements drawn again around the model that was fitted to them."""
    measured = redrawn(fitted.model, fitted.measurements, seed.derived("noise"))
    start = fitted.model.graphical if isinstance(fitted.model, PublishedModel) else None
    return fitted_model(task, options, measured, total_of(task, measured), start)


def redrawn(model: Model, measurements: Sequence[Measurement], seed: PostProcessingSeed) -> list[Measured]:
    """Return measurements as another drawing of the noise would have them, if the model were the table.

    Args:
        model: what is measured.
        measurements: give the marginals, and law and variance of the noise.
        seed: public; each measurement has a stream of its own.
    Privacy: post-processing; the noise is public.
    """
    found = []
    for stream, one in enumerate(measurements):
        noise = _noise(seed.words(stream, one.values.size), one.variance, isinstance(one.event, DiscreteLaplace))
        found.append(Measured(one.clique, model.marginal(one.clique) + noise.reshape(one.values.shape), one.variance))
    return found


def _noise(words: Any, variance: float, laplace: bool) -> Floats:
    """Turn random words into noise, by the inverse of its distribution function."""
    # 53 bits of each word, in the middles of as many equal parts of (0, 1): neither end is met.
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    if not laplace:
        return np.asarray(sqrt(variance) * ndtri(uniform))
    tail = np.minimum(uniform, 1.0 - uniform)
    return np.asarray(sqrt(variance / 2) * np.sign(uniform - 0.5) * -np.log(2.0 * tail))
