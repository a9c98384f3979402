"""What a run is asked for, and who conducts it: a person at a terminal, or a worker that nobody watches.

It loads nothing that makes a release, so that a command knows it while that is still loading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contracts.errors import SudareError
    from flows.outcome import Outcome
    from flows.request import Request
    from privacy.private_table import PrivateTable
    from tasks.storage.workspace.run_folder import RunFolder


@dataclass(frozen=True)
class ReleaseOrder:
    """One release that is wanted.

    Args:
        spec: the release spec.
        period: which period, for a spec with `period:` (2024-Q3).
        supersede: whether what is published gets another version if rows or spec have changed.
        keep_snapshot: whether the private snapshot outlives the run.
        early: whether a period is released that is not over.
        due: the date that the run is due on, for a spec with `redraw: on_schedule`.
        timezone: by whose days a period is over (Europe/Oslo); UTC without it.
        accept_clock: whether a clock far ahead of the journal's last entry is right.
    """

    spec: Path
    period: str | None = None
    supersede: bool = False
    keep_snapshot: bool = False
    early: bool = False
    due: str | None = None
    timezone: str | None = None
    accept_clock: bool = False


@dataclass(frozen=True)
class OperatorDecision:
    """What was found and decided before Prefect hears of a run.

    Args:
        supersede: whether what is published may get another version.
        table: the snapshot, where it was taken in already.
        page_written: whether the private page says how the rows fit the contract.
        refusal: why the source could not be taken in, where that was tried.
        unattended: whether nobody is asked, so that the workspace's share decides.
    """

    supersede: bool
    table: PrivateTable | None = None
    page_written: bool = False
    refusal: SudareError | None = None
    unattended: bool = False


class Conductor(Protocol):
    """Who conducts a run: decides before it is told to anybody, and says where its steps are carried out."""

    def decide(self, run: RunFolder, request: Request) -> OperatorDecision:
        """Decide whether the run goes on; raises where it does not."""
        ...

    def carry_out(self, decision: OperatorDecision, steps: Callable[[], Outcome]) -> Outcome:
        """Carry the steps out inside a flow run of Prefect's."""
        ...

    def explained(self, error: BaseException, run: RunFolder, request: Request) -> BaseException:
        """Return the error that the caller is shown in place of one that ended the run."""
        ...
