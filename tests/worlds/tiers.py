"""The tiers of tests, by what a case does: a plug-in of pytest that fails what is in the wrong one.

`make test` runs what is pure and in one process. A case of it fails where it starts a process, binds or connects a
socket, sleeps, reads a clock itself, is skipped, or costs far more than half a second of a quiet core. The others
have a marker:

    services   processes, servers, browsers, tokens and programs that a bare machine lacks: `make test-services`
    long       kills, soaks, games, audits, and pure work above that limit: `make test-long`
    spark      a session of Spark: `make test-spark`

A case with a marker that fails is tried once more, and what needed it is printed; a pure one is not.
"""

import multiprocessing.util
import os
import re
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any, Final

import pytest

ELSEWHERE: Final = ("services", "long", "spark")
TIMEOUTS: Final = {"services": 600, "spark": 1800, "long": 1800}
"""Seconds of wall time that a case may take; a pure one may take 60."""
PROCESS_FIXTURES: Final = frozenset(
    {
        *("browser", "go_program", "postgres", "postgres_databases", "object_server"),
        *("initialised", "prefect_home", "serving", "prefect_server", "served"),
    }
)
"""Each starts a process or a server: a case that uses one is marked `services`."""
EVENTS: Final = {
    "subprocess.Popen": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "socket.bind": "binds a socket",
    "socket.connect": "connects a socket",
}
CLOCKS: Final = frozenset({"perf_counter", "process_time", "thread_time", "monotonic", "perf_counter_ns"})
TESTS: Final = Path(__file__).parents[1]
WHOLE_FILE: Final = re.compile(r"^pytestmark = \[?pytest\.mark\.(services|long|spark)\b", re.MULTILINE)
LIMIT: Final = 0.5
"""CPU seconds of a quiet core that a case may cost. Up to four times of it are only printed: what the first of
several cases pays for all of them, such as a version that is published once, cannot be told from its own."""
QUIET: Final = 0.0095
"""What the calibration takes on the core that costs are stated for [CPU s]."""
MANY_IMPORTS: Final = 20
"""Modules: whoever comes first pays for a package that others use too, and its cost is only reported."""


@dataclass
class _Case:
    """The pure case that runs: what it did, and what it cost."""

    item: pytest.Item
    began: float = field(default_factory=process_time)
    modules: int = field(default_factory=lambda: len(sys.modules))
    shared: float = 0.0
    did: list[str] = field(default_factory=list)


_running: list[_Case] = []
_reported: list[str] = []
_items: list[pytest.Item] = []


def is_elsewhere(node: pytest.Item | pytest.Collector) -> bool:
    """Whether `make test` leaves a case to another target."""
    return any(node.get_closest_marker(name) is not None for name in ELSEWHERE)


def takes_stand_ins() -> bool:
    """Whether the case that runs has not asked for what is stood in for."""
    return not any(item.get_closest_marker("real_validator") for item in _items)


def refuse(event: str, given: tuple[Any, ...]) -> None:
    """Refuse an event of the interpreter while a pure case runs."""
    if event not in EVENTS or not _running:
        return
    _refuse(EVENTS[event] + (f" ({os.fsdecode(given[0] or given[1][0])})" if event == "subprocess.Popen" else ""))


def _refuse(what: str) -> None:
    if _running:
        _running[-1].did.append(what)
        raise RuntimeError(f"{_running[-1].item.nodeid} {what}: mark it with `services` or `long`")


sys.addaudithook(refuse)
_spawn, _sleep = multiprocessing.util.spawnv_passfds, time.sleep


def _told_spawn(path: str, *given: Any) -> int:
    """Start a process of multiprocessing, of which the interpreter tells nothing."""
    _refuse("starts a process")
    return _spawn(path, *given)


def _told_sleep(seconds: float) -> None:
    """Sleep, of which Python before 3.13 tells nothing."""
    if seconds:
        _refuse("sleeps")
    _sleep(seconds)


multiprocessing.util.spawnv_passfds, time.sleep = _told_spawn, _told_sleep


def slowness() -> tuple[float, bool]:
    """Measure this core: how many times slower it is than the one of `QUIET`, and whether others use it too."""
    wall, own = perf_counter(), thread_time()
    total = 0
    for number in range(400_000):
        total += number % 7
    wall, own = perf_counter() - wall, thread_time() - own
    return own / QUIET, wall > 1.15 * own or os.getloadavg()[0] > (os.cpu_count() or 1) + 0.5


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of another tier: what it imports is half of what collecting costs."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    asked = config.option.markexpr
    found = WHOLE_FILE.search(collection_path.read_text(encoding="utf-8"))
    wanted = [name for name in ELSEWHERE if re.search(rf"(?<!not )\b{name}\b", asked)]
    other = wanted and not any(tells_of(collection_path, name) for name in wanted)
    return True if other or (found and f"not {found[1]}" in asked) else None


@cache
def tells_of(path: Path, tier: str) -> bool:
    """Whether a file names a tier, or may use a fixture that means it: each case's file does, or it is an error."""
    if tier != "services":
        return f"mark.{tier}" in path.read_text(encoding="utf-8")
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(TESTS) and folder != TESTS]
    text = "".join(each.read_text(encoding="utf-8") for each in [path, *above] if each.exists())
    return any(name in text for name in (f"mark.{tier}", *PROCESS_FIXTURES))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses such a fixture, before cases are chosen by their markers; set the timeout of the tier."""
    for item in items:
        if not is_elsewhere(item) and not PROCESS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("services")
        tiers = [name for name in ELSEWHERE if item.get_closest_marker(name) is not None]
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max([60, *(TIMEOUTS[name] for name in tiers)])))
        if tiers:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if not all(tells_of(item.path, name) for name in tiers):
            raise pytest.UsageError(f"{item.nodeid}: its file says nowhere that it is of {tiers}, so it is never run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _items[:] = [item]
    _running[:] = [] if is_elsewhere(item) else [_Case(item)]
    try:
        return (yield)
    finally:
        _running.clear()
        _items.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Count apart what is made for several cases."""
    began = process_time()
    try:
        return (yield)
    finally:
        if _running and fixturedef.scope != "function":
            _running[-1].shared += process_time() - began


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skip, and a pure case that belongs elsewhere."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and ("CI" in os.environ or not is_elsewhere(item)):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = (
            f"{why}\nNo test is skipped here: mark it with `services`, and have CI install what it needs."
        )
    judged = _running if call.when == "call" and report.passed else []
    for wrong in [wrong for case in judged for wrong in case.did or clocks_read(item) or too_dear(case, report)][:1]:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} {wrong}: mark it with `services` or `long`"
    return report


def clocks_read(item: pytest.Item) -> list[str]:
    """Name the clocks that a case itself reads: what it asserts of them depends on the machine."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    read = CLOCKS.intersection(code.co_names) if code is not None else set()
    return [f"reads a clock ({name})" for name in sorted(read)]


def too_dear(case: _Case, report: pytest.TestReport) -> list[str]:
    """Say that a case costs too much, where that can be known: on a core that nobody else uses."""
    cost = process_time() - case.began - case.shared
    if cost <= LIMIT:
        return []
    factor, loaded = slowness()
    if cost <= LIMIT * factor:
        return []
    said = f"costs {cost / factor:.2f} CPU s, more than {LIMIT}"
    if loaded or cost <= 4 * LIMIT * factor or len(sys.modules) - case.modules >= MANY_IMPORTS:
        _reported.append(f"{report.nodeid} {said}")
        return []
    return [said]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was not certain enough to fail: others used the core, or packages were imported."""
    for line in _reported:
        terminalreporter.write_line(f"not failed: {line}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"{collector.nodeid} is skipped: mark its tests with `services`"
    return report
