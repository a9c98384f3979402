"""Figure 5 of the parameter paper: the three approaches against epsilon, over folds and trainings.

A training is remembered, by its options, fold and seed, so that what broke off goes on, and more folds cost only
themselves. `learning_first` trains without noise: one training of a fold serves all its noises. The paper clamps
weights and biases to a range each and does not say which; beside one range for both stand two, chosen beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from hashlib import sha256
from math import log10
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from benchmarks._model_runs import DELTA, scored, trained
from benchmarks._neural_tables import Table, folds_of
from benchmarks._plots import Line, lines
from benchmarks.results import PICTURES, Row, Setting, machine
from privacy.arrays import Floats
from privacy.grant.queries import parameters as parameters_module

EPSILONS: Final = (0.1, 1.0, 10.0, 100.0)
JOINT: Final = (1.0, 10.0, 100.0)
TENTHS: Final = 10
TRAININGS: Final[Mapping[str, int]] = {"learning_first": 2}
"""Of a fold, each with another seed of weights and noise; of the others one, since each takes new noise anyway."""
PUBLISHED: Final = {"hidden": [16, 16, 16], "publish_noise": True}
"""The paper's figure has losses at which noise drowns the parameters."""
ONE_RANGE: Final[Mapping[str, Mapping[str, Any]]] = {
    "anonymizing_first": {"hidden": [16, 16, 16], "epochs": 20, "generator": "mst"},
    "learning_first": {**PUBLISHED, "epochs": 20, "lowest": -1.0, "highest": 1.0},
    "anonymized_learning": {**PUBLISHED, "epochs": 3, "batch": 50, "learning_rate": 0.5, "limit": 1.0},
}
TWO_RANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "learning_first": {**ONE_RANGE["learning_first"], "lowest_bias": -0.25, "highest_bias": 0.25},
    "anonymized_learning": {**ONE_RANGE["anonymized_learning"], "bias_limit": 0.25},
}
Runs = Iterator[dict[str, float]]


def approaches(table: Table, folds: int, *, kept: Path) -> Iterator[Row]:
    """The approaches against epsilon of each parameter, with one range and with two, and at joint epsilons.

    Args:
        folds: so many of the ten.
        kept: where runs are remembered.
    """
    kept.mkdir(parents=True, exist_ok=True)
    named = {**{name: (name, options) for name, options in ONE_RANGE.items()}}
    named |= {f"{name} with two ranges": (name, options) for name, options in TWO_RANGES.items()}
    with _trained_once():
        for title, (name, options) in named.items():
            for epsilon in EPSILONS:
                joint = name == "anonymizing_first"
                alone = {} if joint else {"parameter_epsilon": epsilon, "noise": "laplace"}
                runs = _runs(table, folds, kept, name, {**options, **alone}, epsilon if joint else None)
                yield _row(f"{title}, epsilon {epsilon:g} a parameter", {**options, **alone}, list(runs), folds)
        for name in TWO_RANGES:
            for epsilon in JOINT:
                options = {**ONE_RANGE[name], "noise": "gaussian"}
                found = list(_runs(table, folds, kept, name, options, epsilon))
                yield _row(f"{name}, calibrated jointly", options, found, folds)


def _runs(table: Table, folds: int, kept: Path, name: str, options: Mapping[str, Any], charge: float | None) -> Runs:
    """Train on each fold as often as is wanted, and score on its tenth."""
    for fold, (inside, outside) in enumerate(folds_of(len(table), TENTHS)[:folds]):
        for training in range(TRAININGS.get(name, 1)):
            seed = 1 + fold + TENTHS * training
            about = json.dumps([name, dict(options), charge, fold, seed], sort_keys=True)
            path = kept / f"{name}-{sha256(about.encode()).hexdigest()[:16]}.json"
            if not path.exists():
                declared = {"rows_about": len(inside)} if name == "anonymized_learning" else {}
                given = {**options, **declared, "seed": seed}
                paid = None if charge is None else Fraction(str(charge))
                made = trained(name, given, table.some(inside), epsilon=paid, delta=DELTA, seed=seed)
                score = asdict(scored(made.model, table.some(outside)))
                about_it = {"joint": made.joint, "seconds": made.seconds, "parameters": made.model.parameters}
                path.write_text(json.dumps({**score, **about_it}))
                print(name, charge, fold, training, score, round(made.seconds), flush=True)
            yield json.loads(path.read_text())


def _row(what: str, options: Mapping[str, Any], found: Sequence[Mapping[str, float]], folds: int) -> Row:
    """Return the mean accuracy, with the joint epsilon in its name."""
    accuracies = [each["accuracy"] for each in found]
    settings: dict[str, Setting] = {
        **machine("numpy", "torch", "scikit-learn"),
        "options": dict(options),
        "folds": f"{folds} of {TENTHS}",
        "trainings": len(found),
        "sd": round(stdev(accuracies), 4) if len(found) > 1 else None,
        "trials": [round(each, 4) for each in accuracies],
        "f_measure": round(fmean(each["f_measure"] for each in found), 4),
        "joint_epsilon": float(f"{fmean(each['joint'] for each in found):.5g}"),
        "seconds": round(fmean(each["seconds"] for each in found), 1),
        "parameters": int(found[0]["parameters"]),
    }
    joint = f"joint epsilon {settings['joint_epsilon']:.4g}"
    return Row(f"{what}, {joint}: accuracy", round(fmean(accuracies), 4), "share", settings=settings)


@contextmanager
def _trained_once() -> Iterator[None]:
    """Remember trainings without noise by all that they follow from; the noise is drawn anew each time."""
    module: Any = parameters_module
    real: Callable[..., Floats] = module.train_plainly
    found: dict[str, Floats] = {}

    def remembered(vector: Floats, widths: tuple[int, ...], rows: Floats, targets: Floats, **named: Any) -> Floats:
        mark = sha256(vector.tobytes() + rows.tobytes() + targets.tobytes())
        mark.update(repr((widths, sorted(named.items()))).encode())
        if mark.hexdigest() not in found:
            found[mark.hexdigest()] = real(vector, widths, rows, targets, **named)
        return found[mark.hexdigest()].copy()

    module.train_plainly = remembered
    try:
        yield
    finally:
        module.train_plainly = real


def figure(rows: Sequence[Row]) -> None:
    """Draw figure 5 of the paper, accuracy against epsilon of each parameter, with what is learnt without privacy."""
    drawn: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.measured is not None and "a parameter" in row.what:
            epsilon = float(row.what.split("epsilon ")[1].split(" ")[0])
            drawn.setdefault(row.what.split(",")[0], []).append((log10(epsilon), row.measured))
    for name, what in (("no privacy", "no privacy, 5 layers: accuracy"), ("more frequent label", "label alone")):
        level = next((row.measured for row in rows if what in row.what), None)
        if level is not None and drawn:
            drawn[name] = [(log10(EPSILONS[0]), level), (log10(EPSILONS[-1]), level)]
    if drawn:
        title = "Adult: accuracy against epsilon of each parameter (not joint)"
        across = "log10 of epsilon of each parameter by itself"
        lines(PICTURES / "models.svg", title, across, "accuracy", [Line(name, each) for name, each in drawn.items()])
