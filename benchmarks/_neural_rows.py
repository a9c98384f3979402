"""Tables 3 and 4 of the paper: classifiers that learned from made-up rows, tested on real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_fit import DELTA, EPSILON, Kept, Method
from benchmarks._neural_free import FREE, VARIANTS, registered
from benchmarks._neural_learners import BATCH, EPOCHS, SIDE, accuracies, ranked
from benchmarks._neural_methods import methods, variant
from benchmarks._neural_paper import AIMED, AIMED_AT_MORE, AIMED_AT_PICTURES, RANKED, RECOGNISED
from benchmarks._neural_tables import Features, Table, folds_of
from benchmarks._plots import sheets
from benchmarks.results import FOLDER, Row, Setting, machine
from privacy.generators.generator import CannotGenerate

Bins = int
Learned = tuple[Features, NDArray[np.int64]]
MANY_BINS: Final = 256
LABELS: Final = 10
SHOWN: Final = 4
"""Pictures of a label in figure 1."""
FIGURES: Final = FOLDER / "neural"
PICTURE_SEEDS: Final = (1, 2, 3)
_SCORES: Final = ("auroc", "auprc")
_PACKAGES: Final = ("numpy", "scikit-learn", "xgboost-cpu", "torch")


@dataclass(frozen=True)
class Asked:
    """What is wanted.

    Args:
        kept: makes rows.
        folds: of a cross-validation.
        generators: their names; all of them for None.
    """

    kept: Kept
    folds: int
    generators: Sequence[str] | None

    @property
    def real(self) -> bool:
        """Whether real rows are learned from too."""
        return self.generators is None or "real" in self.generators

    def methods(self, table: Table, rows: int) -> list[Method]:
        """Return the methods for a table of which a generator sees so many rows."""
        wanted = None if self.generators is None else [name for name in self.generators if name != "real"]
        return methods(table.name, table.label, table.layout.code_width, rows, wanted) if wanted != [] else []


def tables(asked: Asked, load: Callable[[Bins], Table], *, note: str = "") -> list[Row]:
    """Cross-validate real rows and every generator.

    Args:
        load: gives the table with so many bins a number, where it leaves them open.
        note: what a reader must know about the data.
    """
    table = load(MANY_BINS)
    about: dict[str, Setting] = {"rows": len(table), "columns": len(table.columns), "note": note}
    rows = []
    if asked.real:
        found = [_real(asked, table, fold) for fold in range(asked.folds)]
        rows += _ranked_rows(asked, table.name, "real", found, about)
    seen = len(table) * (asked.folds - 1) // asked.folds
    for method in asked.methods(table, seen):
        binned = load(method.bins or MANY_BINS)
        try:
            reports = [_ranked_fold(asked, binned, method, fold) for fold in range(asked.folds)]
        except CannotGenerate as refused:
            rows.append(_refused(table, method, about, refused))
            continue
        settings = about | {
            **variant(method, binned.layout),
            "options": dict(method.options),
            "bins": method.bins,
            "seconds_of_a_fit": [report["seconds"] for _, report in reports],
            "cpu_seconds_of_a_fit": [report["cpu_seconds"] for _, report in reports],
            "notes": reports[0][1]["notes"],
        }
        rows += _ranked_rows(asked, table.name, method.generator, [scores for scores, _ in reports], settings)
    return rows


def _refused(table: Table, method: Method, about: Mapping[str, Setting], refused: CannotGenerate) -> Row:
    """Return a row for a generator that refuses to make such rows."""
    settings: dict[str, Setting] = {**machine(), **about, "options": dict(method.options), "reason": str(refused)}
    return Row(f"{table.name}, {method.generator}, AUROC", None, "refused by its plan", settings=settings)


def pictures(asked: Asked, train: Table, test: Table, *, epsilon: Fraction = EPSILON) -> list[Row]:
    """Learn from as many made-up pictures as there are real ones, and recognise the real test pictures."""
    rows: list[Row] = []
    if asked.real:
        scores = asked.kept.score([train.name, "real", EPOCHS], lambda: accuracies(learned(train), learned(test)))
        rows += _recognised_rows(train, "real", [scores], {})
    for method in asked.methods(train, len(train)):
        reports = [_recognised(asked, train, test, method, seed, epsilon) for seed in PICTURE_SEEDS]
        settings: dict[str, Setting] = {
            **variant(method, train.layout),
            "options": dict(method.options),
            "seconds_of_a_fit": [report["seconds"] for _, report in reports],
            "cpu_seconds_of_a_fit": [report["cpu_seconds"] for _, report in reports],
        }
        rows += _recognised_rows(train, method.generator, [scores for scores, _ in reports], settings, epsilon)
    return rows


def side_by_side(asked: Asked, train: Table) -> None:
    """Draw figure 1 without real pictures, which are not ours to share: each generator's first of a label."""
    shown: dict[str, NDArray[np.integer[Any]]] = {}
    for method in asked.methods(train, len(train)):
        codes = asked.kept.made(method, train, "train", seed=PICTURE_SEEDS[0]).codes
        shown[method.generator] = _first_of_each(codes[:, -1].astype(np.int64), codes[:, :-1])
    sheets(FIGURES / f"{train.name}-pictures.svg", f"{train.name}, epsilon 1", shown, across=LABELS)


def _first_of_each(labels: NDArray[np.int64], pixels: Any) -> NDArray[np.integer[Any]]:
    """Return the first pictures of each label, a column a label; blank where there are too few."""
    sheet = np.zeros((SHOWN, LABELS, SIDE, SIDE), dtype=np.int64)
    for label in range(LABELS):
        found = pixels[labels == label][:SHOWN].reshape(-1, SIDE, SIDE)
        sheet[: len(found), label] = found
    return sheet.reshape(-1, SIDE, SIDE)


def _recognised(
    asked: Asked, train: Table, test: Table, method: Method, seed: int, epsilon: Fraction
) -> tuple[Any, Mapping[str, Any]]:
    """Fit to the training pictures, learn from what was made, and recognise the test pictures."""
    made = asked.kept.made(method, train, "train", seed=seed, epsilon=epsilon)
    mark = [train.name, method.generator, dict(method.options), seed, EPOCHS]
    mark += [] if epsilon == EPSILON else [str(epsilon)]
    scores = asked.kept.score(mark, lambda: accuracies(train.made_up(made.codes, seed=0), learned(test)))
    return scores, made.report


def _real(asked: Asked, table: Table, fold: int) -> Any:
    train, test = _parts(asked, table, fold)
    return asked.kept.score([table.name, "real", fold, asked.folds], lambda: ranked(learned(train), learned(test)))


def _ranked_fold(asked: Asked, table: Table, method: Method, fold: int) -> tuple[Any, Mapping[str, Any]]:
    """Fit to a fold's training rows, learn from what was made, and rank its test rows."""
    train, test = _parts(asked, table, fold)
    made = asked.kept.made(method, train, f"{fold}of{asked.folds}", seed=fold + 1)
    mark = [table.name, method.generator, dict(method.options), method.bins, fold, asked.folds]

    def measure() -> Any:
        features, labels = train.made_up(made.codes, seed=fold)
        return ranked((features, positive(table, labels)), learned(test))

    return asked.kept.score(mark, measure), made.report


def _parts(asked: Asked, table: Table, fold: int) -> tuple[Table, Table]:
    train, test = folds_of(len(table), asked.folds)[fold]
    return table.some(train), table.some(test)


def learned(table: Table) -> Learned:
    """Return real rows as features and labels; 1 is the positive one, where there is one."""
    labels = table.labels()
    return table.features(), labels if table.positive is None else positive(table, labels)


def positive(table: Table, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 1 for the positive label."""
    return np.asarray(labels == table.positive, dtype=np.int64)


def _ranked_rows(asked: Asked, table: str, name: str, found: Sequence[Any], about: dict[str, Setting]) -> list[Row]:
    """Return a row for AUROC and one for AUPRC: means of folds and learners."""
    rows = []
    printed = registered(name) if name in VARIANTS else name
    paper = RANKED.get(table, {}).get(printed, (None, None))
    aimed = AIMED.get((table, printed), (None, None))
    for place, score in enumerate(_SCORES):
        means = [fold["mean"][score] for fold in found]
        learners: dict[str, Setting] = {
            learner: round(fmean(fold[learner][score] for fold in found), 4)
            for learner in found[0]
            if learner != "mean"
        }
        settings: dict[str, Setting] = {
            **machine(*_PACKAGES),
            **about,
            **_privacy(name),
            "folds": asked.folds,
            "paper_folds": 10,
            "learners": learners,
            "by_fold": [round(mean, 4) for mean in means],
        }
        measured, target = round(fmean(means), 4), aimed[place]
        rows.append(
            Row(
                f"{table}, {name}, {score.upper()}",
                measured,
                "mean of 4 classifiers",
                target=target,
                holds=None if target is None else measured >= target,
                paper=paper[place],
                settings=settings,
            )
        )
    return rows


def _recognised_rows(
    table: Table, name: str, found: Sequence[Any], about: dict[str, Setting], epsilon: Fraction = EPSILON
) -> list[Row]:
    """Return a row for each network."""
    usual = epsilon == EPSILON
    at = "" if usual else f" at epsilon {epsilon}"
    rows = []
    printed = registered(name) if name in VARIANTS else name
    for network in found[0]:
        measured = round(fmean(each[network] for each in found), 4)
        first = network == "CNN"
        aimed = AIMED_AT_PICTURES if usual else AIMED_AT_MORE
        target = aimed.get((table.name, printed)) if first else None
        settings: dict[str, Setting] = {
            **machine(*_PACKAGES),
            **about,
            **_privacy(name, epsilon),
            "by_seed": [round(each[network], 4) for each in found],
            "classifier": f"{network}, {EPOCHS} epochs of Adam at 0.001, batches of {BATCH}",
            "made_up_rows": len(table),
            "split": "the data's own test rows",
        }
        rows.append(
            Row(
                f"{table.name}, {name}{at}, accuracy of a {network}",
                measured,
                "of real test pictures",
                target=target,
                holds=None if target is None else measured >= target,
                paper=RECOGNISED.get(table.name, {}).get(printed) if first and usual else None,
                settings=settings,
            )
        )
    return rows


def _privacy(name: str, epsilon: Fraction = EPSILON) -> dict[str, Setting]:
    if name == "real":
        return {"epsilon": None, "note_on_privacy": "real rows, no privacy"}
    if name in FREE:
        return {"epsilon": None, "note_on_privacy": f"{FREE[name]} without noise and clipping: no privacy"}
    return {"epsilon": str(epsilon), "delta": str(DELTA), "adjacency": "add_remove"}
