"""Progress: a line for each step when it has ended, on standard error, and silence afterwards."""

import io
import logging
import signal
import time

import pytest
from rich.console import Console
from rich.progress import Progress

from console.output import RichReporter, shown
from console.running import Stop
from tasks.storage import progress


def _steps() -> None:
    with progress.step("ingest") as bar:
        bar.advance(0.5)
    with progress.step("prefect"):
        pass


def test_each_step_ends_as_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]):
    """A failed step is marked; what is awaited is said in words; standard output stays free for the answer."""

    def fail() -> None:
        with shown():
            _steps()
            with progress.step("publish"):
                raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - the error passes as it is
        fail()
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split(" ")[:2] for line in told.err.splitlines()] == [
        ["✓", "ingest"],
        ["✓", "waiting"],
        ["✗", "publish"],
    ]


def test_a_step_that_is_repeated_in_an_instant_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The flow finds what the command has ingested already: no second line. An instant is a minute here."""
    monkeypatch.setattr("console.output.SHORT_SECONDS", 60.0)
    with shown():
        _steps()
        _steps()
    assert capsys.readouterr().err.count("ingest") == 1


def test_nobody_is_told_when_nobody_watches(capsys: pytest.CaptureFixture[str]):
    """After the block the steps are silent again."""
    with shown():
        pass
    _steps()
    assert capsys.readouterr().err == ""


def test_a_running_step_has_a_bar_on_a_terminal():
    """The bar shows how far the step is."""
    screen = io.StringIO()
    drawn = Progress(console=Console(file=screen, force_terminal=True, width=100))
    reporter = RichReporter(drawn)
    with drawn:
        reporter.begin("measure").advance(0.25)
        drawn.refresh()
    assert "measure" in screen.getvalue()
    assert "25%" in screen.getvalue()


@pytest.mark.services
def test_a_stop_inside_logging_comes_when_it_is_left():
    """An exception there could leave a lock of logging taken for good, and the command would never end."""
    handled = []

    class Stopping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            signal.raise_signal(signal.SIGINT)
            handled.append(record)

    logger = logging.Logger("stopping")
    logger.addHandler(Stopping())

    def stopped() -> None:
        logger.warning("half way")
        time.sleep(60)

    with Stop() as stop, pytest.raises(KeyboardInterrupt):
        stopped()
    assert (stop.asked, len(handled)) == (True, 1)


@pytest.mark.services
def test_a_log_that_nobody_takes_does_not_keep_a_command_from_stopping():
    """A pipe that is full, for instance: after a second the stop comes all the same."""

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            signal.raise_signal(signal.SIGINT)
            time.sleep(60)

    logger = logging.Logger("stuck")
    logger.addHandler(Stuck())
    with Stop(), pytest.raises(KeyboardInterrupt):
        logger.warning("half way")
