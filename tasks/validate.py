"""Validate: the contract's checks, run on the snapshot by Great Expectations.

One bit a check leaves this module, and even that is for auditors only unless the check is a gate: whether some row
breaks a check is a fact about single people. Great Expectations' full result goes to a private file.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from contracts.contract.contract import Contract, checks
from contracts.domains.statements import Check
from contracts.domains.value_sql import literal
from contracts.errors import Finding, GateBroken, SudareError
from privacy.private_table import PrivateTable
from tasks.records.facts import CheckOutcome
from tasks.storage.duckdb_session import connect, run, trouble
from tasks.storage.progress import step
from tasks.storage.workspace.run_folder import SPILL
from tasks.validation.distinct_values import lay_out

if TYPE_CHECKING:
    from privacy.counting_engine import CountingEngine
    from tasks.validation.expectations import CheckVerdict

logger = logging.getLogger(__name__)

RESULT_FILE = "validation.private.json"
SHOWN = 12
LAID_OUT = 0.4
_NOUNS: dict[object, str] = {"integer": "a whole number", "number": "a number", "date": "a date", "levels": "levels"}


def warm() -> None:
    """Import Great Expectations; call it in a thread while DuckDB ingests, which leaves Python free."""
    _suites()


def _suites() -> Callable[..., tuple[tuple[CheckVerdict, ...], list[dict[str, Any]]]]:
    from tasks.validation.expectations import run_suites

    return run_suites


def validate(
    table: PrivateTable, contract: Contract, *, folder: Path, memory_limit: str = "1GB"
) -> tuple[CheckOutcome, ...]:
    """Run the contract's checks on a snapshot.

    Args:
        table: the snapshot.
        contract: the contract that it was made by.
        folder: the run's private folder, for the full result.
        memory_limit: DuckDB's limit [text, such as "1GB"].
    Returns:
        One outcome a check, in the order of `contracts.contract.contract`.
    Raises:
        GateBroken: a check fails that is a gate; the others' outcomes do not show.
        SudareError: a check could not be run, or the folder cannot be written; that is never taken for bad data.
    Privacy: the outcomes of gates are unprotected and the record says so; the others are auditor-only.
    """
    with step("validate") as bar:
        listed = checks(contract)
        if table.engine is not None:
            found = _in_engine(table.engine, contract, listed, folder)
            bar.outcome(all(each.passed for each in found))
            return found
        verdicts, results = _run(table, contract, listed, folder, memory_limit, bar.advance)
        _write(folder, results)
        _refuse_unrun(verdicts, folder)
        _refuse_broken_gates([each.check for each in verdicts if not each.passed], contract)
        bar.outcome(all(each.passed for each in verdicts))
    logger.info("validated: %d checks, all %d gates hold", len(listed), sum(check.gate for check in listed))
    return tuple(CheckOutcome(each.check.name, each.passed, each.check.gate) for each in verdicts)


def _run(
    table: PrivateTable,
    contract: Contract,
    checks: tuple[Check, ...],
    folder: Path,
    memory_limit: str,
    advance: Callable[[float], None],
) -> tuple[tuple[CheckVerdict, ...], list[dict[str, Any]]]:
    """Attach the snapshot read-only, lay its values out, run the suites."""

    def explain(error: duckdb.Error) -> SudareError:
        return trouble(error, table.path, "reading the snapshot")

    def evaluate() -> tuple[tuple[CheckVerdict, ...], list[dict[str, Any]]]:
        connection.execute(f"ATTACH {literal(str(table.path))} AS snapshot (READ_ONLY)")
        values = lay_out(connection, contract, checks)
        advance(LAID_OUT)
        return _suites()(connection, values)

    with connect(None, memory_limit=memory_limit, spill=folder / SPILL) as connection:
        return run(connection, evaluate, explain=explain)


def _write(folder: Path, results: list[dict[str, Any]]) -> None:
    """Write the full results where only the owner of the folder can read them."""
    about = "Private: quotes values. Counts in the suites of columns are of different values, not of rows."
    path = folder / RESULT_FILE
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"about": about, "suites": results}, file, default=str, indent=1)
    except OSError as error:
        raise trouble(error, folder, "writing the result of validation") from None


def _refuse_unrun(verdicts: tuple[CheckVerdict, ...], folder: Path) -> None:
    """Raise for checks that ended in an exception: that is a mistake of ours, not of the data."""
    unrun = [each.check.name for each in verdicts if each.failed_to_run]
    if unrun:
        private = folder / RESULT_FILE
        raise SudareError(
            f"checks that could not be run: {', '.join(unrun)}. Report this. Private details: {private}"
        )


def _in_engine(
    engine: CountingEngine, contract: Contract, checks: tuple[Check, ...], folder: Path
) -> tuple[CheckOutcome, ...]:
    """Ask the engine which checks some row breaks: one bit a check, as it marked the rows when it staged them."""
    names = engine.broken_checks()
    _write(folder, [{"broken": sorted(names)}])
    _refuse_broken_gates([check for check in checks if check.name in names], contract)
    logger.info("validated in the engine: %d checks", len(checks))
    return tuple(CheckOutcome(check.name, check.name not in names, check.gate) for check in checks)


def _refuse_broken_gates(failed: list[Check], contract: Contract) -> None:
    """Raise for gates that do not hold, naming what they allow."""
    broken = [check for check in failed if check.gate]
    if broken:
        raise GateBroken([_finding(check, contract) for check in broken])


def _finding(check: Check, contract: Contract) -> Finding:
    """Describe a broken gate by what the contract allows; what was found instead is private."""
    declared = check.name in contract.gates
    remedy = (
        f"correct the data, or take {check.name!r} out of the contract's `gates`" if declared else "correct the data"
    )
    where = f"contract {contract.id}" + (f", column {check.column!r}" if check.column else "")
    found = "too few rows" if check.kind == "rows" else "rows for which it does not hold"
    return Finding(where, f"gate {check.name}", found, _allowed(check), remedy)


def _allowed(check: Check) -> str:
    """Say in words when a check holds."""
    given = check.parameters
    match check.kind:
        case "columns":
            return "the columns " + _listing(given["names"])
        case "rows":
            return f"at least {given['least']} row"
        case "not_null":
            return "a value in every row"
        case "castable":
            if "places" in given:
                return f"{given['places']} whole numbers in every row that has a value"
            return f"{_NOUNS[given['to']]} in every row that has a value"
        case "in_set":
            return "one of " + _listing(given["values"])
        case "between":
            return f"{_NOUNS[given['to']]} from {given['low']} to {given['high']}"


def _listing(texts: object) -> str:
    names = texts if isinstance(texts, tuple) else ()
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
