"""How the auditor reads a record's numbers: each kind of event with exactly its fields, each field in its form.

A package whose event is registered as `sudare.events` registers an `EventForm` too, as `sudare.event_forms`: code of
its own, which shares nothing with the event's class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from contracts.errors import SudareError
from contracts.plug_ins import find

_RATIONAL: Final = re.compile(r"[0-9]{1,61}(/[1-9][0-9]{0,60})?")
_DELTA: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")


class NotRecomputable(SudareError):
    """The record's events, delta or calculus cannot be read as what they should be."""

    exit_code = 5


@dataclass(frozen=True)
class EventForm:
    """How the event of a package is read from a record, and what it costs.

    Args:
        fields: how each field is read, by name; the function takes the value and what it is called in a message.
        loss: takes the fields in their order; gives the pure loss, None where it is infinite, and the Rényi curve.
    """

    fields: Mapping[str, Callable[[Any, str], Any]]
    loss: Callable[..., tuple[Fraction | None, Callable[[Decimal], Decimal]]]


@lru_cache(maxsize=256)
def registered_form(kind: str) -> EventForm | None:
    """Return the form that a package registers for a kind of event; None where none does."""
    registered = find("sudare.event_forms", {}, kind)
    found: EventForm | None = None if registered is None else registered.load(EventForm)
    return found


def read_event(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Read one event: its kind and its fields, in the order of `_FORMS`."""
    kind = event.get("kind") if isinstance(event, Mapping) else None
    form = _form(kind) if isinstance(kind, str) else None
    if form is None:
        raise NotRecomputable(f"event kind {str(kind)[:60]!r}; allowed: {', '.join(sorted(_FORMS))}")
    if set(event) != {"kind", *form}:
        raise NotRecomputable(f"event {kind}: fields {sorted(map(str, event))}")
    return kind, *(read(event[name], f"event {kind}: {name}") for name, read in form.items())


def _form(kind: str) -> Mapping[str, Callable[[Any, str], Any]] | None:
    if kind in _FORMS:
        return _FORMS[kind]
    registered = registered_form(kind)
    return None if registered is None else registered.fields


def _moves(moves: Any, what: str, largest: int = 10**9) -> tuple[int, ...]:
    """Read the worst neighbour's change."""
    if not isinstance(moves, list | tuple) or not moves or not all(_is_move(move, largest) for move in moves):
        raise NotRecomputable(f"{what} is {str(moves)[:60]}; allowed: non-zero integers, at least one")
    return tuple(moves)


def whole_number(count: Any, what: str) -> int:
    """Read a number of steps, or how far a number moves."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**9:
        raise NotRecomputable(f"{what} is {str(count)[:60]}; allowed: an integer from 1 to 10^9")
    return count


def _times(count: Any, what: str) -> int:
    """Read how many numbers move."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**12:
        raise NotRecomputable(f"{what} is {str(count)[:60]}; allowed: an integer from 1 to 10^12")
    return count


def _failure(text: Any, what: str) -> Fraction:
    """Read the probability that one key's coin tells all."""
    chance = positive(text, what)
    if not chance < 1 or chance.denominator > 10**40:
        raise NotRecomputable(f"{what} is {text[:60]}; allowed: a probability < 1, of at most 40 digits a term")
    return chance


def _groups(count: Any, what: str) -> int:
    """Read how many keys a unit may have."""
    if whole_number(count, what) > 4096:
        raise NotRecomputable(f"{what} is {count}; allowed: an integer from 1 to 4096")
    return int(count)


def _chance(text: Any, what: str) -> Fraction:
    """Read a sampling probability."""
    chance = positive(text, what)
    if not Fraction(1, 10**12) <= chance <= 1:
        raise NotRecomputable(f"{what} is {text}; allowed: a probability >= 10^-12")
    return chance


def _multiplier(text: Any, what: str) -> Fraction:
    """Read a noise multiplier that the integral can be computed for."""
    multiplier = positive(text, what)
    if not Fraction(1, 10) <= multiplier <= 10**9:
        raise NotRecomputable(f"{what} is {text}; allowed: from 1/10 to 10^9")
    return multiplier


def _norms(moves: Any, what: str) -> tuple[int, ...]:
    """Read the worst neighbour's change of Gaussian noise, which may be that of a sum of vectors."""
    return _moves(moves, what, 10**11)


def _is_move(move: Any, largest: int) -> bool:
    """Tell whether a value is a non-zero integer of a size that counts, or sums, have."""
    return isinstance(move, int) and not isinstance(move, bool) and 0 < abs(move) <= largest


def positive(text: Any, what: str) -> Fraction:
    """Read a positive rational from text."""
    if not isinstance(text, str) or not _RATIONAL.fullmatch(text) or Fraction(text) == 0:
        raise NotRecomputable(f"{what} is {str(text)[:60]!r}; allowed: a positive rational such as '1/2'")
    if text != str(Fraction(text)):
        raise NotRecomputable(f"{what} is {text[:60]!r}; allowed: lowest terms, {str(Fraction(text))[:60]!r}")
    return Fraction(text)


# kind -> its fields, and how each is read; the parameter that scales the loss comes first
_FORMS: Final[dict[str, dict[str, Callable[[Any, str], Any]]]] = {
    "discrete_laplace": {"inverse_scale": positive, "moves": _moves},
    "discrete_laplace_vector": {"inverse_scale": positive, "move": whole_number, "times": _times},
    "discrete_gaussian": {"sigma_squared": positive, "moves": _norms},
    "pure": {"epsilon": positive},
    "zero_concentrated": {"rho": positive},
    "gaussian": {"noise_multiplier": positive},
    "exponential_mechanism": {"epsilon": positive},
    "key_selection": {"epsilon": positive, "delta": _failure, "groups": _groups},
    "poisson_sampled_gaussian": {
        "noise_multiplier": _multiplier,
        "sampling_probability": _chance,
        "steps": whole_number,
    },
}


def probability(text: str) -> Decimal:
    """Read delta from text."""
    if not isinstance(text, str) or not _DELTA.fullmatch(text) or not 0 <= Decimal(text) < 1:
        raise NotRecomputable(f"delta is {str(text)[:60]!r}; allowed: a number >= 0 and < 1")
    return Decimal(text)


# --- How much work the numbers of a record may make.


MOST_TERMS: Final = 10**9
"""Of one rule. One event of an honest record takes up to 20 million, most take far less (docs/verify.md)."""
DECIMAL_FUNCTION: Final = 1000
"""Terms of an exponential or a logarithm of 80 digits."""
_BITS: Final = 256

_left: ContextVar[list[int] | None] = ContextVar("terms_left", default=None)


class TooMuchWork(SudareError):
    """The numbers of a record ask for more work than any honest one does; what they claim is not believed."""

    exit_code = 5


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Bound the terms of everything that is computed inside the block.

    Args:
        most: how many.
    Raises:
        TooMuchWork: from the sum that would pass the bound, before it begins.
    """
    token = _left.set([most])
    try:
        yield
    finally:
        _left.reset(token)


def spend(terms: int) -> None:
    """Take so many terms from the bound of the block around; without one nothing is bounded.

    Raises:
        TooMuchWork: so many are not left.
    """
    left = _left.get()
    if left is None:
        return
    left[0] -= terms
    if left[0] < 0:
        raise TooMuchWork("its numbers ask for more terms than a check adds up")


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """Add up rationals; the larger their common denominator has become, the more each addition counts."""
    total = Fraction(0)
    for value in values:
        spend(1 + (total.denominator.bit_length() // _BITS) ** 2)
        total += value
    return total
