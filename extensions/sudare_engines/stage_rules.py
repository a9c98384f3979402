"""What holds of a stage in any engine: which types are read, that each row has its unit, its keyed hash, its keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from contracts.canonical import canonical_json
from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.drafting.advice.suspicions import names_an_id
from contracts.errors import SpecRefused
from sudare_engines.engine import UNCHARGED, Engine
from sudare_engines.portable_sql import sql_of
from sudare_engines.staged_table import whole_numbers
from sudare_engines.staging import (
    KEY_COLUMNS,
    KEYS,
    STAGE,
    BesideCodes,
    nobodys_rows,
    portable_findings,
    repeats_of,
    stage_of,
)
from tasks.storage.snapshot.snapshot import choice_keys, order_keys, refuse_nobody, subkey
from tasks.storage.source_engine import EngineFailed
from tasks.storage.sources.typed_rows import break_gate


def kinds_of(worker: Engine, columns: dict[str, str], contract: Contract, where: str) -> dict[str, ValueKind]:
    """Read the engine's types, and refuse those that engines read differently."""
    found = {name: worker.kind_of(columns.get(name, "")) for name in contract.source_columns}
    findings = portable_findings(contract, found, where=where)
    if findings:
        raise SpecRefused(findings)
    return {name: kind for name, kind in found.items() if kind is not None}


def hash_of(worker: Engine, contract: Contract, beside: Sequence[BesideCodes], key: bytes) -> tuple[int, str]:
    """Count and hash the stage: keyed sums over its rows, which do not depend on their order.

    Each row's SHA-256 under two keys, as for contribution bounding, is cut into 8 numbers of 32 bits, and these are
    added up over all rows, in whatever order: what tells one table from another is 256 bits that nobody can foresee.
    """
    sql = worker.hash_sql(stage_of(contract, beside).columns, f"{STAGE} CROSS JOIN {KEYS}")
    answered = worker.query(sql)
    nothing = bool(answered) and answered[0][0] == 0
    rows, *parts = [0] * 9 if nothing else whole_numbers(worker, answered, 9)[0].tolist()
    content: dict[str, Any] = {"contract": contract.digest, "rows": rows, "sums": parts}
    return int(rows), hmac.new(subkey(key, "stage: table"), canonical_json(content), hashlib.sha256).hexdigest()


def key_row(key: bytes) -> dict[str, str]:
    """Return the one row of the table of keys (`KEY_COLUMNS`), made of the workspace's snapshot key."""
    hashed = subkey(key, "stage: outer").hex(), subkey(key, "stage: inner").hex()
    return dict(zip(KEY_COLUMNS, (*choice_keys(key), *order_keys(key), *hashed), strict=True))


def refuse_nobodys(worker: Engine, contract: Contract, kinds: Mapping[str, ValueKind], where: str) -> None:
    """Break the gate of every contract with ids: some row has none."""
    unit = contract.unit.column
    if unit is not None and worker.query(sql_of(nobodys_rows(contract, kinds), worker.dialect))[0][0]:
        refuse_nobody(where, unit)


def repeated_ids(
    worker: Engine, columns: Mapping[str, str], contract: Contract
) -> list[tuple[str, int, int, int, int]]:
    """Count what could be ids of people where each row is a unit; what it returns is as `snapshot.intake.SEEN`.

    Args:
        worker: the engine, with the source open.
        columns: the types of the source's columns by their names, also of those left out that the engine sees.
        contract: the contract.
    """
    if contract.unit.column is not None:
        return []
    found = []
    for name, written in columns.items():
        kind = worker.kind_of(written)
        if kind in ("text", "whole", "fixed", "real", "flag") and (names_an_id(name) or name in contract.left_out):
            with suppress(EngineFailed):  # a column that is read to be counted only must not stop a run
                answered = worker.query(sql_of(repeats_of(name, kind), worker.dialect))
                number, different, once, most = whole_numbers(worker, answered, 4)[0].tolist()
                found.append((name, number, different, once, most))
    return found


def refuse_lost_rows(worker: Engine, contract: Contract, *, read: int, written: int, found: int, remedy: str) -> None:
    """Stop where rows of the source were not seen, or rows of the stage did not arrive.

    Args:
        worker: the engine.
        contract: where it has units, bounding leaves rows out.
        read: rows that the source has.
        written: rows of the stage, as the engine said when it wrote them.
        found: rows of the stage, as they are counted.
        remedy: what to do.
    """
    bounded = contract.unit.column is not None
    if found != written or (found > read if bounded else found != read):
        raise EngineFailed(
            f"{worker.name}, stage: rows that were read, written and found again differ in number; {UNCHARGED}. "
            f"{remedy}"
        )


def refuse_no_rows(rows: int, where: str) -> None:
    """Break the gate that there is a row."""
    if not rows:
        break_gate(where, "rows", "no rows", "at least one row", "deliver the table again")
