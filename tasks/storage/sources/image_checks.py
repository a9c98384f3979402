"""Columns of pictures as they were delivered: lists of numbers, of the declared length where their type fixes one.

The type of a column is a fact about the table's form and may be told. How long the list of a single row is, is not:
a row that does not fit is read by the column's null policy (law 3), and the check `type:COLUMN` tells the auditor.
Writers store a column as numbers where nobody has a picture: then no row fits, and nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.contract import Contract
from contracts.domains.value_sql import NUMBERS
from contracts.errors import Finding, GateBroken

_LIST: Final = re.compile(r"([A-Z]+(?:\(\d+,\d+\))?)\[(\d*)\]")
_NUMBERS: Final = frozenset(
    {
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "VARCHAR"),
    }
)
"""Texts too: a text that is no number is read as a missing level."""


def check_pictures(
    delivered: Mapping[str, str], contract: Contract, *, where: str, parquet: Path | None = None
) -> None:
    """Refuse a column of pictures that is delivered as something else than lists of numbers.

    Args:
        delivered: the columns as they are delivered, and their types.
        contract: the contract.
        where: the source, for messages.
        parquet: the source itself, where it is a Parquet file that is read whole: its lists may be of fixed size.
    Raises:
        GateBroken: with one finding a column.
    """
    pictures = contract.pictures()
    if not pictures:
        return
    fixed = {} if parquet is None else _fixed_sizes(parquet)
    findings = []
    for name in pictures:
        places = contract.column(name).length
        kind = delivered[name]
        if kind.partition("(")[0] in (*NUMBERS, "BOOLEAN"):
            continue
        size = fixed.get(name) or _length(kind)
        if size is None:
            found, remedy = (
                f"values of type {kind}",
                "deliver the levels as one list a row, row by row of the picture",
            )
        elif size not in (0, places):
            found, remedy = f"lists of {size} numbers", "correct height and width in the contract, or the table"
        else:
            continue
        findings.append(Finding(where, f"column {name!r}", found, f"lists of {places} numbers", remedy))
    if findings:
        raise GateBroken(findings)


def _length(kind: str) -> int | None:
    """Return the length that a type fixes, 0 where it fixes none; None where it holds no list of numbers."""
    if kind == "VARCHAR":
        return 0
    found = _LIST.fullmatch(kind)
    if found is None or found[1].partition("(")[0] not in _NUMBERS:
        return None
    return int(found[2] or 0)


def _fixed_sizes(path: Path) -> dict[str, int]:
    """Return the sizes of the lists of fixed size in a Parquet file, by column."""
    schema = pq.read_schema(path)
    return {field.name: field.type.list_size for field in schema if pa.types.is_fixed_size_list(field.type)}
