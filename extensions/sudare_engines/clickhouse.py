"""A ClickHouse worker: ClickHouse's engine in a process beside ours, over Parquet where it lies."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import ClassVar, Final

from contracts.contract.contract import Contract
from contracts.domains.dates import DateDomain
from contracts.domains.statements import ValueKind
from contracts.errors import Finding
from contracts.reading.scalars import read_day
from sudare_engines import clickhouse_worker
from sudare_engines.engine import EngineProcess, scratch_of
from sudare_engines.portable_sql import Dialect

LOG: Final = "clickhouse.private.log"
_WRAPPED: Final = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
_KINDS: Final[tuple[tuple[re.Pattern[str], ValueKind], ...]] = (
    (re.compile(r"String"), "text"),
    (re.compile(r"U?Int(8|16|32|64)"), "whole"),
    (re.compile(r"Float(32|64)"), "real"),
    (re.compile(r"Decimal\(\d+, ?\d+\)"), "fixed"),
    (re.compile(r"Bool"), "flag"),
    (re.compile(r"Date32"), "day"),
    (re.compile(r"Nothing"), "nothing"),
)
"""Moments are not among them: those before 1900 become others."""
_FIRST, _LAST = date(1900, 1, 1), date(2299, 12, 31)
"""Days that ClickHouse can be told; it compares stored days with them wherever they lie."""


class ClickHouseWorker(EngineProcess):
    """One session of ClickHouse in a process of its own, for as long as a run lasts.

    Args:
        folder: the run's private folder.
        lock: as for `EngineProcess`.
    Raises:
        EngineFailed: no session could be started.
    """

    name: ClassVar[str] = "ClickHouse"
    dialect: ClassVar[Dialect] = "clickhouse"
    log_name: ClassVar[str] = LOG
    remedy: ClassVar[str] = "Look which version of chdb is installed, and run again"

    def __init__(self, folder: Path, *, lock: int | None = None) -> None:
        super().__init__([sys.executable, "-I", clickhouse_worker.__file__], folder, environment={}, lock=lock)
        try:
            self.ask("start", folder=str(scratch_of(folder)))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of ClickHouse's types, or None."""
        while wrapped := _WRAPPED.fullmatch(written):
            written = wrapped[1]
        return next((kind for form, kind in _KINDS if form.fullmatch(written)), None)

    @staticmethod
    def refusals(contract: Contract, kinds: Mapping[str, ValueKind], *, where: str) -> list[Finding]:
        """Refuse days that ClickHouse would take for others: as texts or digits, and in contracts far from today."""
        found, remedy = [], "count in DuckDB or Spark: `engine: spark`, or leave `engine:` out"
        for column in contract.columns:
            domain, at = column.domain, f"column {column.name!r}"
            if not isinstance(domain, DateDomain):
                continue
            kind, notation = kinds[column.name], domain.notation
            # Where no digits are declared, a number is no day to any engine: a column is so stored if nobody has one.
            if kind == "text" or (kind in ("whole", "real", "fixed") and notation is not None and notation.compact):
                found.append(Finding(where, at, "days that are no dates", "a column of dates for ClickHouse", remedy))
            read = read_day if notation is None else notation.read
            days = [*domain.bounds, *(day for text in domain.missing if (day := read(text)) is not None)]
            if not all(_FIRST <= day <= _LAST for day in days):
                allowed = f"days from {_FIRST} to {_LAST} for ClickHouse"
                found.append(Finding(f"contract {contract.id}", at, f"{min(days)} to {max(days)}", allowed, remedy))
        return found

    @staticmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the keyed sums in ClickHouse's SQL."""
        row = ", ',', ".join(f"toString({name})" for name in columns)
        digest = f"SHA256(concat(hash_outer, lower(hex(SHA256(concat(hash_inner, {row}))))))"
        parts = (f"reverse(substring(h, {1 + 4 * part}, 4))" for part in range(8))
        sums = ", ".join(f"toInt64(sum(reinterpretAsUInt32({part})))" for part in parts)
        return f"SELECT toInt64(count()), {sums} FROM (SELECT {digest} AS h FROM {relation})"
