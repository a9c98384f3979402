"""The one root of our errors, split by who must act, and the finding that every refusal is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in the five parts a person needs to mend it.

    Args:
        where: the file, with the line when there is one ("adult.odcs.yaml:31").
        field: the field or rule ("schema[0].properties[2].domain.bounds").
        found: what stands there. Never a value out of a private row.
        allowed: what may stand there.
        remedy: what to do.
    """

    where: str
    field: str
    found: str
    allowed: str
    remedy: str = ""

    def __str__(self) -> str:
        """Render the finding as a person reads it, on two or three lines."""
        remedy = f"\n    do: {self.remedy}" if self.remedy else ""
        return f"{self.where}: {self.field}\n    found: {self.found}\n    allowed: {self.allowed}{remedy}"


def _rebuilt(kind: type[SudareError], args: tuple[Any, ...]) -> SudareError:
    return kind.__new__(kind, *args)


class SudareError(Exception):
    """Root of every error that Sudare raises on purpose; `exit_code` is what the console returns."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep words and findings when an error comes back from another process: no constructor takes its words."""
        return _rebuilt, (type(self), self.args), self.__dict__


class Refused(SudareError):
    """Something a person wrote is refused; carries every finding at once."""

    exit_code = 2

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class SpecRefused(Refused):
    """A release spec cannot be followed as it is written."""


class ContractRefused(Refused):
    """A contract is incomplete, contradicts itself, or is not the one that is meant."""


class SourceUnreadable(Refused):
    """A source is missing or cannot be opened as what the spec says it is."""


class GateBroken(Refused):
    """The data breaks a gate that the contract declares, or one that is always on; the outcome is unprotected."""

    exit_code = 3


class StoreRefuses(Refused):
    """A store says no, in a way that asking again does not change: credentials, bucket, or a name that is taken."""


class StoreAway(SudareError):
    """A store cannot be reached, or answers with errors of its own, again and again."""


class StoreUnwritable(SudareError):
    """The release store cannot be written: nothing half-written is left, and running again completes the run."""

    @classmethod
    def before_charge(cls, error: OSError, folder: Path) -> StoreUnwritable:
        """Return the error for a folder in which no version could become visible, found by a probe."""
        why = error.strerror or type(error).__name__
        return cls(
            f"{folder}, where versions would become visible, cannot be written ({why}). Correct publish.to, or make "
            "room or give write access, then run again: the place is no part of what names the run."
        )

    @classmethod
    def because(cls, error: OSError, folder: Path) -> StoreUnwritable:
        """Return the error for what the operating system said about a folder of the store."""
        return cls(
            f"the release store {folder} cannot be written ({error.strerror or type(error).__name__}); no version is "
            "visible. The charge stays with this run: make room or give write access, then run again."
        )
