"""Parameters that their noise drowns are not published unasked."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from privacy.classifiers.classifier import DROWNED, CardTerms, card_of
from privacy.classifiers.trainer import plan_classifier, trainer
from privacy.generators.calibration import FittedPlan
from privacy.generators.generator import CannotGenerate

ABOUT: dict[str, dict[str, Any]] = {"learning_first": {}, "anonymized_learning": {"rows_about": 45_000}}


def planned(contract: Contract, name: str, epsilon: str, **options: Any) -> FittedPlan[Any]:
    product = ClassifierProduct(kind="classifier", trainer=name, label="income", columns=("age", "sex", "income"))
    read = trainer(name).options.model_validate({"epochs": 3, "hidden": (8,), **ABOUT[name], **options})
    return plan_classifier(product, contract, read, epsilon=Decimal(epsilon), delta=Decimal("1e-9"))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ABOUT))
def test_noise_that_drowns_the_parameters_is_refused_by_the_plan(contract: Contract, name: str) -> None:
    """At epsilon 0.1 it is; asked for, it is planned; with a hundred thousand times the epsilon it is not."""
    with pytest.raises(CannotGenerate, match=rf"{name}: noise that drowns its \d+ parameters.*publish_noise: true"):
        planned(contract, name, "0.1")
    assert planned(contract, name, "0.1", publish_noise=True).events
    assert planned(contract, name, "1000").events


def test_an_epsilon_of_each_parameter_counts_as_it_is_written(contract: Contract) -> None:
    with pytest.raises(CannotGenerate, match="parameter_epsilon of about"):
        planned(contract, "learning_first", "1000", parameter_epsilon=0.5)
    assert planned(contract, "learning_first", "1000", parameter_epsilon=5).events


def test_the_card_says_it_first() -> None:
    terms = CardTerms(
        "r", 1, "t", "learning_first", "says", "y", ("x", "y"), (1, 2), "1", "0", "row", "add_remove", ()
    )
    drowned = CardTerms(**{**vars(terms), "notes": (DROWNED,)})
    files = {"weights": "w", "inputs": "i"}
    assert card_of(drowned, files).decode().splitlines()[0] == f"**{DROWNED}**"
    assert card_of(terms, files).decode().startswith("# r v1")
