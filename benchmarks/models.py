"""Private classifiers on Adult: no privacy, the three approaches, DP-SGD, and membership inference.

    python -m benchmarks.models --data DIR [--folds 10] [--parts plain,approaches,dp_sgd,membership] [--kept DIR]

`--data DIR` holds adult/ (and bank/, nist_acs/, on which options were chosen). The paper: Sei, Ohsuga, "A
construction method of privacy-preserving neural network models", section 5 and figure 5, whose baseline and widths it
does not name. Its epsilon is of each parameter by itself; beside it stands the joint one, which a ledger charges.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._model_approaches import approaches, figure
from benchmarks._model_runs import DELTA, scored, trained, trained_plainly
from benchmarks._neural_data import adult
from benchmarks._neural_tables import Table, folds_of
from benchmarks.results import FOLDER, Row, Setting, machine, write
from privacy.classifiers.classifier import ClassifierModel
from privacy.evaluation.membership import attack, likelihood_ratios, scaled_confidence

PLAIN: Final[dict[str, Any]] = {"hidden": [16, 16, 16], "epochs": 40, "batch": 50, "learning_rate": 0.01}
"""The paper's rate, batch and regulariser; 500 epochs are more than this table needs, and overfit it."""
OVERFITTED: Final[dict[str, Any]] = {"hidden": [64], "epochs": 150, "batch": 20, "learning_rate": 0.1}
MEMBERS: Final = 1000
SHADOWS: Final = 8
_PACKAGES: Final = ("numpy", "torch", "scikit-learn")


def main() -> None:
    """Measure the parts that are asked for, and write them beside those that were measured before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=10, help="of ten")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--kept", type=Path, default=Path("build") / "models", help="where runs are remembered")
    given = parser.parse_args()
    wanted, table = given.parts.split(","), adult(given.data)
    parts: dict[str, Callable[[Table, int], Iterator[Row]]] = {
        **PARTS,
        "approaches": partial(approaches, kept=given.kept),
    }
    rows = [row for row in _earlier() if row.settings["part"] not in wanted]
    for part in wanted:
        rows += [replace(row, settings={**row.settings, "part": part}) for row in parts[part](table, given.folds)]
        print(part, "done", flush=True)
    rows.sort(key=lambda row: list(PARTS).index(str(row.settings["part"])))
    write("models", rows)
    figure(rows)


def _earlier() -> list[Row]:
    """Return the rows that were measured before."""
    path = FOLDER / "models.json"
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def plain(table: Table, folds: int) -> Iterator[Row]:
    """Cross-validate an ordinary training: no privacy."""
    each = []
    for train, test in folds_of(len(table), folds):
        each.append(scored(trained_plainly(table.some(train), PLAIN, seed=1), table.some(test)))
        print("fold", each[-1], flush=True)
    accuracy, f_measure = (float(np.mean([getattr(one, name) for one in each])) for name in ("accuracy", "f_measure"))
    about = _about(PLAIN, folds=folds)
    yield Row("Adult, no privacy, 5 layers: accuracy", accuracy, "share", 0.85, accuracy >= 0.85, 0.85, None, about)
    yield Row("Adult, no privacy, 5 layers: macro F", f_measure, "F", 0.78, f_measure >= 0.78, 0.79, None, about)
    most = float(np.bincount(table.labels()).max() / len(table))
    yield Row("Adult, the more frequent label alone: accuracy", most, "share", settings=_about({}))


def dp_sgd(table: Table, folds: int) -> Iterator[Row]:
    """DP-SGD at joint epsilons; five seeds, the first fold of ten each time another one."""
    for epsilon, target in ((1.0, 0.84), (0.1, None), (10.0, None)):
        each = []
        for seed, (inside, outside) in enumerate(folds_of(len(table), 10)[:5]):
            made = trained(
                "dp_sgd",
                {"rows_about": len(inside), "reserve": 0, "checkpoints": 4},
                table.some(inside),
                epsilon=Fraction(str(epsilon)),
                delta=DELTA,
                seed=seed,
            )
            each.append(scored(made.model, table.some(outside)))
        accuracy, f_measure = (float(np.mean([getattr(s, n) for s in each])) for n in ("accuracy", "f_measure"))
        about = _about({}, seeds=5, folds="5 of 10", defaults=True, f_measure=round(f_measure, 4))
        what = f"DP-SGD classifier at joint epsilon {epsilon:g}, delta 1e-5: accuracy"
        yield Row(what, accuracy, "share", target, None if target is None else accuracy >= target, None, None, about)


def membership(table: Table, folds: int) -> Iterator[Row]:
    """Attack a model at epsilon 1 and an overfitted one without privacy, of as many rows, by both attacks."""
    rng = np.random.default_rng(0)
    pool = table.some(rng.permutation(len(table))[: 2 * MEMBERS])
    sides = [rng.permutation(2 * MEMBERS)[:MEMBERS] for _ in range(SHADOWS + 1)]
    for name, make, target in (
        ("at epsilon 1", lambda rows, seed: _private(rows, seed), "<= 0.53"),
        ("overfitted, without privacy", lambda rows, seed: trained_plainly(rows, OVERFITTED, seed=seed), "> 0.6"),
    ):
        confidences = np.stack([_confidences(make, pool, side, seed) for seed, side in enumerate(sides)])
        inside = np.zeros((SHADOWS + 1, 2 * MEMBERS), dtype=bool)
        for place, side in enumerate(sides):
            inside[place, side] = True
        ratios = likelihood_ratios(confidences[0], confidences[1:], inside[1:])
        areas = []
        for how, given in (("loss threshold", confidences[0]), ("shadow models", ratios)):
            found = attack(given, inside[0])
            areas.append(found.area)
            aim, holds = (target, found.area <= 0.53) if target.startswith("<") else (None, None)
            about = _about(
                {}, members=MEMBERS, shadows=SHADOWS, caught_at_1_percent=round(found.caught_at_low_rate, 4)
            )
            yield Row(f"membership inference, {how}, {name}: AUC", found.area, "area", aim, holds, None, None, about)
        if target.startswith(">"):
            yield Row(f"membership inference, {name}: larger AUC", max(areas), "area", target, max(areas) > 0.6)


def _private(table: Table, seed: int) -> ClassifierModel:
    options = {"rows_about": len(table), "reserve": 0, "checkpoints": 2}
    return trained("dp_sgd", options, table, epsilon=Fraction(1), delta=DELTA, seed=seed).model


def _confidences(
    make: Callable[[Table, int], ClassifierModel], pool: Table, side: NDArray[np.int64], seed: int
) -> NDArray[np.float64]:
    model = make(pool.some(side), seed)
    return scaled_confidence(model.probabilities(pool.codes()), pool.labels())


def _about(options: dict[str, Any], **more: Setting) -> dict[str, Setting]:
    return {**machine(*_PACKAGES), **more, **({"options": options} if options else {})}


PARTS: Final[dict[str, Callable[[Table, int], Iterator[Row]]]] = {
    "plain": plain,
    "approaches": partial(approaches, kept=Path("build") / "models"),
    "dp_sgd": dp_sgd,
    "membership": membership,
}
if __name__ == "__main__":
    main()
