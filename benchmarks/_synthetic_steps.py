"""AIM step by step: the error after each measurement, the pairs that were chosen, and the ε spent so far.

Figures 3 to 5 of the AIM evaluation. The model after each measurement is estimated again from the measurements up to
it, which is post-processing; its errors are against the real rows, and for this benchmark on public data only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._synthetic_peers import Peer
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent, event_from_json
from privacy.accounting.renyi import best_epsilon
from privacy.evaluation.rows import counts_error
from privacy.marginals.estimation import Measured, estimate

if TYPE_CHECKING:
    from privacy.generators.generator import Fitted

DEGREES: Final = (1, 2, 3)
COMPOSED_STEPS: Final = 24


def step_errors(rows: NDArray[np.int64], fitted: Fitted) -> list[dict[str, Any]]:
    """Return for each measurement its clique and the α-way errors of the model that is known after it."""
    domain = fitted.model.domain
    truth = {
        degree: [(clique, _counts(rows, domain.columns, domain.shape, clique)) for clique in _cliques(domain, degree)]
        for degree in DEGREES
    }
    measured: list[Measured] = []
    steps, model = [], None
    for each in fitted.measurements:
        measured.append(Measured(each.clique, each.values, each.variance))
        model = estimate(domain, measured, start=model, tolerance=0.1).model
        errors = {}
        for degree, known in truth.items():
            made = model.marginals([clique for clique, _ in known])
            errors[str(degree)] = counts_error([exact for _, exact in known], list(made))
        steps.append({"key": each.key, "clique": list(each.clique), "errors": errors})
    return steps


def composition(draws: Sequence[dict[str, Any]], delta: Fraction, prv: Peer | None) -> list[dict[str, Any]]:
    """Return ε after growing numbers of draws: by zCDP, by loss distributions, and by prv_accountant with its bounds.

    A private choice enters the loss distributions as a pure step of its ε, which is more than it costs; zCDP uses
    that its loss has a bounded range. `measurements` leaves the choices out, so that all three compose the same: with
    them prv_accountant gives up, since its grid is too coarse for steps as small as theirs.
    """
    events = [event_from_json(draw["event"]) for draw in draws]
    ends = sorted({round(end) for end in np.linspace(1, len(events), COMPOSED_STEPS)})
    found: list[dict[str, Any]] = []
    for end in ends:
        prefix = events[:end]
        measured = [event for event in prefix if isinstance(event, DiscreteGaussian)]
        found.append(
            {
                "draws": end,
                "zcdp": best_epsilon(prefix, delta)[0],
                "pld": pld_epsilon(prefix, delta),
                "measurements": {"zcdp": best_epsilon(measured, delta)[0], "pld": pld_epsilon(measured, delta)},
            }
        )
    if prv is not None:
        bounds = prv.compose([_listed(events[:end]) for end in ends], float(delta))
        for step, each in zip(found, bounds, strict=True):
            step["measurements"]["prv"] = each
    return found


def chosen_pairs(steps: Sequence[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """Count how often each pair was measured."""
    return Counter(tuple(step["clique"]) for step in steps if len(step["clique"]) == 2)


def _listed(events: Sequence[PrivacyEvent]) -> list[list[Any]]:
    """Return the measurements' noise multipliers with how often, as the script of prv_accountant reads them."""
    counts: Counter[float] = Counter()
    for event in events:
        if isinstance(event, DiscreteGaussian):
            moved = sum(move * move for move in event.moves)
            counts[sqrt(event.sigma_squared / moved)] += 1
    return [[{"noise_multiplier": value}, count] for value, count in counts.items()]


def _cliques(domain: Any, degree: int) -> list[tuple[str, ...]]:
    return list(combinations(domain.columns, degree))


def _counts(
    rows: NDArray[np.int64], columns: Sequence[str], shape: Sequence[int], clique: Sequence[str]
) -> NDArray[np.int64]:
    places = [list(columns).index(name) for name in clique]
    sizes = [shape[place] for place in places]
    numbers = np.ravel_multi_index(tuple(rows[:, place] for place in places), sizes)
    return np.bincount(numbers, minlength=int(np.prod(sizes))).reshape(sizes)
