"""A game with its negative control: the shipped mechanism must stay below its claim, its broken twin must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from benchmarks.games.distinguishing import LossBound, distinguish
from benchmarks.games.lower_bound import BoundMethod
from privacy.arrays import Floats

Play = Callable[[bool, int], Floats]
"""Called with whether the canary is there and how many outputs; the attacker's numbers, one (row) an output."""


@dataclass(frozen=True)
class Game:
    """One mechanism, its claim, an attack, and a twin that breaks the claim.

    Args:
        name: the mechanism, in words.
        threat: the two tables, and what the attacker sees and does.
        epsilon: what is claimed.
        delta: at which delta.
        trials: outputs of each table.
        shipped: plays with the mechanism as it is shipped.
        twin: plays with the broken one.
        broken: what is broken in it.
        method: how the bound is found; "gaussian" only where the mechanism is one.
        way: how the mechanism was called: through a ledger, or the grant's drawing alone.
        twin_method: how the twin's bound is found.
        shift: mu that is claimed, where that is audited: of a charge of rho it is sqrt(2 rho), as of Gaussian noise.
    """

    name: str
    threat: str
    epsilon: float
    delta: float
    trials: int
    shipped: Play
    twin: Play
    broken: str
    method: BoundMethod = "clopper_pearson"
    way: str = "the grant's own drawing"
    twin_method: BoundMethod = "clopper_pearson"
    shift: float | None = None

    def quick(self, share: float, least: int = 200) -> Game:
        """Return the game with a share of the trials, but not fewer than `least` or than there are."""
        return replace(self, trials=min(self.trials, max(least, round(self.trials * share))))


@dataclass(frozen=True)
class Played:
    """What came of a game.

    Args:
        game: what was played.
        bound: of the shipped mechanism.
        control: of the broken twin.
        seconds: wall time of both.
    """

    game: Game
    bound: LossBound
    control: LossBound
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the shipped mechanism stays below its claim; no proof that it keeps it."""
        return self.bound.epsilon <= self.game.epsilon

    @property
    def caught(self) -> bool:
        """Whether the broken twin was found out: its bound is above the claim."""
        return self.control.epsilon > self.game.epsilon

    def to_json(self) -> dict[str, Any]:
        """Write it as a record quotes it."""
        game, bound = self.game, self.bound
        return {
            "mechanism": game.name,
            "threat": game.threat,
            "way": game.way,
            "method": game.method,
            "trials": bound.trials,
            "seconds": round(self.seconds, 2),
            "claimed_epsilon": _rounded(game.epsilon),
            "delta": game.delta,
            "lower_bound": _rounded(bound.epsilon),
            **self._shifts(),
            "confidence": bound.confidence,
            "largest_certifiable": _rounded(bound.largest_certifiable),
            "true_rate": _rounded(bound.true_rate),
            "false_rate": _rounded(bound.false_rate),
            "holds": self.holds,
            "negative_control": {
                "what": game.broken,
                "method": game.twin_method,
                "lower_bound": _rounded(self.control.epsilon),
                "caught": self.caught,
            },
        }

    def _shifts(self) -> dict[str, float]:
        """Write the claimed shift and the one that is proven, where these are audited."""
        if self.game.shift is None or self.bound.shift is None:
            return {}
        told = {"shift": self.game.shift, "proven_shift": self.bound.shift}
        if self.bound.usual is not None:
            told["lower_bound_at_95"] = self.bound.usual
        return {name: _rounded(value) for name, value in told.items()}


def play(game: Game, *, confidence: float, control_confidence: float | None = None) -> Played:
    """Play a game and its negative control.

    Args:
        game: the game.
        confidence: of each bound: a mechanism that just keeps its claim fails with at most one less that.
        control_confidence: of the twin's bound, where it may be another one.
    """
    began = perf_counter()
    bounds = [
        distinguish(
            each(True, game.trials), each(False, game.trials), delta=game.delta, confidence=sure, method=method
        )
        for each, method, sure in (
            (game.shipped, game.method, confidence),
            (game.twin, game.twin_method, control_confidence or confidence),
        )
    ]
    return Played(game, bounds[0], bounds[1], perf_counter() - began)


def summary_line(played: Played) -> str:
    """Say in one line what came of a game."""
    game, verdict = played.game, "below the claim" if played.holds else "ABOVE THE CLAIM"
    caught = "caught" if played.caught else "NOT CAUGHT"
    shift = "" if game.shift is None else f"mu >= {played.bound.shift:.3f} of {game.shift:.3f} claimed, "
    return (
        f"{game.name}: {shift}epsilon >= {played.bound.epsilon:.3f} of {game.epsilon:.3f} claimed at delta "
        f"{game.delta:g}, {verdict}; twin ({game.broken}) >= {played.control.epsilon:.3f}, {caught}; "
        f"{played.bound.trials} trials, {played.seconds:.1f} s"
    )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
