"""DuckDB as the tasks run it: statements that can be interrupted and watched, and errors that quote no row.

DuckDB's messages quote the row that broke a statement. So none of them goes further: `attempt` replaces each by an
error of ours and drops the original, which does not even stay behind as the context of the new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from contracts.domains.value_sql import literal
from contracts.errors import Finding, Refused, SudareError

ResultT = TypeVar("ResultT")
Explanation = Callable[[duckdb.Error], SudareError | None]

_POLL_SECONDS = 0.1
_SIZE = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B|%)")
_INTERRUPTED = "Query interrupted"
_FULL = ("No space left", "Disk quota", "File too large", "max_temp_directory_size")


def one_file(path: Path) -> str:
    """Quote a path for DuckDB's readers, which would take *, ? and [ in it for a pattern over many files."""
    return literal("".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path)))


def connect(
    path: Path | None, *, memory_limit: str, spill: Path, read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file (None: one in memory) that stays inside its memory and fetches nothing from outside.

    Args:
        path: the database file; created when it does not exist and `read_only` is False.
        memory_limit: DuckDB's limit, such as "1GB" [text]; what does not fit goes to `spill`.
        spill: folder for what does not fit; made by DuckDB when it is needed.
        read_only: open an existing file and change nothing in it.
    Returns:
        The connection.
    Raises:
        Refused: the limit is not understood.
        SudareError: the file cannot be made or opened.
    """
    if not _SIZE.fullmatch(memory_limit):
        allowed = "a size with its unit, such as 1GB or 512MB"
        raise Refused([Finding("workspace", "ingest.memory_limit", repr(memory_limit), allowed, "edit sudare.toml")])
    config: dict[str, Any] = {
        "memory_limit": memory_limit,
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if not read_only:
        config["storage_compatibility_version"] = "latest"
    return attempt(
        lambda: _open(":memory:" if path is None else str(path), read_only, config),
        lambda error: trouble(error, path or spill.parent, "opening it"),
    )


def _open(path: str, read_only: bool, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """Open a database whose statements know how far they are; DuckDB measures that only for a progress bar.

    In a notebook without ipywidgets it refuses the bar: there nobody is told how far a statement is. The day of an
    instant is that in UTC, never that of the zone in which the process runs.
    """
    connection = duckdb.connect(path, read_only=read_only, config=config)
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def attempt(action: Callable[[], ResultT], explain: Explanation) -> ResultT:
    """Do something with DuckDB; on an error of DuckDB raise what `explain` makes of it.

    Args:
        action: what to do.
        explain: the error of ours that stands for DuckDB's, or None where it knows nothing about it.
    Returns:
        What the action returned.
    Raises:
        SudareError: in place of any `duckdb.Error`, without its text and without a link to it.
    """
    try:
        return action()
    except duckdb.Error as error:
        refusal = explain(error) or SudareError(f"DuckDB failed ({type(error).__name__}); its message may quote rows")
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        refusal = None
    raise refusal or KeyboardInterrupt


def run(
    connection: duckdb.DuckDBPyConnection,
    action: Callable[[], ResultT],
    *,
    explain: Explanation,
    advance: Callable[[float], None] = lambda fraction: None,
) -> ResultT:
    """Do something long with DuckDB in a thread of its own, so that Ctrl-C reaches us at once and stops it.

    Args:
        connection: the connection that the action uses; nobody else may use it meanwhile.
        action: what to do.
        explain: as for `attempt`.
        advance: called with the fraction done (0 to 1) meanwhile, where DuckDB knows it.
    Returns:
        What the action returned.
    Raises:
        SudareError: in place of an error of DuckDB, see `attempt`.
        KeyboardInterrupt: after the action has stopped.
    """
    with ThreadPoolExecutor(1, "duckdb") as pool:
        future = pool.submit(action)
        try:
            while not wait([future], _POLL_SECONDS).done:
                percent = connection.query_progress()
                if percent >= 0:
                    advance(min(percent / 100, 1.0))
        except BaseException:
            _stop(connection, future)
            raise
    return attempt(future.result, explain)


def _stop(connection: duckdb.DuckDBPyConnection, future: Future[Any]) -> None:
    """Interrupt until the statement has ended; one that has not begun yet does not notice a single interrupt."""
    while not future.done():
        connection.interrupt()
        wait([future], _POLL_SECONDS)


def trouble(error: Exception, where: Path, doing: str) -> SudareError:
    """Say which file or folder failed and why, as far as that can be said without quoting a row.

    Args:
        error: what DuckDB or the operating system raised; only its kind is used, and known fixed words in it.
        where: the file or folder that is meant.
        doing: what was being done, as in "writing the snapshot".
    Returns:
        The error to raise.
    """
    if is_storage(error):
        return _finding(
            where, doing, "no space left to write", "enough free space", "free some space, then run again"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        remedy = "raise the memory limit or close other programs"
        return _finding(where, doing, "the memory limit is too small", "what the step needs", remedy)
    if "Could not set lock" in str(error):
        remedy = "wait for the other process, or end it"
        return _finding(where, doing, "another process holds it", "one process at a time", remedy)
    if isinstance(error, OSError | duckdb.IOException):
        remedy = "check the permissions and the disk"
        return _finding(where, doing, f"it cannot be read or written ({_kind(error)})", "a usable disk", remedy)
    return _finding(where, doing, f"DuckDB failed ({_kind(error)})", "a statement that runs", "report this")


def is_storage(error: Exception) -> bool:
    """Tell whether an error is about space on the disk rather than about what is read."""
    kinds = (OSError, duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException)
    return isinstance(error, kinds) and any(sign in str(error) for sign in _FULL)


def _kind(error: Exception) -> str:
    """Name the kind of an error: the operating system's own words for its number, or the class."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _finding(where: Path, doing: str, found: str, allowed: str, remedy: str) -> SudareError:
    return SudareError(str(Finding(str(where), doing, found, allowed, remedy)))
