"""A column that is stored as a kind of which the contract reads no value: the whole table drifted, not one row.

Days instead of names, records or lists instead of texts: each row would be missing, and the charge spent on nothing.
Only the types that the source declares are looked at, never a value. Numbers and flags of any width are let pass, and
a column without any value too: which of these types a writer picks can depend on one person's missing value, and the
refusal would tell of it. Ids and keys are the exception: of floating-point numbers their digits are not exact, and a
writer that makes them of whole ones, for the sake of one row, would make one id of several.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import duckdb
import pyarrow as pa

from contracts.contract.contract import Column, Contract
from contracts.domains.statements import DAY, NESTED, TIME
from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, GateBroken
from contracts.release.source import Source
from contracts.sql.encoding import encode_select
from tasks.storage.sources.typed_rows import MANY

_WORDS: Final = {DAY: "dates", TIME: "timestamps", NESTED: "lists or records"}
FLOATS: Final = ("DOUBLE", "FLOAT")
LONG: Final = "LONG DECIMAL"
_OF_SQL: Final = {
    "DATE": DAY,
    "TIMESTAMP": TIME,
    "TIMESTAMP_S": TIME,
    "TIMESTAMP_MS": TIME,
    "TIMESTAMP_NS": TIME,
    "TIMESTAMP WITHOUT TIME ZONE": TIME,
    "TIMESTAMP WITH TIME ZONE": TIME,
}
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION)\(.*|.*\[[0-9]*\]|VARIANT", re.DOTALL | re.IGNORECASE)


def stored_as(columns: Mapping[str, str]) -> dict[str, str]:
    """Return what columns surely hold, by their types as SQL writes them; without those that could hold anything."""
    found = {name: NESTED if _NESTED.fullmatch(kind) else _OF_SQL.get(kind.upper()) for name, kind in columns.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def stored_in_arrow(schema: pa.Schema) -> dict[str, str]:
    """Return the same of a schema of Arrow, as a Parquet file has it."""
    found = {DAY: pa.types.is_date, TIME: pa.types.is_timestamp, NESTED: pa.types.is_nested}
    long = {each.name: LONG for each in schema if pa.types.is_decimal256(each.type) and each.type.precision > 38}
    return long | {field.name: kind for field in schema for kind, holds in found.items() if holds(field.type)}


def check_decimals(where: str, stored: Mapping[str, str], source: Source, contract: Contract) -> None:
    """Break the gate of decimals that DuckDB reads as doubles, or as other numbers, in columns that are read."""
    used = {*source.exact_columns(contract, contract.source_columns), *source.select_types(contract)[0]}
    found, allowed = "decimals of more than 38 digits, which cannot be read", "at most 38 digits"
    remedy = "store the column as whole numbers, as decimals of fewer digits, or as texts"
    long = [name for name, kind in stored.items() if kind == LONG and name.lower() in used]
    if long:
        raise GateBroken([Finding(where, f"column {name!r}", found, allowed, remedy) for name in long[:MANY]])


def check_types(where: str, stored: Mapping[str, str], contract: Contract) -> None:
    """Refuse columns of which no value that the contract declares can be read.

    Args:
        where: the source, for messages.
        stored: what columns surely hold, by name.
        contract: declares their values.
    Raises:
        GateBroken: with one finding a column.
    """
    findings = []
    for column in contract.columns:
        kind = stored.get(column.name)
        if kind is None or _fits(column, kind, contract):
            continue
        allowed = f"a type in which values of its domain can be written ({column.logical_type})"
        remedy = "deliver the column as before, map it with `select:`, or change the contract"
        field, found = f"column {column.name!r}", f"{_WORDS[kind]}, none of which is a value of its domain"
        findings.append(Finding(where, field, found, allowed, remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def check_exact(
    where: str, floats: Collection[str], source: Source, contract: Contract, keys: Collection[str]
) -> None:
    """Refuse floating-point numbers as ids or keys, unless the contract says that none is too large to be exact.

    Args:
        where: the source, for messages.
        floats: its columns with values that are stored so.
        source: says what a select makes of them.
        contract: declares the unit.
        keys: columns of texts whose different values count.
    Raises:
        GateBroken: with one finding a column.
    """
    makes = source.exact_columns(contract, contract.exact(tuple(keys)))
    found = [(name, makes[name.lower()]) for name in floats if name.lower() in makes]
    unit = contract.unit.column
    blocks = {made: "the unit" if made == unit else f"the domain of {made}" for _, made in found}
    refuse_floats(where, [(name, blocks[made]) for name, made in found])


def refuse_floats(where: str, found: Collection[tuple[str, str]]) -> None:
    """Raise what `check_exact` raises, for columns and the blocks that can declare how large their numbers are."""
    findings = []
    for name, block in sorted(found):
        allowed = "whole numbers, decimals or texts, whose digits are exact: large ids would be one, and lose rows"
        remedy = (
            f"store the column as whole numbers (of pandas: Int64) or texts; or, if no id is above 10^15, declare "
            f"the largest: numbers_up_to: N in {block} (larger ones count as missing)"
        )
        findings.append(Finding(where, f"column {name!r}", "ids or keys as floating-point numbers", allowed, remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def _fits(column: Column, kind: str, contract: Contract) -> bool:
    """Say whether some declared value means the same when it is written in a type."""
    texts = column.domain.category_texts
    if kind in column.domain.stored_kinds or kind == NESTED or not texts:
        return kind in column.domain.stored_kinds
    name = identifier(column.name)
    given = f"(VALUES {', '.join(f'({literal(text)})' for text in texts)}) AS t(x)"
    written = f"(SELECT TRY_CAST(x AS {kind}) AS {name}, x FROM {given})"
    with duckdb.connect() as connection:
        told, read = (
            connection.execute(
                encode_select(contract, columns_present=[column.name], relation=relation, names=[column.name])
            ).fetchall()
            for relation in (f"(SELECT x AS {name} FROM {given})", written)
        )
        there = connection.execute(f"SELECT {name} IS NOT NULL FROM {written}").fetchall()
    return any(is_there and one == other for one, other, (is_there,) in zip(told, read, there, strict=True))
