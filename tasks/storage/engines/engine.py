"""An engine that counts: sent SQL, it answers whole numbers; what it says of an error goes no further."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.errors import Finding
from contracts.sql.portable.compiler import Dialect
from privacy.counting_engine import CountsUnavailable

UNCHARGED: Final = "no noise was drawn for this, and a charge that was reserved is kept"
NOTHING_SENT: Final = "No key and no row was sent, and nothing was charged or drawn for it."


class EngineFailed(CountsUnavailable):
    """An engine did not do what it was asked for; its own words may quote rows, kept in a private file at most."""


class EngineNotTrusted(CountsUnavailable):
    """An engine on another machine is not authenticated and encrypted; no key and no row went there."""

    exit_code = 2

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings) + f"\n{NOTHING_SENT}")


class Engine(ABC):
    """One session of an engine, for as long as a run lasts."""

    name: ClassVar[str]
    dialect: ClassVar[Dialect]
    remedy: ClassVar[str]
    """What to look at where it answers what is no count."""

    @staticmethod
    @abstractmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of the engine's types, or None."""

    @staticmethod
    def refusals(contract: Contract, kinds: Mapping[str, ValueKind], *, where: str) -> list[Finding]:
        """List what of a contract this engine reads differently, though others do not.

        Args:
            contract: the contract.
            kinds: kind of each column of the source.
            where: the source, for messages.
        """
        return []

    @staticmethod
    @abstractmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the SELECT of the number of rows and of 8 keyed sums over all rows of the stage.

        Args:
            columns: the stage's columns.
            relation: the stage, joined with the row of keys.
        """

    @abstractmethod
    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a SELECT, which are counts.

        Raises:
            EngineFailed: it did not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session and whatever it started; twice is as good as once."""
