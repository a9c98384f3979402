"""The yardsticks of an evaluation: bootstrap, independent columns, and learners that saw the real rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.propensity import Pooled, Propensity, logistic_propensity, pool
from privacy.evaluation.yardsticks import BOOTSTRAP, INDEPENDENT, Yardstick, bootstrap, independent, yardstick
from tasks.evaluation.predictors import SEED, EvaluationExtraMissing, accuracies, decision_tree

PERMUTATIONS: Final = 10


def tree_propensity(pooled: Pooled) -> Propensity:
    """Fit a tree of depth 5 on the codes of the columns, in their declared order, and return its pMSE.

    A tree's null has no closed form: `expected` is the mean over 10 dealings of as many made-up rows among all rows.

    Args:
        pooled: real and made-up rows.
    Returns:
        Propensity: of the class of the rows.
    Raises:
        EvaluationExtraMissing: scikit-learn is not installed.
    Source: Snoke, Raab, Nowok, Dibben, Slavkovic 2018, General and specific utility measures for synthetic data.
    """
    random = np.random.default_rng(SEED)
    number = int(pooled.made.sum())
    dealt = [random.multivariate_hypergeometric(pooled.rows, number, method="marginals") for _ in range(PERMUTATIONS)]
    expected = float(np.mean([_pmse(pooled, made) for made in dealt]))
    return Propensity(_pmse(pooled, pooled.made), expected)


def _pmse(pooled: Pooled, made: NDArray[np.int64]) -> float:
    """Fit one tree, each distinct row once for either label, weighted by how often it has that label."""
    codes = np.concatenate([pooled.codes, pooled.codes])
    labels = np.repeat([0, 1], len(pooled.codes))
    weights = np.concatenate([pooled.rows - made, made])
    tree = decision_tree()
    tree.fit(codes[weights > 0], labels[weights > 0], sample_weight=weights[weights > 0])
    return pooled.pmse(np.asarray(tree.predict_proba(pooled.codes)[:, 1], dtype=np.float64))


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
