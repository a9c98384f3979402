"""What is used of Prefect beyond its documented interface: in one module, and as it is in the Prefect installed."""

import ast
import inspect
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import prefect.utilities.services
import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.server.api.server import create_app
from prefect.workers.process import ProcessWorker

from flows.prefect_runs.server import GAVE_UP, TESTED_VERSION, OutlivesOutages, create_tables
from tests.source_folders import FOLDERS, ROOT

INTERNALS: Final = "flows/prefect_runs/server.py"
ASK: Final = f"Prefect has changed: look at {INTERNALS}"
DOCUMENTED: Final = frozenset(
    {
        "prefect", "prefect.artifacts", "prefect.blocks.system", "prefect.cache_policies",
        "prefect.client.orchestration", "prefect.client.schemas.actions", "prefect.client.schemas.filters",
        "prefect.client.schemas.objects", "prefect.client.schemas.schedules", "prefect.events", "prefect.exceptions",
        "prefect.logging", "prefect.runtime", "prefect.settings", "prefect.states", "prefect.types.entrypoint",
        "prefect.workers.process",
    }
)  # fmt: skip
"""Modules of Prefect's reference of its Python SDK."""
PARAMETERS: Final[tuple[tuple[Callable[..., Any], set[str]], ...]] = (
    (create_app, {"ephemeral"}),
    (EventsWorker.drain_all, {"timeout", "at_exit"}),
    (APILogWorker.drain_all, {"timeout", "at_exit"}),
    (ProcessWorker._submit_scheduled_flow_runs, {"flow_run_response"}),
    (ProcessWorker._submit_run_and_capture_errors, {"flow_run", "task_status"}),
    (ProcessWorker.run, {"flow_run", "configuration", "task_status"}),
)


def uses_of_prefect(source: str) -> Iterator[str]:
    """Name the modules of Prefect that a source imports, and its private names and settings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "prefect":
            yield str(node.module)
            yield from (each.name for each in node.names if each.name.startswith("_"))
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] == "prefect")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("PREFECT__"):
            yield node.value


@pytest.mark.long
def test_one_module_uses_what_prefect_does_not_document():
    """All other modules import the documented modules of Prefect only, and set none of its private settings."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in (*FOLDERS, "deploy")
        for path in (ROOT / package).rglob("*.py")
        if ".venv" not in path.parts and str(path.relative_to(ROOT)) != INTERNALS
        for name in uses_of_prefect(path.read_text())
        if name not in DOCUMENTED
    }
    assert not found
    hidden = "from prefect.events.worker import EventsWorker\nfrom prefect import _x\nE = {'PREFECT__A': 1}"
    assert {*uses_of_prefect(hidden)} - DOCUMENTED == {"prefect.events.worker", "_x", "PREFECT__A"}


def test_the_internals_are_those_of_the_prefect_that_is_installed():
    """An upgrade is tried on purpose: the version is named, and pyproject.toml allows no later one."""
    assert version("prefect").rsplit(".", 1)[0] == TESTED_VERSION, ASK


@pytest.mark.parametrize(("function", "parameters"), PARAMETERS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_an_internal_takes_what_it_is_given(function: Callable[..., Any], parameters: set[str]):
    """A parameter that an upgrade renames is found here, not by a run."""
    assert parameters <= set(inspect.signature(function).parameters), ASK


def test_the_worker_is_made_by_overriding_methods_that_prefect_has():
    """A method that Prefect no longer calls would be overridden in vain."""
    own = {name for name, value in vars(OutlivesOutages).items() if inspect.isfunction(value)} - {"end_unheard"}
    source = inspect.getsource(inspect.getmodule(ProcessWorker.__mro__[1]))  # type: ignore[arg-type]
    assert own == {"_submit_scheduled_flow_runs", "_submit_run_and_capture_errors"}
    assert all(f"self.{name}" in source for name in own), ASK
    assert isinstance(inspect.getattr_static(ProcessWorker, "limiter"), property), ASK


def test_prefect_gives_up_in_the_words_that_are_waited_for():
    """The worker's end for want of a server is told by its message alone."""
    assert GAVE_UP in inspect.getsource(prefect.utilities.services), ASK


@pytest.mark.services
def test_the_database_that_is_created_is_that_of_prefects_own_command(tmp_path: Path):
    """Tables, columns, keys, indexes and revision are the same, so that later migrations of Prefect's find theirs."""
    own, prefects = tmp_path / "own.db", tmp_path / "prefects.db"
    create_tables(own)
    ask = "import asyncio; from prefect.server.database import provide_database_interface as db"
    settings = {
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefects}",
    }
    subprocess.run(
        [sys.executable, "-c", f"{ask}; asyncio.run(db().create_db())"], check=True, env={**os.environ, **settings}
    )
    assert len(described(own)) > 500
    assert described(own) == described(prefects), ASK


def described(file: Path) -> list[tuple[object, ...]]:
    """Describe a database by its tables, columns, keys, indexes and rows, in an order of its own."""
    found: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(file)) as database:
        listed = database.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
        for kind, name, of, text in listed:
            if kind != "table":
                found.append((kind, name, of, text))
                continue
            found += [("column", name, *each[1:]) for each in database.execute(f"pragma table_info('{name}')")]
            found += [("key", name, *each[2:]) for each in database.execute(f"pragma foreign_key_list('{name}')")]
            checks = sorted(re.findall(r"CONSTRAINT \S+ (?:CHECK|UNIQUE|PRIMARY KEY) \(.*\)", text))
            found += [("constraint", name, each) for each in checks]
            found.append(("rows", name, *database.execute(f"select count(*) from '{name}'").fetchone()))
        found.append(("revision", *database.execute("select version_num from alembic_version").fetchone()))
    return sorted(found, key=repr)
