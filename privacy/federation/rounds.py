"""One round: what the coordinator sends, what a site answers, what comes of the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Singles
from privacy.federation.plan import MODULUS_BITS
from privacy.learning.errors import CannotTrain

Residues = NDArray[np.uint32]
"""Whole numbers modulo 2^32."""
_ATTEMPT: Final = re.compile(r"[0-9a-f]{16}")
_HALF: Final = 1 << (MODULUS_BITS - 1)


@dataclass(frozen=True, eq=False)
class Call:
    """What the coordinator asks every site in one attempt of a round; public.

    Args:
        number: the round, from 0.
        attempt: names the attempt; a site answers each attempt once.
        parameters: of the model so far, float32; released.
    """

    number: int
    attempt: str
    parameters: Singles


@dataclass(frozen=True, eq=False, repr=False)
class Contribution:
    """What one site sends in one attempt: its clipped sum, with its share of the noise where sites add it.

    Not released: only the sum over sites is.

    Args:
        key: name of the site's draw.
        residues: whole numbers modulo 2^32, one a parameter.
    """

    key: str
    residues: Residues

    def __repr__(self) -> str:
        """Show what it is of."""
        return f"Contribution({self.key})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: it leaves by the way of its round, and by no other."""
        raise TypeError("a Contribution cannot be pickled: only the sum over sites is released")


@dataclass(frozen=True, eq=False, repr=False)
class Collected:
    """What came back in one attempt.

    Args:
        present: for each site of the plan whether its contribution is in the sum.
        residues: the sum of the contributions modulo 2^32.
        absent: why the others are not, by site; from a closed set of public reasons.
    """

    present: tuple[bool, ...]
    residues: Residues
    absent: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show how many sites are in it."""
        return f"Collected({sum(self.present)} of {len(self.present)} sites)"


@dataclass(frozen=True, eq=False)
class RoundSum:
    """The noisy sum of one round; released.

    Args:
        number: the round.
        present: which sites are in the sum.
        steps: the sum, int64, one a parameter [lattice steps].
        sha256: digest of the coordinator's draw.
    """

    number: int
    present: tuple[bool, ...]
    steps: NDArray[np.int64]
    sha256: str


Collect = Callable[[str], Collected]
"""Makes one attempt, which it is given the name of."""


class HasSites(Protocol):
    """A plan, as far as the sites go."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names, in order."""
        ...


class Sites(Protocol):
    """The way to the sites, whatever carries it."""

    def collect(self, call: Call) -> Collected:
        """Ask every site that can be reached, and add up what they send; nobody keeps a single contribution."""
        ...


def checked_call(call: object, rounds: int, parameters: int) -> Call:
    """Refuse a call of another making; return a copy that nobody else holds.

    Raises:
        CannotTrain: a round, an attempt or parameters that are none.
    """
    if type(call) is not Call:
        raise CannotTrain("call", type(call).__name__, "Call itself")
    if type(call.number) is not int or not 0 <= call.number < rounds:
        raise CannotTrain("round", call.number, f"0 to {rounds - 1}")
    if type(call.attempt) is not str or not _ATTEMPT.fullmatch(call.attempt):
        raise CannotTrain("attempt", call.attempt, "16 hexadecimal digits")
    given = call.parameters
    right = type(given) is np.ndarray and given.dtype == np.float32 and given.shape == (parameters,)
    if not right or not np.isfinite(given).all():
        raise CannotTrain("parameters", "other numbers", f"float32 of shape ({parameters},), all finite")
    return Call(call.number, call.attempt, np.array(given))


def checked_collected(collected: object, plan: HasSites, parameters: int) -> Collected:
    """Refuse what no attempt can have brought.

    Raises:
        CannotTrain: other sites, or other numbers.
    """
    if type(collected) is not Collected:
        raise CannotTrain("collected", type(collected).__name__, "Collected itself")
    present, residues = collected.present, collected.residues
    if type(present) is not tuple or [type(each) for each in present] != [bool] * len(plan.sites):
        raise CannotTrain("collected", "other sites", f"whether each of {len(plan.sites)} sites is in it")
    if type(residues) is not np.ndarray or residues.dtype != np.uint32 or residues.shape != (parameters,):
        raise CannotTrain("collected", "other numbers", f"uint32 of shape ({parameters},)")
    return collected


def residues_of(steps: NDArray[np.int64]) -> Residues:
    """Take whole numbers modulo 2^32."""
    return (steps & ((1 << MODULUS_BITS) - 1)).astype(np.uint32)


def lifted(residues: Residues) -> NDArray[np.int64]:
    """Return the representatives in [-2^31, 2^31)."""
    return ((residues.astype(np.int64) + _HALF) & ((1 << MODULUS_BITS) - 1)) - _HALF


def summed(contributions: Mapping[str, Residues], plan: HasSites, absent: Mapping[str, str]) -> Collected:
    """Add up the contributions of some sites; for the transports that see them one by one."""
    parameters = next((each.size for each in contributions.values()), 0)
    total = np.zeros(parameters, np.uint32)
    for residues in contributions.values():
        total += residues  # wraps modulo 2^32
    return Collected(tuple(name in contributions for name in plan.sites), total, dict(absent))
