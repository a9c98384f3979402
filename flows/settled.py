"""A period that is published already: another version of it is made only when somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar

from contracts.errors import Finding, Refused
from flows.outcome import Outcome, outcome_of
from flows.request import Request
from flows.spent import unfinished
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.attempts import BEGUN, PUBLISHED, note_attempt
from tasks.publish import published
from tasks.run_folder import RunFolder
from tasks.settings import Workspace
from tasks.sink.copying import copy_published

_noted: ContextVar[bool] = ContextVar("attempt_noted", default=False)


class PeriodWithdrawn(Refused):
    """The period was published and withdrawn; nothing brings it back unasked."""


def settled(request: Request, workspace: Workspace, run: RunFolder, *, supersede: bool) -> Outcome | None:
    """Return the outcome of a period that is published; None where there is something to do. Reads no data.

    A spec of one release is never settled: it looks at its rows, and a run on other rows is another version. A
    period's rows may change as well (late data, corrections), but what that costs is for a person to decide.

    Args:
        request: what is asked for.
        workspace: gives ledger and store.
        run: held by this process; learns that the period is charged and published, whatever becomes of a copy.
        supersede: whether another version is wanted if the rows have changed.
    Raises:
        PeriodWithdrawn: all its versions were withdrawn.
    """
    spec = request.spec
    if spec.block is None or supersede:
        return None
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        versions = ledger.versions(spec.release)
        standing = [version for version in versions if version.status == "published"]
        entered = [version for version in versions if version.status != "allocated"]
        if unfinished(ledger, request, workspace) or not entered:
            return None
        if not standing:
            raise _withdrawn(request, entered[-1])
        store = request.store(workspace)
        found = published(ledger, standing[-1].run_key, store)
        if found is None:
            return None
        run.charge, run.published = "published", True
        copied = None
        if request.copy_to is not None:
            named = spec.publish.credentials
            copied = copy_published(ledger, store, found.release, found.number, request.copy_to, named)[1]
        return outcome_of(found, ledger, workspace, repeated=True, copied=copied)


def _withdrawn(request: Request, version: VersionEntry) -> PeriodWithdrawn:
    found = f"v{version.number}, which was withdrawn"
    remedy = "ask for another version with --supersede; it is charged if the rows or the spec have changed"
    where = f"release {request.spec.release}"
    return PeriodWithdrawn([Finding(where, "version", found, "a period that was not withdrawn", remedy)])


@contextmanager
def attempt_noted(request: Request, workspace: Workspace, run: RunFolder) -> Iterator[None]:
    """Keep a private note of how the attempt at a period ends; the outermost block of a process writes it."""
    if request.spec.block is None or _noted.get():
        yield
        return
    folder, release = workspace.attempts, request.spec.release
    token = _noted.set(True)
    try:
        note_attempt(folder, release, BEGUN, error=None, charge=None)
        yield
        note_attempt(folder, release, PUBLISHED, error=None, charge="published")
    except BaseException as error:
        told = run.refusal if run.refusal is not None else error
        note_attempt(folder, release, type(told).__name__, error=told, charge=run.charge)
        raise
    finally:
        _noted.reset(token)
