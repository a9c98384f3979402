"""Observers of a run: what they hear, and that nothing that they do stops it."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from contracts.errors import GateBroken, SpecRefused
from contracts.plug_ins import PlugInAway
from flows import observers
from flows.observers import Observer, check_observers, observed
from flows.outcome import Outcome
from flows.request import Request
from tasks.storage.progress import StepTime
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.lineage_target import LineageTarget
from tasks.storage.workspace.settings import Workspace

NOBODY: Any = SimpleNamespace(is_configured=False)
REQUEST: Any = SimpleNamespace()
OUTCOME: Any = SimpleNamespace(folder="v1")
STEPS = (StepTime("count", 0, 1),)
heard: list[tuple[Any, ...]] = []


class Listening(Observer):
    """Writes down what it hears."""

    def __init__(self, request: Request, workspace: Workspace, began: int) -> None:
        heard.append(("made", began))

    @classmethod
    def is_wanted(cls, workspace: Workspace) -> bool:
        return True

    def begin(self) -> None:
        heard.append(("begin",))

    def end(self, outcome: Outcome, steps: Sequence[StepTime]) -> None:
        heard.append(("end", outcome, steps))

    def fail(self, word: str, steps: Sequence[StepTime], *, timed: bool) -> None:
        heard.append(("fail", word, steps, timed))


class Breaking(Listening):
    def begin(self) -> None:
        raise RuntimeError("a row says 4711")

    def end(self, outcome: Outcome, steps: Sequence[StepTime]) -> None:
        raise RuntimeError("a row says 4711")

    def fail(self, word: str, steps: Sequence[StepTime], *, timed: bool) -> None:
        raise RuntimeError("a row says 4711")


class Unmade(Listening):
    def __init__(self, request: Request, workspace: Workspace, began: int) -> None:
        raise RuntimeError("a row says 4711")


@pytest.fixture(autouse=True)
def _three_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    heard.clear()
    points = [EntryPoint(name, f"{__name__}:{name}", observers.GROUP) for name in ("Unmade", "Breaking", "Listening")]
    monkeypatch.setattr(observers, "registered", lambda group: points)


def workspace(tmp_path: Any, **asked: Any) -> Any:
    return SimpleNamespace(**{"root": tmp_path, "lineage": NOBODY, "telemetry": NOBODY, **asked})


def test_an_observer_hears_of_the_run_and_a_broken_one_is_a_warning(tmp_path: Any, caplog: pytest.LogCaptureFixture):
    assert observed(REQUEST, workspace(tmp_path), STEPS, 7, lambda: OUTCOME) is OUTCOME
    assert heard == [("made", 7), ("made", 7), ("begin",), ("end", OUTCOME, STEPS)]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert "Unmade: it could not be told of the run (RuntimeError)" in caplog.text
    assert "Breaking: it could not be told of the run (RuntimeError)" in caplog.text
    assert "4711" not in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SpecRefused([]), ("SpecRefused", STEPS, True)),
        (GateBroken([]), ("refused", (), False)),
        (KeyboardInterrupt(), ("refused", (), False)),
    ],
)
def test_of_an_error_an_observer_hears_what_spec_and_ledger_alone_decided(
    tmp_path: Any, error: BaseException, told: tuple[Any, ...]
):
    """Else neither its class, nor the step, nor how long it took: each could be the outcome of a check."""

    def work() -> Outcome:
        raise error

    with pytest.raises(type(error)):
        observed(REQUEST, workspace(tmp_path), STEPS, 7, work)
    assert heard[-1] == ("fail", *told)


def test_settings_for_an_observer_that_is_not_installed_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    """Before anything is read; the refusal names the extension."""
    monkeypatch.setattr("contracts.plug_ins.registered", lambda group: ())
    check_observers(workspace(tmp_path))
    with pytest.raises(WorkspaceRefused, match="which needs the extension sudare_exchange, which is not installed"):
        check_observers(workspace(tmp_path, lineage=LineageTarget(url="http://127.0.0.1")))


def test_what_is_no_observer_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    points = [EntryPoint("other", "builtins:dict", observers.GROUP)]
    monkeypatch.setattr(observers, "registered", lambda group: points)
    with pytest.raises(PlugInAway):
        check_observers(workspace(tmp_path))
