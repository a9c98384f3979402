"""Generators that learn from rows, and the best that count, beside P3GM's paper; epsilon 1, delta 1e-5.

    python -m benchmarks.neural [--data DIR] [--only SECTION ...] [--folds N] [--generators NAME ...]
        [--images [NAME=]PATH.npz ...] [--credit creditcard.csv] [--kept DIR]

A generator sees the training rows only; classifiers learn from what it made up and are tested on real rows. "real"
among the generators means learning from the real training rows: no privacy, the upper end. The paper takes 10 folds;
here it is 3, or --folds; pictures have their own test rows, and 3 seeds of the noise. Without --data (or
SUDARE_BENCHMARK_DATA) the sections that need it are left out. What was made is kept in --kept and taken from there
when it is there already; times are only as good as the machine was quiet.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import _neural_data as data
from benchmarks._neural_composition import composition
from benchmarks._neural_convergence import convergence
from benchmarks._neural_fit import Kept, Method
from benchmarks._neural_learners import accuracy, ranked
from benchmarks._neural_paper import CREDIT_CANNOT_BE_HAD, RANKED
from benchmarks._neural_rows import Asked, learned, pictures, positive, side_by_side, tables
from benchmarks._neural_tables import Codes, Table, folds_of
from benchmarks.results import Row, machine, write

Section = Callable[[argparse.Namespace, Asked], list[Row]]
_PART_OF_ISOLET: Final = "1,560 of the 7,797 rows: the rest cannot be had here; positives are the vowels"


def main() -> None:
    """Measure the sections that are asked for; all of them together are written to results/neural.json."""
    given = _arguments()
    asked = Asked(Kept(given.kept), given.folds, given.generators)
    rows = [row for name in given.only or SECTIONS for row in {**SECTIONS, **OTHERS}[name](given, asked)]
    whole = given.only is None and given.generators is None
    write("neural" if whole else "-".join(["neural", *(given.only or []), *(given.generators or [])]), rows)


def _adult(given: argparse.Namespace, asked: Asked) -> list[Row]:
    if _left_out(given, "adult"):
        return []
    table = data.adult(given.data)
    return tables(asked, lambda bins: table, note="complete rows; bins of examples/adult's contract")


def _esr(given: argparse.Namespace, asked: Asked) -> list[Row]:
    if _left_out(given, "esr"):
        return []
    return tables(
        asked,
        lambda bins: data.esr(given.data, bins=bins),
        note="seizure (y = 1) against the rest; bounds of the converter",
    )


def _esr_bounds(given: argparse.Namespace, asked: Asked) -> list[Row]:
    """Measure what narrower bounds of the same numbers do to a generator that learns from vectors."""
    if _left_out(given, "esr_bounds"):
        return []
    vectors = replace(asked, generators=["p3gm"] if _wanted(asked, "p3gm") else [])
    loads = [partial(_esr_table, given.data, bound) for bound in data.ESR_NARROWER]
    return [row for load in loads for row in tables(vectors, load, note="as esr, with narrower bounds")]


def _esr_table(folder: Path, bound: int, bins: int) -> Table:
    return data.esr(folder, bins=bins, bound=bound)


def _wanted(asked: Asked, name: str) -> bool:
    return asked.generators is None or name in asked.generators


def _isolet(given: argparse.Namespace, asked: Asked) -> list[Row]:
    if _left_out(given, "isolet"):
        return []
    return tables(asked, lambda bins: data.isolet(given.data, bins=bins), note=_PART_OF_ISOLET)


def _credit(given: argparse.Namespace, asked: Asked) -> list[Row]:
    """Kaggle Credit, where a path to it is given; else a row that says why there is no number."""
    if given.credit is not None:
        return tables(asked, partial(_credit_table, given.credit))
    paper = RANKED["credit"]["p3gm"][0]
    settings = {**machine(), "reason": CREDIT_CANNOT_BE_HAD}
    return [Row("credit, p3gm, AUROC", None, "not measured", paper=paper, settings=settings)]


def _credit_table(path: Path, bins: int) -> Table:
    return data.credit(path, bins=bins)


def _images(given: argparse.Namespace, asked: Asked) -> list[Row]:
    """MNIST, and whatever else of its form is named, with a sheet of pictures each."""
    rows = []
    for name, path in _files(given).items():
        train, test = data.pictures(path, name)
        rows += pictures(asked, train, test)
        side_by_side(asked, train)
    return rows


def _images_at_ten(given: argparse.Namespace, asked: Asked) -> list[Row]:
    """The same pictures at epsilon 10."""
    loaded = [data.pictures(path, name) for name, path in _files(given).items()]
    return [row for parts in loaded for row in pictures(asked, *parts, epsilon=Fraction(10))]


def _files(given: argparse.Namespace) -> dict[str, Path]:
    named = {}
    for part in given.images:
        name, _, path = part.rpartition("=")
        named[name or Path(path).stem] = Path(path)
    return named if _left_out(given, "mnist") else {"mnist": given.data / "mnist" / "mnist.npz", **named}


def _convergence(given: argparse.Namespace, asked: Asked) -> list[Row]:
    """Pictures by a network's accuracy, Adult by XGBoost's AUROC on the first fold."""
    if _left_out(given, "convergence"):
        return []
    train, test = data.pictures(given.data / "mnist" / "mnist.npz", "mnist")
    real = learned(test)

    def recognised(codes: Codes) -> float:
        return accuracy("MLP", train.made_up(codes, seed=0), real)

    rows = convergence(asked.kept, _trained(asked, train), train, recognised, "accuracy of an MLP")
    table = data.adult(given.data)
    seen, unseen = folds_of(len(table), asked.folds)[0]
    people, others = table.some(seen), learned(table.some(unseen))

    def ordered(codes: Codes) -> float:
        features, labels = people.made_up(codes, seed=0)
        return ranked((features, positive(table, labels)), others, learners=["XGBoost"])["XGBoost"]["auroc"]

    return rows + convergence(asked.kept, _trained(asked, people), people, ordered, "AUROC of XGBoost")


def _trained(asked: Asked, table: Table) -> list[Method]:
    """Return those methods whose training the paper follows."""
    return [method for method in asked.methods(table, len(table)) if method.generator in ("ae", "p3gm", "vae")]


def _composition(given: argparse.Namespace, asked: Asked) -> list[Row]:
    return composition()


def _bank(given: argparse.Namespace, asked: Asked) -> list[Row]:
    return [] if _left_out(given, "bank") else _others(data.bank(given.data), asked)


def _acs(given: argparse.Namespace, asked: Asked) -> list[Row]:
    return [] if _left_out(given, "acs") else _others(data.acs(given.data), asked)


def _others(table: Table, asked: Asked) -> list[Row]:
    return tables(asked, lambda bins: table, note="for choosing options; categories as they occur")


def _left_out(given: argparse.Namespace, section: str) -> bool:
    if given.data is None:
        print(f"{section} is left out: no --data and no SUDARE_BENCHMARK_DATA")
    return given.data is None


SECTIONS: Final[dict[str, Section]] = {
    "adult": _adult,
    "esr": _esr,
    "esr_bounds": _esr_bounds,
    "isolet": _isolet,
    "credit": _credit,
    "images": _images,
    "convergence": _convergence,
    "composition": _composition,
}
OTHERS: Final[dict[str, Section]] = {"bank": _bank, "acs": _acs, "images_at_ten": _images_at_ten}
"""Data to choose options by, and another charge; only measured when asked for."""


def _arguments() -> argparse.Namespace:
    """Read where the data are, and what is wanted."""
    parser = argparse.ArgumentParser(description="neural generators beside P3GM's paper")
    found = os.environ.get("SUDARE_BENCHMARK_DATA")
    parser.add_argument("--data", type=Path, default=Path(found) if found else None)
    parser.add_argument("--only", nargs="+", choices=sorted({**SECTIONS, **OTHERS}), default=None)
    parser.add_argument("--folds", type=int, default=3, help="of the cross-validation; the paper has 10")
    parser.add_argument("--generators", nargs="+", default=None, help="of the registry; `real` for the real rows")
    parser.add_argument("--images", nargs="+", default=[], metavar="[NAME=]PATH", help="28 x 28 arrays in an .npz")
    parser.add_argument("--credit", type=Path, default=None, help="creditcard.csv of Kaggle Credit")
    parser.add_argument("--kept", type=Path, default=Path("build") / "neural")
    return parser.parse_args()


if __name__ == "__main__":
    main()
