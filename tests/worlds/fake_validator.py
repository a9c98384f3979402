"""A stand-in for Great Expectations, which takes two seconds to import and half a release to run.

It answers by one query a check on the same relations. That both answer alike is tested in
tests/tasks/test_validate.py; the real one runs there, where the marker `real_validator` is used, and in every process
that a test starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier, literal
from tasks.validation.distinct_values import DistinctValues, as_read

_CASTS: Final[Mapping[object, str]] = {"date": "TIMESTAMP"}


@dataclass(frozen=True)
class Verdict:
    """What `tasks.validation.expectations.CheckVerdict` says."""

    check: Check
    passed: bool
    failed_to_run: bool = False


def run_suites(
    connection: duckdb.DuckDBPyConnection, values: Sequence[DistinctValues]
) -> tuple[tuple[Verdict, ...], list[dict[str, Any]]]:
    """Answer like `tasks.validation.expectations.run_suites`; the results quote nothing."""
    verdicts = tuple(
        Verdict(check, _holds(connection, each.relation, check)) for each in values for check in each.checks
    )
    return verdicts, [{"check": each.check.name, "success": each.passed} for each in verdicts]


def _holds(connection: duckdb.DuckDBPyConnection, relation: str, check: Check) -> bool:
    given = check.parameters
    if check.kind == "columns":
        names = {name for name, *_ in connection.execute(f"DESCRIBE {identifier(relation)}").fetchall()}
        return names == set(_texts(given["names"]))
    if check.kind == "rows":
        [(rows,)] = connection.execute(f"SELECT count(*) FROM {identifier(relation)}").fetchall()
        return int(rows) >= int(str(given["least"]))
    breaks = f"SELECT 1 FROM {identifier(relation)} WHERE {_broken(check)} LIMIT 1"
    return not connection.execute(breaks).fetchall()


def _broken(check: Check) -> str:
    """Write when a value breaks a check of a column."""
    given, column = check.parameters, identifier(check.column or "")
    if check.kind == "not_null":
        return f"{column} IS NULL"
    if check.kind == "in_set":
        return f"{column} NOT IN ({', '.join(map(literal, _texts(given['values'])))})"
    read = identifier(as_read(check.column or "", given["to"]))
    if check.kind == "castable":
        return f"{column} IS NOT NULL AND {read} IS NULL"
    kind = _CASTS.get(given["to"], "DOUBLE")
    low, high = (f"CAST({literal(str(given[end]))} AS {kind})" for end in ("low", "high"))
    return f"CAST({read} AS {kind}) NOT BETWEEN {low} AND {high}"


def _texts(parameter: object) -> tuple[str, ...]:
    return parameter if isinstance(parameter, tuple) else ()
