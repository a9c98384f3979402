"""Names of the benchmark that are no generator's: P3GM's variants, and PGM and VAE, which have no noise.

PGM and VAE are P3GM and DP-VAE without noise and without clipping, to see what privacy takes. Nothing is published.

What stands before the generator in the grant's place adds nothing to the sums and to the gradients; the samples are
Poisson's all the same. There is no such generator in the registry: it exists for the benchmark alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from privacy.accounting.events import DiscreteGaussian
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.query import Progress, Query, silent
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.trained import Trained, packed
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SecureBytes

FREE: Final = {"pgm": "p3gm", "vae_free": "vae"}
"""Names in the tables, and the generators that they are without noise."""
VARIANTS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "p3gm_joined": ("p3gm", {"labels": "joined", "components": 10}),
    "p3gm_components": ("p3gm", {"labels": "components", "components": 1}),
}
"""Further names, each a generator with options: `p3gm_joined` is the paper's P3GM, whose paper names no number."""
_UNCLIPPED: Final = 1e6


def registered(name: str) -> str:
    """Return the registered generator that a name in the tables stands for."""
    return VARIANTS[name][0] if name in VARIANTS else FREE.get(name, name)


class NoNoise:
    """Gives exact sums, and trains without noise.

    Args:
        seed: of the samples.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Return exact sums, as if they were measured, or train by Adam on plain gradients."""
        match query:
            case SumQuery(rows=rows, statistic=statistic):
                values = statistic.total(rows._read(), rows.layout)
                return SumMeasurement(key, values, DiscreteGaussian(Fraction(1), (1,)), 0.0, 0, "", statistic)
            case TrainingQuery():
                return self._trained(query, key, progress)
        raise TypeError(f"{query.kind}: nothing is known of it without noise")

    def _trained(self, query: TrainingQuery, key: str, progress: Progress) -> Trained:
        rows, learner, plan, execution = query.rows, query.learner, query.plan, query.execution
        from privacy.learning.training import Session, initial_state

        codes: Any = rows._read()
        session = Session(learner, rows.layout, initial_state(learner), step=0, steps=plan.steps, execution=execution)
        source = SecureBytes()
        for done in range(1, plan.steps + 1):
            sampled = self._generator.random(len(codes)) < float(plan.sampling_probability)
            total = session.clipped_sum(codes[sampled], bound=_UNCLIPPED, normals=normals_from(source))
            session.advance(total, expected_batch_size=float(plan.expected_batch_size))
            progress(done, plan.steps)
        state = session.state()
        return Trained(learner, rows.layout, state.trained, (f"{key}/00000",), "", plan, packed(state.to_vector()))
