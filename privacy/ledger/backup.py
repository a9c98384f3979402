"""The whole ledger in one file, and back: the rows of its tables as they are, whichever database they come from.

The copy is one committed state. What is restored is checked as `budget history --verify` does before it is committed,
and only into a database that holds no ledger yet: a ledger is never overwritten, and two never mix.

A ledger that is restored from a copy has forgotten what was charged since. So the copy of the ledger is made after
that of the files that it may not forget, and a copy that a published version has seen more of is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from sqlalchemy import Connection, Table, insert

from privacy.ledger.entries import LedgerCorrupt, LedgerRefusal, refusal
from privacy.ledger.replay.fold import SignedCheckpoint, check_ledger
from privacy.ledger.store.database import Store
from privacy.ledger.store.schema import VERSION, head, metadata

FORM: Final = "sudare-ledger-copy/1"
_AT_ONCE: Final = 500


def dump(url: str, file: Path) -> int:
    """Write a ledger into a new file (mode 0600), a row a line, and return the number of its journal entries.

    Args:
        url: SQLAlchemy URL of the ledger.
        file: must not exist.
    Raises:
        LedgerUnavailable: there is no ledger, or it does not answer.
        LedgerRefusal: the file exists.
    """
    store = Store(url, create=False)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise refusal(str(file), "copy", "a file already", "a new file: copies are not replaced") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out, store.reading() as connection:
            rows = _write(connection, out)
            out.flush()
            os.fsync(out.fileno())
        return rows["journal"]
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    finally:
        store.close()


def restore(file: Path, url: str, *, public_key: str | None, published: Iterable[SignedCheckpoint] = ()) -> int:
    """Fill an empty database with a copy, and return the number of journal entries.

    Args:
        file: what `dump` wrote.
        url: SQLAlchemy URL of a database without entries.
        public_key: key that the ledger's checkpoints must be signed with; None to leave signatures out.
        published: what published versions have seen of the ledger.
    Raises:
        LedgerRefusal: the database holds a ledger; the file is no whole copy of this schema, or older than a version.
        LedgerCorrupt: what the file holds is not a ledger that holds; nothing was written.
    """
    seen = tuple(published)
    store = Store(url)
    try:
        with store.writing() as transaction:
            if transaction.size:
                found = f"a ledger with {transaction.size} entries"
                raise refusal("the database", "ledger", found, "an empty one: a ledger is never overwritten")
            connection = transaction.connection
            connection.execute(head.delete())
            _read(connection, file)
            findings = check_ledger(connection, seen, public_key=public_key)
            unknown = {finding.where for finding in findings} & {checkpoint.where for checkpoint in seen}
            if unknown:
                raise _too_old(file, sorted(unknown))
            if findings:
                raise LedgerCorrupt(f"{file} is no ledger that holds; nothing was restored. First: {findings[0]}")
            return len(connection.execute(metadata.tables["journal"].select()).all())
    finally:
        store.close()


def _write(connection: Connection, out: IO[str]) -> dict[str, int]:
    """Write all rows, table by table in the order of their references, and a last line that counts them."""
    counts = {}
    _line(out, {"form": FORM, "schema": VERSION})
    for table in metadata.sorted_tables:
        counts[table.name] = 0
        for row in connection.execute(table.select().order_by(*table.primary_key.columns)):
            _line(out, {"table": table.name, "row": dict(row._mapping)})
            counts[table.name] += 1
    _line(out, {"counts": counts})
    return counts


def _read(connection: Connection, file: Path) -> None:
    """Insert all rows; a file that ends before its last line is refused."""
    try:
        lines = file.open(encoding="utf-8")
    except OSError as error:
        raise refusal(str(file), "copy", error.strerror or type(error).__name__, "a copy of a ledger") from error
    with lines:
        counts: dict[str, int] = {table.name: 0 for table in metadata.sorted_tables}
        told: dict[str, Any] = {}
        for table, rows in _batches(lines, told, file):
            connection.execute(insert(table), rows)
            counts[table.name] += len(rows)
    if told.get("counts") != counts:
        raise _no_copy(file)


def _batches(lines: IO[str], told: dict[str, Any], file: Path) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """Yield rows of one table at a time, some hundreds at once; what stands at the end goes into `told`."""
    table, rows = "", list[dict[str, Any]]()
    try:
        first = json.loads(lines.readline() or "{}")
        if first != {"form": FORM, "schema": VERSION}:
            raise _no_copy(file, str(first.get("schema")))
        for line in lines:
            value = json.loads(line)
            if rows and (value.get("table") != table or len(rows) == _AT_ONCE):
                yield metadata.tables[table], rows
                rows = []
            if "counts" in value:
                told.update(value)
                return
            table = value["table"]
            rows.append(value["row"])
    except (ValueError, KeyError, AttributeError):
        raise _no_copy(file) from None


def _too_old(file: Path, unknown: list[str]) -> LedgerRefusal:
    found = f"a copy that does not know of {len(unknown)} published version(s), such as that of {unknown[0]}"
    allowed = "a copy that knows of every version of the store: an older ledger would let its charge be spent again"
    remedy = "restore a newer copy; without one charge these people no more, and keep the store as it is"
    return refusal(str(file), "copy", found, allowed, remedy)


def _no_copy(file: Path, schema: str | None = None) -> Exception:
    found = f"a copy of schema {schema}" if schema not in (None, "None", VERSION) else "no whole copy of a ledger"
    remedy = "copies are restored by the version of Sudare that made them"
    return refusal(
        str(file), "copy", found, f"a whole file that `sudare budget backup` wrote, of schema {VERSION}", remedy
    )


def _line(out: IO[str], value: dict[str, Any]) -> None:
    out.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
