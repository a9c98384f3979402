"""The yardsticks of an evaluation: bootstrap, independent columns, and learners that saw the real rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.propensity import Propensity, logistic_propensity, pool
from privacy.evaluation.yardsticks import BOOTSTRAP, INDEPENDENT, Yardstick, bootstrap, independent, yardstick
from tasks.evaluation.predictors import SEED, EvaluationExtraMissing, accuracies
from tasks.evaluation.propensity_tree import tree_propensity

LEAST_ROWS: Final = 10
"""With fewer rows none can be held back to test on."""
HELD_BACK: Final = 5
"""Every fifth row, after a shuffle, is tested on."""
MAKERS: Final[dict[str, Callable[[EncodedRows, np.random.Generator], EncodedRows]]] = {
    BOOTSTRAP: bootstrap,
    INDEPENDENT: independent,
}


def propensities(real: EncodedRows, other: EncodedRows) -> dict[str, Propensity]:
    """Ask two classifiers to tell the tables apart; the tree needs the extra, and is left out without it."""
    pooled = pool(real, other)
    regression = logistic_propensity(pooled)
    found = {} if regression is None else {"logistic regression": regression}
    try:
        return found | {"decision tree": tree_propensity(pooled)}
    except EvaluationExtraMissing:
        return found


def yardstick_of(name: str, real: EncodedRows, *, degrees: tuple[int, ...], shares: bool) -> Yardstick:
    """Make and score the rows of one yardstick, the same at each call."""
    random = np.random.default_rng(SEED)
    other = MAKERS[name](real, random)
    ratios = {learner: each.ratio for learner, each in propensities(real, other).items()}
    return yardstick(real, other, degrees=degrees, random=random, shares=shares, propensity=ratios)


def learned_from_real(
    real: EncodedRows, *, target: str, most: int, after: Callable[[str], None] = lambda name: None
) -> dict[str, float]:
    """Train the learners on four fifths of the real rows and test them on the last; nothing for hardly any rows.

    Privacy: private; such a classifier is never released.
    """
    if len(real.codes) < LEAST_ROWS:
        return {}
    order = np.random.default_rng(SEED).permutation(len(real.codes))
    held, kept = order[::HELD_BACK], np.setdiff1d(order, order[::HELD_BACK])
    train, test = (EncodedRows(real.columns, real.shape, real.codes[places]) for places in (kept, held))
    return accuracies(train, test, target=target, most=most, after=after)
