"""The rows of some days: those of one period of a source whose column says which day a row is of.

The column is the source's own, so each row is of one day, however the days are put together. A row whose day cannot
be read is of none: no period takes it. That a period has no row stops nothing: it can be a matter of one person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.domain import DeclaredDomain
from contracts.domains.value_sql import NUMBERS, day_sql, identifier
from contracts.periods.time_blocks import TimeBlock, time_block
from contracts.release.spec import ReleaseSpec
from tasks.storage.duckdb_session import Explanation, attempt
from tasks.storage.sources.typed_rows import Reading, break_gate

_TYPES: Final = ("DATE", "VARCHAR", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "BOOLEAN", *NUMBERS)
"""Numbers and flags too, which tell no day: where nobody has one, a writer stores the column as any of them."""


@dataclass(frozen=True)
class SourceDays:
    """Which rows are taken.

    Args:
        by: the column.
        block: the days, half-open.
        domain: how the contract reads the column's days; None for texts as YYYY-MM-DD, and no instants.
    """

    by: str
    block: TimeBlock
    domain: DeclaredDomain | None = None

    def read_by(self, contract: Contract) -> SourceDays:
        """Return the same days as a contract reads them: the name of the source in the ledger says how."""
        domains = {column.name: column.domain for column in contract.columns}
        domain = domains.get(self.by)
        return replace(self, domain=domain if domain is not None and domain.tells_days else None)

    @property
    def zone(self) -> str | None:
        """The declared time zone."""
        return getattr(self.domain, "time_zone", None)

    @property
    def condition(self) -> str:
        """SQL that is true on a row of these days; never an error."""
        raw = identifier(self.by)
        day = f"({day_sql(raw) if self.domain is None else self.domain.value_sql(raw)})"
        first, end = (date.fromordinal(each) for each in (self.block.begins, self.block.ends))
        return f"{day} >= DATE '{first}' AND {day} < DATE '{end}'"


def days_of(spec: ReleaseSpec) -> SourceDays | None:
    """Return the days that a spec takes of its source; None for all there are."""
    if spec.source.by is None or spec.block is None:
        return None
    return SourceDays(spec.source.by, time_block(spec.block))


def of_days(select: str, days: SourceDays) -> str:
    """Return a select over `source` that keeps the rows of some days, in their order."""
    return f"SELECT * FROM ({select}) WHERE {days.condition}"


def check_type(
    connection: duckdb.DuckDBPyConnection, reading: Reading, query: str, days: SourceDays, explain: Explanation
) -> None:
    """Break the gate of a column that tells no days, or instants without a declared zone whose days they are of.

    Raises:
        GateBroken: the column has another type.
    """
    described = attempt(lambda: connection.execute(f"DESCRIBE {query}").fetchall(), explain)
    kinds = [str(row[1]) for row in described if str(row[0]).lower() == days.by.lower()]
    instant = days.zone is not None and kinds == ["TIMESTAMP WITH TIME ZONE"]
    if kinds and kinds[0].partition("(")[0] not in _TYPES and not instant:
        allowed = (
            "dates, timestamps without a time zone, or texts; of moments in a time zone `time_zone` says the day"
        )
        remedy = "declare `time_zone:` in the column's domain, or write the column as a date where the table is made"
        break_gate(reading.where, f"column {days.by!r}", f"the type {kinds[0]}", allowed, remedy)
