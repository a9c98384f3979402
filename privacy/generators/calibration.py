"""The least noise with which a fixed plan keeps its claim and still fits the accounts that pay. Reads no data.

A generator or trainer plans for an epsilon, counting Rényi losses at their best order. That epsilon is turned here,
and nothing else of its plan, until

    CLAIM   what the release claims, which may rest on a loss distribution, is at most the charge's epsilon
    ROOM    what each account is charged, the Rényi (or pure) loss of the same events, is at most what it has left

The first alone allows less noise than Rényi losses would: the epsilon that is planned for is then above the charge's.
The second may ask for more, up to what Rényi losses at the charge's own epsilon need; and beyond only where an
account could hold a release of this (epsilon, delta) by its own rule, such as one whose cap is exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from difflib import get_close_matches
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.plug_ins import core, registered
from contracts.release.classifier import ClassifierProduct
from contracts.release.synthetic import SyntheticProduct, modifier_parts, named_parts
from privacy.accounting.amounts import PICO, AmountRefused, delta_down, pico_to_text
from privacy.accounting.calculus import Calculus
from privacy.accounting.claim import Claim, ClaimedBy, release_claim
from privacy.accounting.events import PrivacyEvent, UnsupportedEvent
from privacy.generators.generator import (
    CannotGenerate,
    Fitter,
    Generator,
    GeneratorPlan,
    SynthesisTask,
    resolved_options,
)
from privacy.learning.layout import row_layout
from privacy.marginals.graph import CellDomain

_FINEST: Final = 10**9
"""Epsilons that are planned for are multiples of 10^-9."""
_DIGITS: Final = Context(prec=7, rounding=ROUND_FLOOR)
"""They have seven digits: losses whose last bits differ between machines lead to the same plan, nearly always."""
_CLOSE: Final = 3e-4
_TURNS: Final = 12


@dataclass(frozen=True)
class MultiplierRange:
    """What an account that pays has left.

    Args:
        calculus: the account's.
        remaining: what it has left [10^-12 of the calculus' loss].
    """

    calculus: Calculus
    remaining: int

    def share(self, events: Sequence[PrivacyEvent]) -> float:
        """Say which share of what it has left events take; 0 of a kind that it cannot hold, refused elsewhere."""
        try:
            cost = self.calculus.cost(events)
        except UnsupportedEvent:
            return 0.0
        except AmountRefused:
            return math.inf
        return 1.0 if cost == self.remaining else cost / self.remaining if self.remaining else math.inf

    def holds(self, events: Sequence[PrivacyEvent]) -> bool:
        """Say whether it holds these events."""
        return self.share(events) <= 1

    def owes(self, epsilon: int, delta: int) -> bool:
        """Say whether by its own rule a release of (epsilon, delta) fits into what it has left."""
        try:
            return self.calculus.cap(epsilon, delta) <= self.remaining
        except AmountRefused:
            return False


@dataclass(frozen=True)
class Calibrated:
    """A plan with its claim.

    Args:
        plan: the plan.
        noise_epsilon: what it was planned for [dimensionless].
        claim: what the release may claim.
    """

    plan: GeneratorPlan
    noise_epsilon: Fraction
    claim: Claim


def calibrated(
    plan: Callable[[Fraction], GeneratorPlan], *, epsilon: Fraction, delta: int, rooms: Sequence[MultiplierRange]
) -> Calibrated:
    """Find the largest epsilon to plan for with which claim and accounts hold; the same every time.

    Args:
        plan: plans for an epsilon; more of it is less noise, or the same.
        epsilon: the charge's [dimensionless].
        delta: the charge's [10^-18].
        rooms: of the accounts that pay; empty where none is known.
    Returns:
        Calibrated: for the charge's own epsilon where nothing better fits; the ledger then says what is missing.
    Raises:
        CannotGenerate: the plan cannot be made for the charge's epsilon.
    Privacy: (epsilon, delta)-DP by `release_claim`. What the accounts have left is public: sums of published events.
    """
    search = _MultiplierSearch(plan, epsilon, delta, tuple(rooms))
    plain = search.plan_at(epsilon)
    # A plan that claims too much at the charge's own epsilon is the caller's to refuse.
    if search.claimed(plain) > 1:
        return search.done(plain)
    # Less noise is possible only where the claim rests on a loss distribution.
    best = search.turned(plain, search.claimed) if release_claim(plain.events, delta).by == "pld" else plain
    if search.taken(best) <= 1:
        return search.done(best)
    # Where the plain plan fits the accounts, one between both just fits.
    if search.taken(plain) <= 1:
        return search.done(search.turned(plain, search.taken, above=best))
    # An account that would not hold such a release by its own rule gets the plan as it is, and refuses it.
    over = [room for room in rooms if not room.holds(plain.events)]
    if not all(room.owes(math.floor(epsilon * PICO), delta) for room in over):
        return search.done(plain)
    # More noise than the charge's epsilon needs, until the accounts hold it; then as little more as they need.
    below = search.below(plain)
    return search.done(plain if below is None else search.turned(below, search.taken, above=plain))


@dataclass(frozen=True)
class _Turned:
    """A plan, and the epsilon that it was made for."""

    plan: GeneratorPlan
    noise_epsilon: Fraction

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """Its events."""
        return self.plan.events


@dataclass(frozen=True)
class _MultiplierSearch:
    plan: Callable[[Fraction], GeneratorPlan]
    epsilon: Fraction
    delta: int
    rooms: tuple[MultiplierRange, ...]

    def plan_at(self, noise_epsilon: Fraction) -> _Turned:
        """Plan for an epsilon."""
        return _Turned(self.plan(noise_epsilon), noise_epsilon)

    def done(self, found: _Turned) -> Calibrated:
        """Return a plan with its claim."""
        return Calibrated(found.plan, found.noise_epsilon, release_claim(found.events, self.delta))

    def claimed(self, found: _Turned) -> float:
        """Say which share of the charge's epsilon is claimed, not below 1 where it is more."""
        claim = release_claim(found.events, self.delta).epsilon
        share = float(Fraction(claim, PICO) / self.epsilon)
        # Above 1 as a float too, where the exact claim is above the charge.
        return share if claim <= self.epsilon * PICO else max(share, math.nextafter(1.0, 2.0))

    def taken(self, found: _Turned) -> float:
        """Say which share an account's room is taken, of the account that has least."""
        return max((room.share(found.events) for room in self.rooms), default=0.0)

    def turned(self, low: _Turned, share: Callable[[_Turned], float], above: _Turned | None = None) -> _Turned:
        """Turn up the epsilon that is planned for until a share is nearly 1 and never more, from where it is less.

        Shares grow as a power of it, nearly: its exponent is taken from the two ends, and 1 before there are two.
        """
        high, share_low, share_high = above, share(low), None if above is None else share(above)
        for turn in range(_TURNS):
            if share_low >= 1 - _CLOSE or (
                high and high.noise_epsilon <= low.noise_epsilon * Fraction(1 + _CLOSE / 2)
            ):
                break
            wanted = _between(low, high, share_low, share_high)
            if high is not None and turn % 2:
                wanted = float(low.noise_epsilon + high.noise_epsilon) / 2  # a share that leaps is closed in on
            try:
                tried = self.plan_at(_rounded_down(wanted))
            except CannotGenerate:
                break
            if tried.events == low.events:
                break  # the noise does not depend on the charge, or not so finely
            found = share(tried)
            if found <= 1:
                low, share_low = tried, found
            else:
                high, share_high = tried, found
        return low

    def below(self, plain: _Turned) -> _Turned | None:
        """Take more noise than the charge's epsilon needs, until the accounts hold it."""
        tried = plain
        for _ in range(_TURNS):
            # Losses grow about as epsilon squared: so much less should fit, and 2 % of it more is taken off.
            lost = max(_CLOSE, 1 - self.taken(tried) ** -0.5) if self.taken(tried) < math.inf else 0.5
            try:
                tried = self.plan_at(_rounded_down(float(tried.noise_epsilon) * (1 - 1.02 * min(lost, 0.9))))
            except CannotGenerate:
                return None
            if self.taken(tried) <= 1:
                return tried
        return None


def _between(low: _Turned, high: _Turned | None, share_low: float, share_high: float | None) -> float:
    """Say where the share should be just below 1, between the two ends where there are two."""
    start, aim = float(low.noise_epsilon), 1 - _CLOSE / 3
    if high is None or share_high is None:
        return start * aim / share_low
    end = float(high.noise_epsilon)
    if share_high == math.inf:
        return (start + end) / 2
    exponent = math.log(share_high / share_low) / math.log(end / start)
    # A power law through both ends.
    wanted = start * (aim / share_low) ** (1 / exponent)
    return wanted if start < wanted < end else (start + end) / 2


def _rounded_down(epsilon: float) -> Fraction:
    """Round down to a multiple of 10^-9 with seven digits."""
    return Fraction(int(_DIGITS.create_decimal(math.floor(epsilon * _FINEST))), _FINEST)


# --- Fitters by name.


@dataclass(frozen=True)
class FitterRegistry:
    """All fitters of one kind of model: those of the core, and those that installed packages add.

    Args:
        noun: what they are called, and the key of a product that names one.
        places: `module:class` by name, instead of those of the core.
    """

    noun: str
    places: Mapping[str, str] | None = None

    @property
    def built_in(self) -> Mapping[str, str]:
        """Module and class of each fitter of the core, by name."""
        return core(self.group) if self.places is None else self.places

    @property
    def group(self) -> str:
        """The entry point group in which packages register theirs."""
        return f"sudare.{self.noun}s"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all, sorted."""
        return tuple(sorted(self._points()))

    def load(self, name: str) -> Any:
        """Return the fitter of that name; only its own module is loaded.

        Raises:
            CannotGenerate: there is none, with the nearest name, or a package that registers it cannot be loaded.
        """
        points = self._points()
        if name not in points:
            near = get_close_matches(name, points, n=1, cutoff=0.5)
            meant = f"; do you mean {near[0]!r}?" if near else "; do: take one of these, or install its package"
            allowed = ", ".join(sorted(points))
            raise CannotGenerate(f"product.{self.noun}: no {self.noun} {name!r}; allowed: {allowed}{meant}")
        point = points[name]
        try:
            return point.load()()
        except (ImportError, AttributeError) as error:
            raise CannotGenerate(
                f"product.{self.noun}: {name!r} is registered as {point.value!r}, which cannot be loaded "
                f"({type(error).__name__}); do: mend or remove the package that registers it"
            ) from error

    def names_where(self, holds: Callable[[Any], bool]) -> tuple[str, ...]:
        """Return the names of those of which something holds, sorted; of one that cannot be loaded it does not."""

        def fits(name: str) -> bool:
            try:
                return holds(self.load(name))
            except CannotGenerate:
                return False

        return tuple(name for name in self.names if fits(name))

    def _points(self) -> dict[str, EntryPoint]:
        """Return the entry point of each name; a built-in name cannot be taken by a package."""
        found = {point.name: point for point in registered(self.group)}
        return {**found, **{name: EntryPoint(name, place, self.group) for name, place in self.built_in.items()}}


GENERATORS: Final = FitterRegistry("generator")
TRAINERS: Final = FitterRegistry("trainer")


def names() -> tuple[str, ...]:
    """Return the names of all generators, sorted."""
    return GENERATORS.names


def generator(name: str) -> Generator[Any]:
    """Return the generator of that name; as `FitterRegistry.load`."""
    made: Generator[Any] = GENERATORS.load(name)
    return made


# --- What modifiers of synthetic rows ask of a fit; the table is in `contracts.release.synthetic`.


class FitModifier:
    """What a modifier asks of a fit: a change of the task, a stage around the generator, or both.

    `product` is a `SyntheticProduct` that asks for the modifier.
    """

    draws: ClassVar[bool] = True
    """Whether its stage changes what is drawn; post-processing does not."""

    def terms(self, product: Any, contract: Contract) -> dict[str, Any]:
        """Return the fields of the task that it sets, for a release's product and contract."""
        return {}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return the generator with what is drawn before it, or made after it."""
        return generator


def modifier_terms(product: Any, contract: Contract) -> dict[str, Any]:
    """Return the fields of the task that the modifiers of a release's product set."""
    terms: dict[str, Any] = {}
    for _, modifier in modifier_parts(product, "fit"):
        terms |= modifier.terms(product, contract)
    return terms


def whole_fitter(
    generator: Fitter[Any, Any, Any], task: SynthesisTask, *, draws_only: bool = False
) -> Fitter[Any, Any, Any]:
    """Return the generator with the stages of all modifiers that the task has, the first of the table next to it.

    Args:
        generator: fits the model.
        task: what it is asked for.
        draws_only: whether stages of post-processing alone are left out.
    """
    for _, modifier in named_parts(task.modifiers, "fit"):
        generator = modifier.stage(generator, task) if modifier.draws or not draws_only else generator
    return generator


# --- The plan of a fit.


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
    product: SyntheticProduct | ClassifierProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
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
