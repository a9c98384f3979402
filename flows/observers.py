"""Who else hears of a run: observers, which packages register as `sudare.observers`.

Observers are told what is public, and of an error what `public_word` gives. What one of them raises is a warning and
stops no run. One that an extension registers has the name of its table in sudare.toml.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from contracts.errors import SpecRefused
from contracts.plug_ins import OF_EXTENSIONS, RegisteredName, absent_extension, registered
from flows.outcome import Outcome
from flows.request import Request
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from tasks.storage.progress import StepTime
from tasks.storage.workspace.keys import refusal
from tasks.storage.workspace.settings import FILE, Workspace

logger = logging.getLogger(__name__)

GROUP: Final = "sudare.observers"
_PUBLIC: Final = (BudgetExceeded, LedgerRefusal, SpecRefused)
_ANY_OTHER: Final = "refused"
_ToldT = TypeVar("_ToldT")


class Observer(ABC):
    """Hears of one run.

    Args:
        request: what is asked for.
        workspace: where.
        began: when the run began [ns since 1970].
    """

    @abstractmethod
    def __init__(self, request: Request, workspace: Workspace, began: int) -> None: ...

    @classmethod
    @abstractmethod
    def is_wanted(cls, workspace: Workspace) -> bool:
        """Say whether the workspace asks for it."""

    @classmethod  # noqa: B027 - most have nothing to refuse
    def check(cls, workspace: Workspace) -> None:
        """Refuse settings that cannot be followed; nothing was read or charged."""

    @abstractmethod
    def begin(self) -> None:
        """Hear that the run goes on."""

    @abstractmethod
    def end(self, outcome: Outcome, steps: Sequence[StepTime]) -> None:
        """Hear what was published, and which steps that took."""

    @abstractmethod
    def fail(self, word: str, steps: Sequence[StepTime], *, timed: bool) -> None:
        """Hear that the run ended without a version.

        Args:
            word: what may be told of the error.
            steps: those that ended; none where the step would be the outcome of a check.
            timed: whether it may be told how long the run took.
        """


def check_observers(workspace: Workspace) -> None:
    """Refuse a workspace that asks for an observer that cannot be had; nothing was read or charged.

    Raises:
        WorkspaceRefused: an extension is not installed, or the observer refuses its settings.
        PlugInAway: what is registered is no observer.
    """
    for name in OF_EXTENSIONS.get(GROUP, {}):
        extension = absent_extension(GROUP, name)
        if extension is not None and getattr(workspace, name).is_configured:
            found = f"`{name}`, which needs the extension {extension}, which is not installed"
            allowed, remedy = "settings of what is installed", f"install Sudare with {extension}, or drop them"
            raise refusal(str(workspace.root / FILE), name, found, allowed, remedy)
    for kind in _wanted(workspace):
        kind.check(workspace)


def observed(
    request: Request, workspace: Workspace, steps: Sequence[StepTime], began: int, work: Callable[[], Outcome]
) -> Outcome:
    """Carry a run out, and tell observers that it goes on and how it ends.

    Args:
        request: what is asked for.
        workspace: says who hears of it.
        steps: the steps that ended so far; more are added by the work.
        began: when the run began [ns since 1970].
        work: the run.
    Privacy: observers hear declarations and what is published; of an error its class where spec and ledger alone
        decide it, and else one fixed word, since the class of a broken gate or an unreadable source is its outcome.
    """
    observers: list[Observer] = []
    _tell(_wanted(workspace), lambda kind: observers.append(kind(request, workspace, began)))
    _tell(observers, lambda observer: observer.begin())
    try:
        outcome = work()
    except BaseException as error:
        word, public = public_word(error)
        _tell(observers, lambda observer: observer.fail(word, steps if public else (), timed=public))
        raise
    _tell(observers, lambda observer: observer.end(outcome, steps))
    return outcome


def public_word(error: BaseException) -> tuple[str, bool]:
    """Return what may be told of an error, and whether spec and ledger alone decided it.

    Exact classes only, since a class derived from one may say more.
    """
    public = type(error) in _PUBLIC
    return type(error).__name__ if public else _ANY_OTHER, public


def _wanted(workspace: Workspace) -> list[type[Observer]]:
    kinds: list[type[Observer]] = [RegisteredName(point).load(Observer) for point in registered(GROUP)]
    return [kind for kind in kinds if kind.is_wanted(workspace)]


def _tell(observers: Sequence[_ToldT], said: Callable[[_ToldT], None]) -> None:
    for observer in observers:
        try:
            said(observer)
        except Exception as error:  # noqa: BLE001 - whatever an observer does, the run goes on
            name = (observer if isinstance(observer, type) else type(observer)).__name__
            logger.warning("%s: it could not be told of the run (%s)", name, type(error).__name__)
