"""Can a decision tree tell made-up rows from real ones? Its pMSE, and what that is for labels dealt at random."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.propensity import Pooled, Propensity
from tasks.evaluation.predictors import SEED, decision_tree

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
