"""The calculus of an account: in which loss its events add up, and how that loss reads as (epsilon, delta).

Both are filters for charges chosen adaptively by people who have seen earlier releases: admit while the sum of
the losses stays within `cap`. Why the Rényi filter has one order, fixed when the account is opened, is argued in
docs/derivations.md. All amounts are integers: losses in 10^-12, delta in 10^-18.

A part of delta may be set aside for selections of keys (`selection_delta`), which may fail, with a probability beside
their loss. Losses are then converted at the rest of delta, and a charge is admitted while the failures of all charges
stay within that part as well: the filter has two sums (docs/derivations.md, section 6). An account that sets nothing
aside takes no selection.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from privacy.accounting.amounts import ATTO, LARGEST, PICO, AmountRefused, atto_to_text, pico_to_text
from privacy.accounting.events import PrivacyEvent, UnsupportedEvent, failures
from privacy.accounting.renyi import LARGEST_ORDER, SMALLEST_ORDER, best_order, offset, pure_loss, renyi

__all__ = ["Calculus", "PureCalculus", "RenyiCalculus", "best_order", "calculus_from_json"]

_RATIONAL: Final = re.compile(r"[0-9]{1,15}(/[1-9][0-9]{0,14})?")


@dataclass(frozen=True)
class PureCalculus:
    """Pure epsilons add up; delta is not used, except for what is set aside for selections.

    Args:
        selection_delta: the part of the account's delta that selections of keys may fail with, >= 0 [10^-18].
    Raises:
        AmountRefused: an amount out of range.
    """

    selection_delta: int = 0
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        _check_selection_delta(self.selection_delta)

    def cap(self, epsilon_pico: int, delta_atto: int) -> int:
        """Say how much loss fits under epsilon at delta: epsilon itself.

        Args:
            epsilon_pico: > 0 [10^-12].
            delta_atto: >= 0, not used [10^-18].
        Returns:
            int: the loss [10^-12].
        Raises:
            AmountRefused: an amount out of range, or more is set aside than delta.
        """
        cap = _checked(epsilon_pico, delta_atto)
        _rest(self.selection_delta, delta_atto)
        return cap

    def cost(self, events: Iterable[PrivacyEvent]) -> int:
        """Add up the losses of events, each rounded up, so that parts cost together what the whole does.

        Args:
            events: the events; their order does not matter.
        Returns:
            int: the loss [10^-12]; zero for no events.
        Raises:
            UnsupportedEvent: an event whose pure loss is infinite, or of no known kind, or a selection of keys where
                nothing is set aside for it.
            AmountRefused: the sum is above 10^6.
        """
        return _total((_pure(event), count) for event, count in _counted(events, self.selection_delta).items())

    def claim(self, spent_pico: int, delta_atto: int) -> int:
        """Say which epsilon at delta a spent loss amounts to: the loss itself.

        Args:
            spent_pico: >= 0 [10^-12].
            delta_atto: >= 0, not used [10^-18].
        Returns:
            int: epsilon [10^-12].
        Raises:
            AmountRefused: an amount out of range.
        """
        return _checked(spent_pico, delta_atto, zero=True)

    def to_json(self) -> dict[str, Any]:
        """Write the calculus as JSON values."""
        return {"kind": self.kind, **_aside(self.selection_delta)}


@dataclass(frozen=True)
class RenyiCalculus:
    """Rényi losses of one fixed order add up.

    Args:
        order: 1.001 <= order <= 10^6 [dimensionless]. Curves and conversion both take the double nearest to it
            as the order.
        selection_delta: the part of the account's delta that selections of keys may fail with, >= 0 [10^-18].
    Raises:
        AmountRefused: an order or an amount out of range.
    Source: Feldman, Zrnic 2021; Haney et al. 2023 (filters for Rényi DP of fixed order); failures: Bun, Steinke 2016,
        section 8 (approximate zCDP), and docs/derivations.md, section 6.
    """

    order: Fraction
    selection_delta: int = 0
    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        _check_selection_delta(self.selection_delta)
        allowed = f"a Fraction, >= {float(SMALLEST_ORDER)} and <= {LARGEST_ORDER}, of at most 15 digits a term"
        if not isinstance(self.order, Fraction) or not SMALLEST_ORDER <= self.order <= LARGEST_ORDER:
            raise AmountRefused("order", self.order, allowed)
        if max(self.order.numerator, self.order.denominator) >= 10**15:
            raise AmountRefused("order", self.order, allowed)

    def cap(self, epsilon_pico: int, delta_atto: int) -> int:
        """Say how much loss fits under epsilon at delta, rounded down.

        Args:
            epsilon_pico: > 0 [10^-12].
            delta_atto: > 0, of which the part that is set aside is taken off [10^-18].
        Returns:
            int: the largest loss whose `claim` is at most epsilon [10^-12].
        Raises:
            AmountRefused: an amount out of range, or no loss fits at this order.
        """
        # The offset is rounded up, so that what fits is rounded down.
        room = _checked(epsilon_pico, delta_atto) - self._offset(delta_atto)
        if room < 1:
            allowed = f"an order at which some loss fits under epsilon {pico_to_text(epsilon_pico)}"
            raise AmountRefused("order", self.order, allowed)
        return min(room, LARGEST * PICO)

    def cost(self, events: Iterable[PrivacyEvent]) -> int:
        """Add up the losses of events, each rounded up, so that parts cost together what the whole does.

        Args:
            events: the events; their order does not matter.
        Returns:
            int: the loss [10^-12]; zero for no events.
        Raises:
            UnsupportedEvent: an event of no known kind, or a selection of keys where nothing is set aside for it.
            AmountRefused: the sum is above 10^6.
        """
        order = float(self.order)
        counted = _counted(events, self.selection_delta)
        return _total((Fraction(renyi(event, order)), count) for event, count in counted.items())

    def claim(self, spent_pico: int, delta_atto: int) -> int:
        """Say which epsilon at delta a spent loss amounts to, rounded up.

        Args:
            spent_pico: >= 0 [10^-12].
            delta_atto: > 0 [10^-18].
        Returns:
            int: epsilon, zero if nothing is spent [10^-12].
        Raises:
            AmountRefused: an amount out of range.
        Source: Canonne, Kamath, Steinke 2020, Proposition 12.
        """
        spent = _checked(spent_pico, delta_atto, zero=True)
        # Nothing spent is no loss; and the offset may be below 0, an epsilon may not.
        return max(0, spent + self._offset(delta_atto)) if spent else 0

    def to_json(self) -> dict[str, Any]:
        """Write the calculus as JSON values; the order as text."""
        return {"kind": self.kind, "order": str(self.order), **_aside(self.selection_delta)}

    def _offset(self, delta_atto: int) -> int:
        """Round the conversion's offset up to whole units."""
        rest = _rest(self.selection_delta, delta_atto)
        if rest < 1:
            allowed = "a probability > 0 and < 1 for a Rényi loss, beside what is set aside for selections"
            raise AmountRefused("delta", delta_atto, allowed)
        return math.ceil(Fraction(offset(float(self.order), Fraction(rest, ATTO))) * PICO)


Calculus = PureCalculus | RenyiCalculus


def calculus_from_json(data: Mapping[str, Any]) -> Calculus:
    """Read a calculus back from its JSON values.

    Args:
        data: what `to_json` wrote.
    Returns:
        Calculus: equal to the one that was written.
    Raises:
        UnsupportedEvent: an unknown kind, or fields that are not of its form.
        AmountRefused: an order out of range.
    """
    fields = dict(data) if isinstance(data, Mapping) else {}
    kind, order = fields.pop("kind", None), fields.pop("order", None)
    aside = fields.pop("selection_delta", None)
    # Nothing set aside is written as no field, so that one calculus has one text.
    if aside == 0:
        raise UnsupportedEvent("calculus with selection_delta 0; allowed: no such field where nothing is set aside")
    if kind == PureCalculus.kind and order is None and not fields:
        return PureCalculus(aside or 0)
    if kind == RenyiCalculus.kind and isinstance(order, str) and _RATIONAL.fullmatch(order) and not fields:
        return RenyiCalculus(Fraction(order), aside or 0)
    raise UnsupportedEvent(
        f"calculus {str(data)[:60]!r}; allowed: kind pure, or kind renyi with an order such as '27/2'"
    )


def _counted(events: Iterable[PrivacyEvent], selection_delta: int) -> Counter[PrivacyEvent]:
    """Count equal events; refuse what may fail where no part of delta is set aside for it."""
    counted = Counter(events)
    if not selection_delta and failures(counted):
        raise UnsupportedEvent(
            "a selection of keys fails with a probability; allowed: an account with a part of delta set aside for it"
        )
    return counted


def _check_selection_delta(units: int) -> None:
    """Refuse what is no probability in whole units."""
    if type(units) is not int or not 0 <= units < ATTO:
        raise AmountRefused("selection_delta", units, "an int in 10^-18, >= 0 and < 10^18")


def _rest(selection_delta: int, delta_atto: int) -> int:
    """Take what is set aside off delta."""
    if selection_delta and selection_delta > delta_atto:
        raise AmountRefused("selection_delta", atto_to_text(selection_delta), f"at most {atto_to_text(delta_atto)}")
    return delta_atto - selection_delta


def _aside(selection_delta: int) -> dict[str, int]:
    """Write what is set aside; nothing where nothing is."""
    return {"selection_delta": selection_delta} if selection_delta else {}


def _pure(event: PrivacyEvent) -> Fraction:
    """Give an event's pure loss, or refuse the event by name."""
    loss = pure_loss(event)
    if loss is None:
        raise UnsupportedEvent(
            f"{event.kind} has no finite loss in the pure calculus; allowed: an account with a delta"
        )
    return loss


def _total(losses: Iterable[tuple[Fraction, int]]) -> int:
    """Round each loss up to whole units and add them up, as often as it occurs."""
    # Rounded before it is multiplied: draws cost the same together as one by one.
    total = sum(count * math.ceil(loss * PICO) for loss, count in losses)
    if total > LARGEST * PICO:
        raise AmountRefused("sum of losses", pico_to_text(total), f"<= {LARGEST}")
    return total


def _checked(loss_pico: int, delta_atto: int, *, zero: bool = False) -> int:
    """Refuse amounts that are not integers in range."""
    if isinstance(loss_pico, bool) or not isinstance(loss_pico, int) or not 1 - zero <= loss_pico <= LARGEST * PICO:
        raise AmountRefused("loss", loss_pico, f"an int in 10^-12, {'>=' if zero else '>'} 0 and <= {LARGEST}")
    if isinstance(delta_atto, bool) or not isinstance(delta_atto, int) or not 0 <= delta_atto < ATTO:
        raise AmountRefused("delta", delta_atto, "an int in 10^-18, >= 0 and < 10^18")
    return loss_pico
