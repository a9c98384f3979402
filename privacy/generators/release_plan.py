"""The plan of a release of synthetic rows: what its generator will draw, and what that costs. Reads no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.classifier import ModelProduct
from contracts.release.synthetic import SyntheticProduct
from privacy.accounting.amounts import PICO, delta_down, pico_to_text
from privacy.accounting.claim import ClaimedBy, release_claim
from privacy.accounting.events import PrivacyEvent
from privacy.generators.calibration import Calibrated, MultiplierRange, calibrated
from privacy.generators.generator import CannotGenerate, Generator, GeneratorPlan, SynthesisTask
from privacy.generators.registry import generator, names
from privacy.learning.layout import row_layout
from privacy.marginals.domain import CellDomain

TaskT = TypeVar("TaskT", bound=SynthesisTask)


@dataclass(frozen=True)
class FittedPlan(Generic[TaskT]):
    """What a release of what is fitted to noisy values will ask its grant for.

    Args:
        by: name of the generator, or of the trainer.
        options: its options.
        asked: what it is asked for.
        made: its own plan.
        epsilon: ε of all events composed, at `delta` [10⁻¹²], rounded up; of a model that of all parameters jointly.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        claimed_by: how ε follows from the events: pure losses, Rényi losses, or a privacy loss distribution.
        noise_epsilon: ε that the noise was planned for [10⁻¹²], where that is not the charge's (`calibration`).
    """

    by: str
    options: BaseModel
    asked: TaskT
    made: GeneratorPlan
    epsilon: int
    delta: int
    claimed_by: ClaimedBy
    noise_epsilon: int | None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The events that are charged: planned draws, or a budget for those that are chosen on the way."""
        return self.made.events

    @property
    def public_total(self) -> int | None:
        """The declared public number of rows, where there is one."""
        return self.asked.public_total


class SyntheticPlan(FittedPlan[SynthesisTask]):
    """What a release of synthetic rows will ask its grant for."""


def plan_synthetic(
    product: SyntheticProduct,
    contract: Contract,
    options: BaseModel,
    *,
    epsilon: Decimal,
    delta: Decimal,
    rooms: Sequence[MultiplierRange] = (),
    noise_epsilon: Fraction | None = None,
) -> SyntheticPlan:
    """Let the generator plan a product under a charge.

    Args:
        product: the synthetic product.
        contract: its contract.
        options: the generator's options, read by its own model.
        epsilon, delta: what the release may cost.
        rooms: what the accounts that pay have left, where that is known.
        noise_epsilon: ε that the noise was planned for, of a release that was planned before.
    Returns:
        SyntheticPlan: data-free.
    Raises:
        CannotGenerate: no such generator, it is known already that it must fail, or it plans to spend more than it
            may; nothing is charged.
    Privacy: reads no data; the composed ε of the events is at most the spec's, whatever the generator.
    """
    made_by: Generator[Any] = generator(product.generator)
    _refuse_pictures(made_by, product, contract)
    asked = task_of(product, contract, epsilon=epsilon, delta=delta)
    made, asked = noise_planned(lambda asked: made_by.plan(asked, options), asked, rooms, noise_epsilon)
    cost = made.claim.epsilon
    if cost > Fraction(epsilon) * PICO:
        raise CannotGenerate(
            f"product.generator: {product.generator!r} plans draws of epsilon {pico_to_text(cost)} together; "
            f"allowed: at most {epsilon}, the charge; do: raise epsilon, or mend the generator"
        )
    return SyntheticPlan(product.generator, options, asked, **claim_of(made, epsilon, delta))


def noise_planned(
    plan: Callable[[TaskT], GeneratorPlan],
    asked: TaskT,
    rooms: Sequence[MultiplierRange],
    noise_epsilon: Fraction | None,
) -> tuple[Calibrated, TaskT]:
    """Plan with the least noise that claim and accounts allow, or with the noise that was planned before.

    Returns:
        tuple: the plan, and what its generator or trainer is asked for: with the epsilon that it plans noise for.
    """
    delta = delta_down(asked.delta)

    def planned(epsilon: Fraction) -> GeneratorPlan:
        return plan(replace(asked, epsilon=epsilon))

    if noise_epsilon is not None:
        made = planned(noise_epsilon)
        found = Calibrated(made, noise_epsilon, release_claim(made.events, delta))
    else:
        found = calibrated(planned, epsilon=asked.epsilon, delta=delta, rooms=rooms)
    return found, replace(asked, epsilon=found.noise_epsilon)


def claim_of(found: Calibrated, epsilon: Decimal, delta: Decimal) -> dict[str, Any]:
    """Return the fields of a plan that say what it costs."""
    noise = None if found.noise_epsilon == Fraction(epsilon) else int(found.noise_epsilon * PICO)
    claim, charged = found.claim, delta_down(delta)
    return {
        "made": found.made,
        "epsilon": claim.epsilon,
        "delta": charged,
        "claimed_by": claim.by,
        "noise_epsilon": noise,
    }


def _refuse_pictures(made_by: Generator[Any], product: SyntheticProduct, contract: Contract) -> None:
    """Refuse columns of pictures for a generator that measures marginals: a picture has no cells to count."""
    pictures = contract.pictures(product.names(contract))
    if pictures and not getattr(made_by, "takes_pictures", False):
        taking = ", ".join(name for name in names() if _takes_pictures(name))
        raise CannotGenerate(
            f"product.columns: {pictures[0]!r} holds pictures, which {product.generator!r} cannot make; allowed: "
            f"columns of single values, or a generator that learns from rows ({taking}); do: leave it out of "
            "`columns:`, or choose such a generator"
        )


def _takes_pictures(name: str) -> bool:
    """Whether a generator makes pictures; one that cannot be loaded does not."""
    try:
        return bool(getattr(generator(name), "takes_pictures", False))
    except CannotGenerate:
        return False


def task_of(
    product: SyntheticProduct | ModelProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
) -> SynthesisTask:
    """Return what a generator is asked for, from what is public alone."""
    names = product.names(contract)
    return SynthesisTask(
        domain=CellDomain.of(contract, names),
        impossible={clique: contract.impossible(clique) for clique in contract.zero_cliques(names)},
        adjacency=contract.adjacency,
        rows_per_unit=contract.unit.max_rows_per_unit,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        public_total=None if contract.total is None else contract.total.value,
        layout=row_layout(contract, names),
    )
