"""Attribute inference on Adult: a model of 1,000 people, the same people and 1,000 others, and all that others tell.

population   20,000 people, none of them below: what anybody could guess, with the true label in hand
references   8 models of 1,000 other people each: what every such model says
shadow       one more, on whose own rows the attacker chooses how much weight a model deserves
targets      5 models of 1,000 people each, attacked on them and on 1,000 others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._model_runs import DELTA, scored, trained, trained_plainly
from benchmarks._neural_data import adult
from benchmarks._neural_tables import Category, Table
from benchmarks.models import OVERFITTED
from benchmarks.results import Row, machine
from privacy.arrays import Floats
from privacy.classifiers.classifier import ClassifierModel
from privacy.evaluation.membership import Inferred, beyond, chosen_weight, evidence, guessed, inferred

SECRETS: Final = ("sex", "marital-status", "occupation")
POPULATION: Final = 20_000
MEMBERS: Final = 1000
REFERENCES: Final = 8
TARGETS: Final = 5
GUESSING: Final[Mapping[str, Any]] = {"hidden": [16], "epochs": 10, "batch": 50, "learning_rate": 0.05}
MODELS: Final[Mapping[str, Callable[[Table, int], ClassifierModel]]] = {
    "overfitted, without privacy": lambda rows, seed: trained_plainly(rows, OVERFITTED, seed=seed),
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
_LEAKY: Final = "occupation"
"""What an overfitted model must be seen to leak, so that the check can fail."""
_DEVIATIONS: Final = 3.0


@dataclass(frozen=True, eq=False)
class Attacked:
    """The models of one kind, and whom they are attacked on.

    Args:
        shadow: the attacker's own model, and its rows.
        references: models of other people.
        targets: each with its members, and then as many others, in one table.
    """

    shadow: tuple[ClassifierModel, Table]
    references: tuple[ClassifierModel, ...]
    targets: tuple[tuple[ClassifierModel, Table], ...]


def attribute(data: Path) -> Iterator[Row]:
    """Guess three columns, from the population alone and with a model of either kind."""
    table = adult(data)
    order = np.random.default_rng(0).permutation(len(table))
    population, rest = table.some(order[:POPULATION]), order[POPULATION:]
    priors = {
        secret: trained_plainly(replace(population, label=secret), GUESSING, seed=1).probabilities
        for secret in SECRETS
    }
    for kind, make in MODELS.items():
        attacked = _attacked(table, rest, make)
        accuracies = [_accuracies(*target) for target in attacked.targets]
        fits = {"accuracy_members": _mean(accuracies, 0), "accuracy_others": _mean(accuracies, 1)}
        print(kind, fits, flush=True)
        for secret in SECRETS:
            yield from _rows(kind, secret, attacked, priors[secret], fits)


def _attacked(table: Table, rest: NDArray[np.int64], make: Callable[[Table, int], ClassifierModel]) -> Attacked:
    """Train all models of a kind, each on rows that no other has."""
    parts = [rest[start : start + MEMBERS] for start in range(0, len(rest), MEMBERS)]
    own = [table.some(part) for part in parts[: REFERENCES + 1]]
    models = [make(rows, seed) for seed, rows in enumerate(own)]
    targets = []
    for number in range(TARGETS):
        inside, outside = parts[REFERENCES + 1 + 2 * number : REFERENCES + 3 + 2 * number]
        model = make(table.some(inside), 100 + number)
        targets.append((model, table.some(np.concatenate([inside, outside]))))
    return Attacked((models[0], own[0]), tuple(models[1:]), tuple(targets))


def _rows(
    kind: str, secret: str, attacked: Attacked, prior: Callable[[Any], Floats], fits: Mapping[str, float]
) -> Iterator[Row]:
    """Attack one column: how often it is guessed right, of members and of others, and what the model leaked."""
    model, rows = attacked.shadow
    found = _evidence(attacked, model, rows, secret)
    weight = chosen_weight(prior(rows.codes()), found, _truth(rows, secret))
    results: dict[str, list[Inferred]] = {"population alone": [], "with the model": []}
    for target, people in attacked.targets:
        members = np.arange(len(people)) < MEMBERS
        known, told = prior(people.codes()), _evidence(attacked, target, people, secret)
        for name, used in (("population alone", 0.0), ("with the model", weight)):
            guesses = guessed(known, told, weight=used)
            results[name].append(inferred(guesses, _truth(people, secret), members))
    column = rows.columns[secret]
    assert isinstance(column, Category)
    about = {**machine("numpy", "torch"), **fits, "weight": weight, "values": column.size, "targets": TARGETS}
    for name, each in results.items():
        whole = _together(each)
        settings = {**about, "members": whole.members, "others": whole.others, "deviation": whole.deviation}
        what = f"attribute, {secret}, {kind}, {name}: right of members less right of others"
        most = _DEVIATIONS * whole.deviation
        target, holds = None, None
        if name == "with the model" and kind == "at epsilon 1":
            target, holds = f"<= {most:.3f}", whole.leaked <= most
        elif name == "with the model" and secret == _LEAKY:
            target, holds = f"> {most:.3f}", whole.leaked > most
        yield Row(what, whole.leaked, "share", target, holds, settings=settings)
        print(what, f"{whole.members:.4f} {whole.others:.4f}", "weight", weight, flush=True)


def _evidence(attacked: Attacked, model: ClassifierModel, rows: Table, secret: str) -> Floats:
    column = rows.columns[secret]
    codes, labels, place = rows.codes(), rows.labels(), rows.layout.code_place(secret)
    each = [
        evidence(one.probabilities, codes, labels, place=place, values=column.size)
        for one in (model, *attacked.references)
    ]
    return beyond(each[0], each[1:])


def _truth(rows: Table, secret: str) -> NDArray[np.int64]:
    return np.asarray(rows.values[secret], dtype=np.int64)


def _together(each: list[Inferred]) -> Inferred:
    """Add up attacks on as many people each."""
    inside, outside = (sum(one.people[side] for one in each) for side in (0, 1))
    members, others = (float(np.mean([getattr(one, name) for one in each])) for name in ("members", "others"))
    return Inferred(members, others, (inside, outside))


def _accuracies(model: ClassifierModel, people: Table) -> tuple[float, float]:
    """Return how well a model tells the label of its members, and of others."""
    places = np.arange(len(people))
    inside, outside = (scored(model, people.some(part)).accuracy for part in (places[:MEMBERS], places[MEMBERS:]))
    return inside, outside


def _mean(pairs: list[tuple[float, float]], place: int) -> float:
    return float(np.mean([pair[place] for pair in pairs]))
