"""One round: what the coordinator sends, what a site answers, what comes of the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from contracts.errors import SudareError
from privacy.arrays import Singles
from privacy.federation.plan import MODULUS_BITS
from privacy.learning.network import CannotTrain

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


class AttemptLost(SudareError):
    """An attempt came to nothing before there were values: it is paid, and may be made again out of its reserve."""


class AttemptBroken(SudareError):
    """What an attempt waited for broke down: it is paid like a lost one, and made again when the run is resumed."""


@dataclass(frozen=True, repr=False, eq=False)
class SiteAnswers:
    """What the sites send in one attempt of a round, not yet asked for; a grant alone asks.

    Args:
        attempt: its name; never used before.
    """

    attempt: str
    _collect: Callable[[str], Collected]

    def __repr__(self) -> str:
        """Show the attempt."""
        return f"SiteAnswers({self.attempt})"

    def _read(self) -> Collected:
        """Make the attempt; what breaks on the way leaves it begun, so that a resumed run pays for it and goes on.

        Raises:
            AttemptBroken: the way to the sites broke down; nothing was summed.
        """
        try:
            return self._collect(self.attempt)
        except Exception as error:
            told = f"the way to the sites broke down ({type(error).__name__}: {error}); nothing was summed"
            raise AttemptBroken(f"{told}. Running the same command goes on, out of the reserve") from error


class HasRelation(Protocol):
    """A plan, as far as neighbours go."""

    @property
    def adjacency(self) -> str:
        """The neighbour relation."""
        ...

    @property
    def rows_per_unit(self) -> int:
        """Bound on the rows of one unit at one site."""
        ...


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


def check_round(number: int, rounds: int) -> None:
    """Refuse a round that there is not.

    Raises:
        CannotTrain: with the rounds that there are.
    """
    if not 0 <= number < rounds:
        raise CannotTrain("round", number, f"0 to {rounds - 1}")


def check_call(call: Call, parameters: int) -> None:
    """Refuse an attempt, or parameters, that are none.

    Raises:
        CannotTrain: with what is allowed.
    """
    if not _ATTEMPT.fullmatch(call.attempt):
        raise CannotTrain("attempt", call.attempt, "16 hexadecimal digits")
    if call.parameters.shape != (parameters,) or not np.isfinite(call.parameters).all():
        raise CannotTrain("parameters", "other numbers", f"float32 of shape ({parameters},), all finite")


def check_relation_of(plan: HasRelation, adjacency: str, rows_per_unit: int) -> None:
    """Refuse a plan for another relation than the charge's.

    Raises:
        CannotTrain: with the charge's.
    """
    if (plan.adjacency, plan.rows_per_unit) != (adjacency, rows_per_unit):
        raise CannotTrain("plan", f"for {plan.adjacency}", f"the charge's relation, {adjacency}")


def check_collected(collected: object, plan: HasSites, parameters: int) -> Collected:
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


# --- Sites in this process.


SiteAnswer = Callable[[Call], Contribution | None]
"""A site's answer to a call; None is a dropped connection."""


class InProcessSites:
    """Asks the sites one after another.

    Args:
        plan: names the sites.
        answers: what answers for each.
    """

    def __init__(self, plan: HasSites, answers: Mapping[str, SiteAnswer]) -> None:
        self._plan, self._answers = plan, dict(answers)

    def collect(self, call: Call) -> Collected:
        """Ask every site and add up; a site that refuses or is silent is left out."""
        sent: dict[str, Residues] = {}
        absent: dict[str, str] = {}
        for name in self._plan.sites:
            try:
                answer = self._answers[name](call)
            except SudareError as error:
                absent[name] = reason(error)
                continue
            if answer is None:
                absent[name] = NO_ANSWER
            else:
                sent[name] = answer.residues
        return summed(sent, self._plan, absent)


NO_ANSWER = "no answer"
LEDGER = "its ledger refuses"
FAILED = "it failed"


def reason(error: SudareError) -> str:
    """Return the public reason for which a site is left out."""
    return LEDGER if getattr(error, "exit_code", 1) == 4 else FAILED
