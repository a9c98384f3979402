"""What an engine of the group `sudare.engines` does for a run: say what it lacks, and take the rows in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.errors import Finding
from contracts.reading.scalars import Problem
from contracts.release.engine_kinds import EngineKind
from contracts.release.source import Source
from privacy.counting_engine import CountsUnavailable
from privacy.private_table import PrivateTable

if TYPE_CHECKING:
    from tasks.storage.workspace.settings import Workspace

MARKER: Final = "snapshot.engine.json"
"""In the run's folder, written last: which stage is whole, and what it was made from."""
_NOTHING_SENT: Final = "No key and no row was sent, and nothing was charged or drawn for it."


class EngineFailed(CountsUnavailable):
    """An engine did not do what it was asked for; its own words may quote rows, kept in a private file at most."""


class EngineNotTrusted(CountsUnavailable):
    """An engine on another machine is not authenticated and encrypted; no key and no row went there."""

    exit_code = 2

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings) + f"\n{_NOTHING_SENT}")


class SourceEngine(EngineKind, ABC):
    """An engine that stages the rows of a run where they are, and counts them there."""

    @abstractmethod
    def missing(self, workspace: Workspace | None) -> Problem | None:
        """Say what this machine or workspace lacks to start it; None where nothing is known to lack."""

    @abstractmethod
    def ingest(
        self,
        source: Source,
        contract: Contract,
        *,
        folder: Path,
        workspace: Workspace,
        beside: Sequence[ValueLattice | KeyColumn] = (),
        lock: int | None = None,
        goes_on: Callable[[PrivateTable], bool] = lambda table: False,
    ) -> PrivateTable:
        """Make the stage of a run, or take up the one of an earlier attempt.

        Args:
            source: with this engine.
            contract: columns, domains and the privacy unit.
            folder: the run's private folder; made 0700.
            workspace: gives the snapshot key and the engine's settings.
            beside: what is encoded beside the codes.
            lock: descriptor of the lock on the folder, which the engine keeps while it lives.
            goes_on: says whether a stage is that of a run which is charged and not finished. It is taken up even if
                its source has changed since.
        Returns:
            The snapshot, whose engine counts it; whoever has it closes the engine.
        Raises:
            SudareError: nothing was charged or drawn for it.
        Privacy: nothing leaves but the error, if there is one; the keyed hash is private.
        """
