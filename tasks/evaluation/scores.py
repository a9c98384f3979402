"""Train on made-up rows, test on real ones: decision tree, support vector machine, XGBoost.

All columns but the target are one-hot encoded over their declared cells. Equal rows are trained on once, with their
number as weight, which changes neither learner's problem (both minimise sums over rows) and makes the support vector
machine, whose time grows with the square of the rows, several times faster.

The paper names the three learners and no settings. These are the libraries' defaults, but for the depth of the tree:
grown to the end, it learns the noise of made-up rows by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import SudareError
from privacy.evaluation.cells import EncodedRows, check_comparable
from privacy.evaluation.rows import (
    BOOTSTRAP,
    INDEPENDENT,
    Pooled,
    Propensity,
    Yardstick,
    bootstrap,
    independent,
    logistic_propensity,
    pool,
    yardstick,
)

TREE_DEPTH: Final = 5
PACKAGES: Final = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}
"""Each module of the extra, and the package that it comes in."""
SEED: Final = 0


class EvaluationExtraMissing(SudareError):
    """scikit-learn or xgboost is not installed."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"evaluation needs {package}, which is not installed; install the extra: pip install 'sudare[evaluate]'"
        )


def check_installed(*modules: str) -> None:
    """Refuse an evaluation before it reads rows where a package is missing.

    Raises:
        EvaluationExtraMissing: names the first one.
    """
    for module in modules:
        if find_spec(module) is None:
            raise EvaluationExtraMissing(PACKAGES[module])


def decision_tree() -> Any:
    """A decision tree of depth 5."""
    tree = _package("sklearn.tree")
    return tree.DecisionTreeClassifier(max_depth=TREE_DEPTH, random_state=SEED)


def support_vector_machine() -> Any:
    """A support vector machine with a Gaussian kernel."""
    svm = _package("sklearn.svm")
    return svm.SVC(cache_size=500)


def xgboost() -> Any:
    """Boosted trees."""
    boosted = _package("xgboost")
    return boosted.XGBClassifier(random_state=SEED, n_jobs=2)


LEARNERS: Final[dict[str, Callable[[], Any]]] = {
    "decision tree": decision_tree,
    "support vector machine": support_vector_machine,
    "xgboost": xgboost,
}


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Distinct rows: one-hot features, targets, and how often each stands in the table."""

    features: NDArray[np.float32]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64]


def accuracies(
    train: EncodedRows,
    test: EncodedRows,
    *,
    target: str,
    most: int | None = None,
    after: Callable[[str], None] = lambda name: None,
) -> dict[str, float]:
    """Train every learner on one table and return the share of the other's rows whose target it predicts.

    Args:
        train: the rows to learn from, made up or (for comparison) real.
        test: the rows to predict, of the same columns; at least one.
        target: the column to predict.
        most: rows, drawn at random, from which the support vector machine learns and on which it is tested: its time
            grows with their product. All without it.
        after: called with the name of each learner that is done.
    Returns:
        Accuracy by learner, from 0 to 1; of the class of `test`, private when it is.
    Raises:
        EvaluationExtraMissing: scikit-learn or xgboost is not installed.
        ValueError: the tables do not have the same columns, no column but the target, or no rows to learn from.
    """
    check_comparable(test, train)
    if target not in train.columns or len(train.columns) < 2:
        raise ValueError(f"target must be one of at least two columns, {train.columns}")
    if not len(train.codes):
        raise ValueError("there must be at least one row to learn from")
    known, asked = _weighted(train, target), _weighted(test, target)
    found = {}
    for name, make in LEARNERS.items():
        if make is support_vector_machine and most is not None:
            few, some = _weighted(_some(train, most), target), _weighted(_some(test, most), target)
            found[name] = _accuracy(make, few, some)
        else:
            found[name] = _accuracy(make, known, asked)
        after(name)
    return found


def population_chances(population: EncodedRows, targets_of: EncodedRows, *, target: str) -> NDArray[np.float64]:
    """Return what rows of the population tell of a column of other rows, by a tree with 20 rows a leaf.

    Args:
        population: rows of the population.
        targets_of: other rows; what their target is, is not read.
        target: the column.
    Returns:
        Chances of its cells, shape (asked rows, cells), above 0.
    Raises:
        EvaluationExtraMissing: scikit-learn is not installed.
    """
    check_comparable(targets_of, population)
    tree = _package("sklearn.tree").DecisionTreeClassifier(min_samples_leaf=20, random_state=SEED)
    learned, others = _features(population, target), _features(targets_of, target)
    place, size = population.columns.index(target), population.shape[population.columns.index(target)]
    tree.fit(learned, population.codes[:, place])
    found = np.full((len(targets_of.codes), size), 1 / (len(population.codes) + size))
    found[:, np.asarray(tree.classes_, dtype=np.int64)] += tree.predict_proba(others)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _some(rows: EncodedRows, most: int) -> EncodedRows:
    """Draw at most so many rows, the same at each call."""
    if len(rows.codes) <= most:
        return rows
    kept = np.random.default_rng(SEED).choice(len(rows.codes), most, replace=False)
    return EncodedRows(rows.columns, rows.shape, rows.codes[kept])


def _accuracy(make: Callable[[], Any], fitted_on: _Weighted, tested_on: _Weighted) -> float:
    """Fit one learner; targets that are all equal need none."""
    seen, targets = np.unique(fitted_on.targets, return_inverse=True)
    if len(seen) == 1:
        predicted = np.broadcast_to(seen[0], tested_on.targets.shape)
    else:
        learner = make()
        learner.fit(fitted_on.features, targets, sample_weight=fitted_on.weights)
        predicted = seen[np.asarray(learner.predict(tested_on.features), dtype=np.int64)]
    return float(np.average(predicted == tested_on.targets, weights=tested_on.weights))


def _weighted(rows: EncodedRows, target: str) -> _Weighted:
    """Count equal rows, and encode the distinct ones."""
    place = rows.columns.index(target)
    distinct, counts = np.unique(rows.codes, axis=0, return_counts=True)
    features = _features(EncodedRows(rows.columns, rows.shape, distinct), target)
    return _Weighted(features, distinct[:, place], counts.astype(np.float64))


def _features(rows: EncodedRows, target: str) -> NDArray[np.float32]:
    """Return the one-hot entries of all columns but the target."""
    others = [place for place, name in enumerate(rows.columns) if name != target]
    encoded = [np.eye(rows.shape[place], dtype=np.float32)[rows.codes[:, place]] for place in others]
    return np.concatenate(encoded, axis=1)


def _package(module: str) -> Any:
    """Import where it is used: both take seconds, and nothing but evaluation needs them."""
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise EvaluationExtraMissing(PACKAGES[package]) from None


# --- The yardsticks of an evaluation.


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
