"""What `make test` may need: a machine with Python and make. Foreign programs are for tests that are marked so.

A plug-in of pytest. A test without the marker `services`, `long` or `spark` that starts another program fails, and so
does one that is skipped; where CI is set, no test may be skipped, for CI installs what the others need.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
ELSEWHERE: Final = ("services", "long", "spark")
FIXTURES: Final = frozenset({"browser", "go_program", "postgres", "postgres_databases"})
"""Each starts a foreign program: a test that uses one is marked `services`."""
PROGRAMS: Final = frozenset({"sh", "env", "git", "make", "tar", "gcc", "cc", "uname"})
PLACES: Final = frozenset({Path(sys.executable).parent, ROOT / "deploy" / "federation" / ".venv" / "bin"})

_running: list[pytest.Item] = []


def is_marked(node: pytest.Item | pytest.Collector) -> bool:
    """Whether `make test` leaves a test to another target."""
    return any(node.get_closest_marker(name) is not None for name in ELSEWHERE)


def is_allowed(program: str) -> bool:
    """Whether a bare machine has a program: by its name, or as one that make installed or a test wrote."""
    path = Path(program)
    written = path.is_relative_to(tempfile.gettempdir()) and not path.is_relative_to(sys.prefix)
    return written or path.parent in PLACES or path.name in PROGRAMS or path.name.startswith("python")


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or not _running:
        return
    program = os.fsdecode(given[0] or given[1][0])
    if not is_allowed(program):
        raise RuntimeError(f"{program} is not on every machine: mark {_running[-1].nodeid} with `services`")


sys.addaudithook(_refuse)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses such a fixture, before tests are chosen by their markers."""
    for item in items:
        if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("services")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Know which test runs, where it may start no foreign program."""
    _running[:] = [] if is_marked(item) else [item]
    try:
        return (yield)
    finally:
        _running.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a skip fail."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and ("CI" in os.environ or not is_marked(item)):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = (
            f"{why}\nNo test is skipped here: mark it with `services`, and have CI install what it needs."
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"{collector.nodeid} is skipped: mark its tests with `services`"
    return report
