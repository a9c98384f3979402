"""One interval from copies: the rule on normal numbers, where all parts of the error are known."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from contracts.errors import Refused
from privacy.inference.combining import combined

TABLE = {"target": "table", "level": 0.95, "rows_ratio": 1.0}


def test_the_rule_by_hand() -> None:
    """Two copies: B = 2, q̄ - q_0 = 1, ū = 4; T = 3 + 12 + 1, and 4 more for a population of the same size."""
    found = combined(10.0, [10.0, 12.0], [3.0, 5.0], **TABLE)  # type: ignore[arg-type]
    assert (found.estimate, found.degrees_of_freedom) == (9.0, 1)
    assert found.standard_error == pytest.approx(4.0)
    assert found.upper - found.estimate == pytest.approx(12.7062 * 4.0, rel=1e-4)
    wider = combined(10.0, [10.0, 12.0], [3.0, 5.0], target="population", level=0.95, rows_ratio=1.0)
    assert wider.standard_error == pytest.approx(sqrt(20.0))
    half = combined(10.0, [10.0, 12.0], [3.0, 5.0], target="population", level=0.95, rows_ratio=0.5)
    assert half.standard_error == pytest.approx(sqrt(18.0)), "a copy of half as many rows has twice the variance"


@pytest.mark.stat
def test_intervals_hold_where_noise_sampling_and_bias_are_known() -> None:
    """2,000 drawings by a fixed seed: noise 1, sampling 0.5, and a bias of 2 that fitting makes each time. Rubin's
    rules and the interval of one table miss the truth, as they must."""
    rng, ours, rubin, single = np.random.default_rng(2), 0, 0, 0
    copies = 20
    for _ in range(2_000):
        noisy = rng.normal() + 2.0
        first = noisy + 0.5 * rng.normal()
        again = noisy + 2.0 + rng.normal(size=copies) + 0.5 * rng.normal(size=copies)
        found = combined(first, again.tolist(), [0.25] * copies, **TABLE)  # type: ignore[arg-type]
        ours += found.lower <= 0.0 <= found.upper
        rubin += abs(again.mean()) <= 2.09 * sqrt(0.25 + (1 + 1 / copies) * again.var(ddof=1))
        single += abs(first) <= 1.96 * 0.5
    assert ours / 2_000 > 0.95
    assert rubin / 2_000 < 0.2
    assert single / 2_000 < 0.5


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"target": "world"}, "'world'"),
        ({"level": 1.0}, "1.0"),
        ({"target": "population", "within": None}, "without variances"),
        ({"first": float("nan")}, "no finite number"),
        ({"within": [1.0, -1.0]}, "no finite number"),
    ],
)
def test_what_has_no_interval_is_refused(changes: dict[str, object], found: str) -> None:
    terms: dict[str, object] = {"first": 1.0, "copies": [1.0, 2.0], "within": [1.0, 1.0], **TABLE, **changes}
    with pytest.raises(Refused) as refused:
        combined(**terms)  # type: ignore[arg-type]
    assert found in refused.value.findings[0].found
