"""The plan of a fit: what a generator or trainer will draw, and what that costs. Reads no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from contracts.release.synthetic import SyntheticProduct
from contracts.release.synthetic_modifiers import modifier_parts
from privacy.accounting.amounts import PICO, delta_down, pico_to_text
from privacy.accounting.claim import ClaimedBy, release_claim
from privacy.accounting.events import PrivacyEvent
from privacy.generators.calibration import Calibrated, MultiplierRange, calibrated
from privacy.generators.fit_modifier import modifier_terms, whole_fitter
from privacy.generators.generator import CannotGenerate, Fitter, Generator, GeneratorPlan, SynthesisTask
from privacy.generators.registry import GENERATORS, generator
from privacy.generators.resolved_options import resolved_options
from privacy.learning.layout import row_layout
from privacy.marginals.domain import CellDomain

TaskT = TypeVar("TaskT", bound=SynthesisTask)


@dataclass(frozen=True)
class FittedPlan(Generic[TaskT]):
    """What a release of what is fitted to noisy values will ask its grant for.

    Args:
        generator: name of the generator, or of the trainer.
        options: its options.
        task: what it is asked for.
        plan: its own plan.
        epsilon: ε of all events composed, at `delta` [10⁻¹²], rounded up; of a model that of all parameters jointly.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        claimed_by: how ε follows from the events: pure losses, Rényi losses, or a privacy loss distribution.
        noise_epsilon: ε that the noise was planned for [10⁻¹²], where that is not the charge's (`calibration`).
        resolved_options: the options as JSON values, those that nobody wrote included (`resolved_options`).
    """

    generator: str
    options: BaseModel
    task: TaskT
    plan: GeneratorPlan
    epsilon: int
    delta: int
    claimed_by: ClaimedBy
    noise_epsilon: int | None
    resolved_options: Mapping[str, Any]

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The events that are charged: planned draws, or a budget for those that are chosen on the way."""
        return self.plan.events

    @property
    def public_total(self) -> int | None:
        """The declared public number of rows, where there is one."""
        return self.task.public_total


def plan_fit(
    name: str,
    fitter: Fitter[Any, TaskT, Any],
    task: TaskT,
    options: BaseModel,
    *,
    rooms: Sequence[MultiplierRange] = (),
    noise_epsilon: Fraction | None = None,
) -> FittedPlan[TaskT]:
    """Let a fitter plan under a charge: with the least noise that claim and accounts allow, or as planned before.

    Args:
        name: under which the fitter is registered.
        fitter: the generator or trainer.
        task: what it is asked for; its epsilon and delta are the charge's.
        options: the fitter's options, read by its own model.
        rooms: what the accounts that pay have left, where that is known.
        noise_epsilon: ε that the noise was planned for, of a release that was planned before.
    Returns:
        FittedPlan: data-free; it asks the fitter for the epsilon that the noise is planned for.
    Raises:
        CannotGenerate: it is known already that the fit must fail, or it would cost more than the charge.
    Privacy: reads no data; the composed ε of the events is at most the charge's, whatever the fitter. It is that of
        all that is published, jointly, whatever a trainer says of single parameters.
    """
    delta = delta_down(task.delta)

    whole = whole_fitter(fitter, task)

    def planned(epsilon: Fraction) -> GeneratorPlan:
        return whole.plan(replace(task, epsilon=epsilon), options)

    if noise_epsilon is None:
        # A release that was planned before keeps its noise; a new one is calibrated.
        found = calibrated(planned, epsilon=task.epsilon, delta=delta, rooms=rooms)
    else:
        made = planned(noise_epsilon)
        found = Calibrated(made, noise_epsilon, release_claim(made.events, delta))
    claim = found.claim
    if claim.epsilon > task.epsilon * PICO:
        raise CannotGenerate(
            f"charge.epsilon: {name!r} plans draws of a joint epsilon of {pico_to_text(claim.epsilon)}; allowed: "
            f"at most {float(task.epsilon):g}, the charge; do: raise epsilon, or ask for less"
        )
    noise = None if found.noise_epsilon == task.epsilon else int(found.noise_epsilon * PICO)
    task = replace(task, epsilon=found.noise_epsilon)
    return FittedPlan(
        name, options, task, found.plan, claim.epsilon, delta, claim.by, noise, resolved_options(fitter, options)
    )


def plan_synthetic(
    product: SyntheticProduct,
    contract: Contract,
    options: BaseModel,
    *,
    epsilon: Decimal,
    delta: Decimal,
    **noise: Any,
) -> FittedPlan[SynthesisTask]:
    """Let the generator of a synthetic product plan; `noise` as of `plan_fit`.

    Args:
        product, contract, options: of the release.
        epsilon, delta: the charge.
    Raises:
        CannotGenerate: no such generator, one that cannot make these columns; or as of `plan_fit`.
    """
    made_by: Generator[Any] = generator(product.generator)
    _refuse_pictures(made_by, product, contract)
    asked = task_of(product, contract, epsilon=epsilon, delta=delta)
    return plan_fit(product.generator, made_by, asked, options, **noise)


def _refuse_pictures(made_by: Generator[Any], product: SyntheticProduct, contract: Contract) -> None:
    """Refuse columns of pictures for a generator that measures marginals: a picture has no cells to count."""
    pictures = contract.pictures(product.names(contract))
    if pictures and not getattr(made_by, "takes_pictures", False):
        taking = ", ".join(GENERATORS.names_where(lambda made: bool(getattr(made, "takes_pictures", False))))
        raise CannotGenerate(
            f"product.columns: {pictures[0]!r} holds pictures, which {product.generator!r} cannot make; allowed: "
            f"columns of single values, or a generator that learns from rows ({taking}); do: leave it out of "
            "`columns:`, or choose such a generator"
        )


def task_of(
    product: SyntheticProduct | ClassifierProduct,
    contract: Contract,
    *,
    epsilon: Decimal,
    delta: Decimal,
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
        contract=contract,
        modifiers=tuple(name for name, _ in modifier_parts(product, "fit")),
        **modifier_terms(product, contract),
    )
