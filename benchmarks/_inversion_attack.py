"""Model inversion on MNIST: what softmax regressions say that digits look like, and that of a class of one record.

many    ten digits, thousands of records each: does each found picture look like its digit, and more like the
        records that were trained on than like others?
one     nine digits, and a tenth class of one single picture: is that picture told from 1,000 others of its digit?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from benchmarks._model_runs import DELTA, scored, trained, trained_plainly
from benchmarks._neural_data import pictures
from benchmarks._neural_tables import Table
from benchmarks._plots import sheets
from benchmarks.results import PICTURES, Row, machine
from privacy.arrays import Floats
from privacy.classifiers.classifier import ClassifierModel
from privacy.evaluation.seen_releases import inverted, likeness

CLASSES: Final = 10
ALONE: Final = 9
ONES: Final = 10
ROWS: Final = 20_000
PLAIN: Final[Mapping[str, Any]] = {"hidden": [], "epochs": 50, "batch": 20, "learning_rate": 0.1}
SIDE: Final = 28
SMOOTHED: Final = 1.0
"""Standard deviation by which what is found is smoothed, as Fredrikson et al. denoise [pixels]."""
KINDS: Final[Mapping[str, Callable[[Table, int], ClassifierModel]]] = {
    "without privacy": lambda rows, seed: trained_plainly(rows, PLAIN, seed=seed),
    "at epsilon 1": lambda rows, seed: (
        trained(
            "dp_sgd",
            {"rows_about": len(rows), "reserve": 0, "checkpoints": 2},
            rows,
            epsilon=Fraction(1),
            delta=DELTA,
            seed=seed,
        ).model
    ),
}
Found = dict[str, NDArray[np.float64]]


def inversion(data: Path) -> Iterator[Row]:
    """Invert models of both kinds, of classes of many records and of one."""
    train, test = pictures(data / "mnist" / "mnist.npz", "mnist")
    drawn: Found = {"typical digits": _means(test)}
    for kind in KINDS:
        yield from _many(kind, train, test, drawn)
    chosen = np.flatnonzero(train.labels() == ALONE)[:ONES]
    for kind in KINDS:
        yield _one(kind, train, test, chosen, drawn)
    grey = {
        name: np.rint(255 * each.clip(0, 1)).astype(np.int64).reshape(-1, SIDE, SIDE) for name, each in drawn.items()
    }
    sheets(PICTURES / "model_attacks.svg", "Model inversion of MNIST, with and without privacy", grey, across=5)


def _many(kind: str, train: Table, test: Table, drawn: Found) -> Iterator[Row]:
    """Look for the ten digits."""
    rows = train.some(np.random.default_rng(0).permutation(len(train))[:ROWS])
    model = KINDS[kind](rows, 1)
    found = [_smooth(inverted(model, cell).moved) for cell in range(CLASSES)]
    drawn[f"found {kind}"] = np.stack([_shown(each) for each in found])
    means, middle = _means(test), _pixels(test).mean(axis=0)
    like = np.array([[likeness(each, mean - middle) for mean in means] for each in found])
    told = int((like.argmax(axis=1) == np.arange(CLASSES)).sum())
    inside, outside = (_like_each(found_of=found, rows=of) for of in (rows, test))
    about = {**machine("numpy", "torch"), "rows": len(rows), "accuracy": scored(model, test).accuracy}
    about |= {"likeness_to_own_digit": float(np.diag(like).mean())}
    about |= {"likeness_to_members": inside, "likeness_to_others": outside}
    what = f"inversion, digits of many records, {kind}"
    yield Row(f"{what}: found pictures most like the mean of their digit", told, f"of {CLASSES}", settings=about)
    yield Row(f"{what}: likeness to members less that to others", inside - outside, "correlation", settings=about)
    print(what, told, about, flush=True)


def _one(kind: str, train: Table, test: Table, chosen: NDArray[np.int64], drawn: Found) -> Row:
    """Look for a class of one record: among how many of 100 pictures of its digit is it the likest?"""
    others = np.flatnonzero(train.labels() != ALONE)
    beside = _pixels(test.some(np.flatnonzero(test.labels() == ALONE)))
    middle, ranks, seen = _pixels(test).mean(axis=0), [], []
    for number, place in enumerate(chosen):
        kept = np.random.default_rng(number).permutation(others)[: ROWS - 1]
        rows = train.some(np.append(kept, place))
        found = _smooth(inverted(KINDS[kind](rows, number), ALONE).moved)
        own = likeness(found, _pixels(train.some(np.array([place])))[0] - middle)
        ranks.append(float(np.mean([likeness(found, other - middle) < own for other in beside])))
        seen.append(_shown(found))
        print("inversion, one record,", kind, number, f"{ranks[-1]:.3f} {own:.3f}", flush=True)
    drawn[f"found of one {kind}"] = np.stack(seen)
    rank, deviation = float(np.mean(ranks)), (12 * len(ranks)) ** -0.5
    private = kind != "without privacy"
    about = {**machine("numpy", "torch"), "rows": ROWS, "trainings": len(ranks), "beside": len(beside)}
    about |= {"deviation_of_guessing": deviation, "each": [round(each, 4) for each in ranks]}
    what = f"inversion, a class of one record, {kind}: share of other pictures of its digit less like what was found"
    target = f"<= {0.5 + 3 * deviation:.3f}" if private else "> 0.95"
    holds = rank <= 0.5 + 3 * deviation if private else rank > 0.95
    return Row(what, rank, "share; 0.5 is guessing", target, holds, settings=about)


def _smooth(moved: Floats) -> Floats:
    """Smooth a picture."""
    return np.asarray(gaussian_filter(moved.reshape(SIDE, SIDE), SMOOTHED)).ravel()


def _shown(moved: Floats) -> Floats:
    """Scale a difference for drawing: grey where the class says nothing, its largest change black or white."""
    return 0.5 + moved / max(2 * float(np.abs(moved).max()), 1e-12)


def _means(table: Table) -> Floats:
    pixels, labels = _pixels(table), table.labels()
    return np.stack([pixels[labels == cell].mean(axis=0) for cell in range(CLASSES)])


def _pixels(table: Table) -> Floats:
    return np.asarray(table.values["picture"], dtype=np.float64) / 255


def _like_each(*, found_of: list[Floats], rows: Table) -> float:
    """Return the mean likeness of found pictures to records of their digit, the same number of each."""
    pixels, labels = _pixels(rows), rows.labels()
    middle = pixels.mean(axis=0)
    fewest = min(int((labels == cell).sum()) for cell in range(CLASSES))
    each = [
        np.mean([likeness(found, row - middle) for row in pixels[labels == cell][:fewest]])
        for cell, found in enumerate(found_of)
    ]
    return float(np.mean(each))
