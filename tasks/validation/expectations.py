"""The contract's checks as a Great Expectations suite, and DuckDB as Great Expectations reaches it.

Great Expectations takes seconds to import: import this module where a suite runs and nowhere else. What it returns
is private but for the one bit a check; `tasks.validate` reduces it to that.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import duckdb
import duckdb_engine
import sqlalchemy
from sqlalchemy.dialects import registry
from sqlalchemy.pool import StaticPool

from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier
from tasks.validation.distinct_values import DistinctValues, as_read

# --- Packages that Great Expectations imports with itself and no check of ours uses.


UNUSED: Final = ("altair", "scipy.stats")


class DeferredPackage(ModuleType):
    """Stands for a package until a name of it is used; then the package takes its place in `sys.modules`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # who looks modules through asks for __file__ and the like
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def deferred() -> Iterator[None]:
    """Let the block import packages without loading them; one that is loaded, or not installed, is left alone."""
    for name in UNUSED:
        if name in sys.modules or find_spec(name) is None:
            continue
        standing = sys.modules[name] = DeferredPackage(name)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, standing)
    yield


with deferred():
    import great_expectations as gx
    import great_expectations.expectations as gxe
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults
    from great_expectations.expectations.row_conditions import Column as Where

CHECK = "check"
_TYPES: Final[Mapping[str, Any]] = {
    "BIGINT": sqlalchemy.BigInteger,
    "DATE": sqlalchemy.Date,
    "DOUBLE": sqlalchemy.Double,
    "INTEGER": sqlalchemy.Integer,
    "TIMESTAMP": sqlalchemy.DateTime,
}
"""What values are read as, to SQLAlchemy. The rest are texts: of them no check asks more than which there are."""
RESULT_FORMAT = {"result_format": "SUMMARY", "partial_unexpected_count": 20}


class QuietDialect(duckdb_engine.Dialect):  # type: ignore[misc]
    """duckdb-engine's dialect without transactions, for a connection that writes nothing.

    duckdb-engine rolls back before it fetches, and the error that DuckDB then raises looks like a failed expectation.
    """

    supports_statement_cache = True

    def do_begin(self, connection: Any) -> None:
        """Begin nothing."""

    def do_commit(self, connection: Any) -> None:
        """Commit nothing."""

    def do_rollback(self, connection: Any) -> None:
        """Roll nothing back."""

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Ask DuckDB for names and types: its stand-in for PostgreSQL's catalogue takes 30 times as long."""
        described = connection.exec_driver_sql(f"DESCRIBE {identifier(table_name)}")
        return [
            {"name": name, "type": _TYPES.get(kind, sqlalchemy.String)(), "nullable": True, "default": None}
            for name, kind, *_ in described
        ]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return none: the relations are views and copies."""
        return {"constrained_columns": [], "name": None}


class Borrowed(duckdb_engine.ConnectionWrapper):  # type: ignore[misc]
    """A connection that stays open when SQLAlchemy is done with it; whoever opened it closes it."""

    def close(self) -> None:
        """Close nothing."""


registry.register("duckdb.sudare", __name__, QuietDialect.__name__)


@dataclass(frozen=True)
class CheckVerdict:
    """What Great Expectations says about one check.

    Args:
        check: the check.
        passed: whether the expectation is met.
        failed_to_run: whether it raised an exception instead; then `passed` says nothing.
    """

    check: Check
    passed: bool
    failed_to_run: bool


def run_suites(
    connection: duckdb.DuckDBPyConnection, values: Sequence[DistinctValues]
) -> tuple[tuple[CheckVerdict, ...], list[dict[str, Any]]]:
    """Run one suite a relation.

    Args:
        connection: where the relations are; used by nobody else meanwhile.
        values: the relations with their checks.
    Returns:
        One verdict a check, in order; and the full results of Great Expectations, which quote values.
    """
    logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = gx.get_context(mode="ephemeral", project_config=_nothing_on_disk_and_no_reports())
        source = context.data_sources.add_sql(
            "snapshot",
            connection_string="duckdb+sudare://",
            create_temp_table=False,
            kwargs={"creator": lambda: Borrowed(connection), "poolclass": StaticPool},
        )
        verdicts: list[CheckVerdict] = []
        results = []
        for each in values:
            asset = source.add_table_asset(each.about, table_name=each.relation)
            batch = asset.add_batch_definition_whole_table("all").get_batch()
            result = batch.validate(suite(each), result_format=RESULT_FORMAT)
            verdicts += _verdicts(each.checks, result.results)
            results.append(result.to_json_dict())
    return tuple(verdicts), results


def _nothing_on_disk_and_no_reports() -> DataContextConfig:
    """Configure Great Expectations to keep all in memory, report to nobody and draw no progress bars."""
    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars={"globally": False},
    )


def suite(values: DistinctValues) -> gx.ExpectationSuite:
    """Compile the checks of one relation to an expectation suite.

    Args:
        values: the relation with its checks.
    Returns:
        One expectation a check; its `meta` carries the check's name.
    """
    return gx.ExpectationSuite(name=values.about, expectations=[expectation(check) for check in values.checks])


def expectation(check: Check) -> gxe.Expectation:
    """Compile one check to an expectation."""
    meta = {CHECK: check.name}
    given = check.parameters
    column = check.column or ""
    match check.kind:
        case "columns":
            return gxe.ExpectTableColumnsToMatchSet(
                column_set=list(_texts(given["names"])), exact_match=True, meta=meta
            )
        case "rows":
            return gxe.ExpectTableRowCountToBeBetween(min_value=given["least"], meta=meta)
        case "not_null":
            return gxe.ExpectColumnValuesToNotBeNull(column=column, meta=meta)
        case "castable":
            read = as_read(column, given["to"])
            return gxe.ExpectColumnValuesToNotBeNull(
                column=read, row_condition=Where(column).is_not_null(), meta=meta
            )
        case "in_set":
            return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(_texts(given["values"])), meta=meta)
        case "between":
            low, high = (_bound(str(given[end]), given["to"]) for end in ("low", "high"))
            read = as_read(column, given["to"])
            return gxe.ExpectColumnValuesToBeBetween(column=read, min_value=low, max_value=high, meta=meta)


def _texts(parameter: object) -> tuple[str, ...]:
    return parameter if isinstance(parameter, tuple) else ()


def _bound(text: str, to: object) -> float | datetime:
    """Read a bound as the values are read: numbers as doubles, dates as days."""
    return datetime.fromisoformat(text) if to == "date" else float(text)


def _verdicts(checks: Sequence[Check], results: Sequence[Any]) -> list[CheckVerdict]:
    """Match results, which come in another order, to the checks by their names."""
    by_name = {result.expectation_config.meta[CHECK]: result for result in results}
    return [
        CheckVerdict(check, bool(by_name[check.name].success), _raised(by_name[check.name].exception_info))
        for check in checks
    ]


def _raised(info: dict[str, Any]) -> bool:
    """Whether an exception stands behind a result: either told directly or once a metric."""
    if "raised_exception" in info:
        return bool(info["raised_exception"])
    return any(_raised(inner) for inner in info.values() if isinstance(inner, dict))
