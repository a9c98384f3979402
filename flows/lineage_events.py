"""Tell lineage collectors that a run starts, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from uuid import uuid4

from contracts.errors import SpecRefused
from flows.request import Request
from privacy.ledger.errors import BudgetExceeded, LedgerRefusal
from tasks.records.emission.event_transport import send
from tasks.records.emission.run_events import RunIdentity, complete_event, fail_event, start_event
from tasks.storage.workspace.settings import Workspace

_PUBLIC: Final = (BudgetExceeded, LedgerRefusal, SpecRefused)
_ANY_OTHER: Final = "refused"


@contextmanager
def lineage_of(request: Request, workspace: Workspace) -> Iterator[Callable[[Path], None]]:
    """Emit START when the block begins, COMPLETE when it ends, FAIL when an error leaves it.

    Args:
        request: what is asked for.
        workspace: says where events go; to nobody without `[lineage]` and OPENLINEAGE_URL.
    Yields:
        A function that takes the folder of the version that the run published.
    Privacy: events hold declarations and what is published; of an error its class where spec and ledger alone decide
        it, and else one fixed word, since the class of a broken gate or an unreadable source is its outcome.
    """
    target = workspace.lineage
    published: list[Path] = []
    if not target.is_configured:
        yield published.append
        return
    spec, contract = request.spec, request.contract
    run = RunIdentity(str(uuid4()), target.namespace, f"urn:sudare:{_version()}", spec, contract, target.source_path)
    try:
        send(target, start_event(run, datetime.now(UTC)))
        yield published.append
        send(target, complete_event(run, datetime.now(UTC), published[-1] if published else Path()))
    except BaseException as error:
        send(target, fail_event(run, datetime.now(UTC), public_word(error)[0]))
        raise


def public_word(error: BaseException) -> tuple[str, bool]:
    """Return what may be told of an error, and whether spec and ledger alone decided it.

    Exact classes only, since a class derived from one may say more.
    """
    public = type(error) in _PUBLIC
    return type(error).__name__ if public else _ANY_OTHER, public


def _version() -> str:
    try:
        return version("sudare")
    except PackageNotFoundError:
        return "unknown"
