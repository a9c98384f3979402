"""The plan of a release of a model: what its trainer will draw, and what that costs. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pydantic import BaseModel

from contracts.contract import Contract
from contracts.model import ModelProduct
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up, pico_to_text
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon
from privacy.accounting.events import Event
from privacy.classifiers.inputs import model_layout
from privacy.classifiers.registry import trainer
from privacy.classifiers.trainer import AskedClassifier
from privacy.generators.generator import CannotGenerate, GeneratorPlan
from privacy.learning.layout import row_layout
from privacy.marginals.domain import Domain


@dataclass(frozen=True)
class ModelPlan:
    """What a release of a model will ask its grant for.

    Args:
        trainer: name of the trainer.
        options: its options.
        asked: what it is asked for.
        made: its own plan.
        epsilon: ε of all events composed, at `delta`: the joint guarantee, of all parameters [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
    """

    trainer: str
    options: BaseModel
    asked: AskedClassifier
    made: GeneratorPlan
    epsilon: int
    delta: int

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that are charged."""
        return self.made.events

    @property
    def public_total(self) -> int | None:
        """The declared public number of rows, where there is one."""
        return self.asked.public_total


def plan_model(
    product: ModelProduct, contract: Contract, options: BaseModel, *, epsilon: Decimal, delta: Decimal
) -> ModelPlan:
    """Let the trainer plan a product under a charge.

    Raises:
        CannotGenerate: no such trainer, it is known already that it must fail, or it would cost more than the charge.
    Privacy: reads no data; what is charged is the joint guarantee, whatever the trainer says of single parameters.
    """
    made_by, asked = trainer(product.trainer), asked_classifier(product, contract, epsilon=epsilon, delta=delta)
    made = made_by.plan(asked, options)
    charged = delta_down(delta) if asked.delta else 0
    cost = (
        loss_up(best_epsilon(made.events, Fraction(charged, ATTO))[0])
        if charged
        else PureCalculus().cost(made.events)
    )
    if cost > asked.epsilon * PICO:
        raise CannotGenerate(
            f"charge.epsilon: {product.trainer!r} would cost a joint epsilon of {pico_to_text(cost)}; allowed: "
            f"at most {epsilon}, the charge; do: raise epsilon, or ask for less"
        )
    return ModelPlan(product.trainer, options, asked, made, cost, charged)


def asked_classifier(
    product: ModelProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
) -> AskedClassifier:
    """Return what a trainer is asked for, from what is public alone."""
    names = product.names(contract)
    return AskedClassifier(
        domain=Domain.of(contract, names),
        impossible={clique: contract.impossible(clique) for clique in contract.zero_cliques(names)},
        adjacency=contract.adjacency,
        rows_per_unit=contract.unit.max_rows_per_unit,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        public_total=None if contract.total is None else contract.total.value,
        layout=row_layout(contract, names),
        label=product.label,
        vectors=model_layout(contract, product),
    )
