"""What training refuses before any data is read."""

from __future__ import annotations

from contracts.errors import SudareError


class CannotTrain(SudareError, ValueError):
    """A training that cannot be done, or would be useless, as it is asked for; nothing was charged or drawn."""

    exit_code = 2

    def __init__(self, what: str, found: object, allowed: str, remedy: str = "") -> None:
        self.what, self.found, self.allowed = what, found, allowed
        super().__init__(f"{what} is {found}; allowed: {allowed}" + (f"; do: {remedy}" if remedy else ""))


class TrainingDiverged(SudareError):
    """The released parameters are of no use; what was drawn stays charged."""
