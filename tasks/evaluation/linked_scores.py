"""Scores of two linked tables: the child's rows with their parents' columns, the parent's rows, and siblings.

For the auditor alone, as `tasks.evaluate` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, Refused, SpecRefused
from contracts.release.linked_rows import TablePair, table_pair
from contracts.sql.encoding import encode_select
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import LinkedCodes, PrivateScores, linked_errors
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import PARENTS
from tasks.storage.duckdb_session import attempt, connect, one_file, trouble
from tasks.storage.workspace.run_folder import SPILL

if TYPE_CHECKING:
    import duckdb


# --- Rows as codes of the contract's columns, from a snapshot or from a Parquet file of made-up rows.


def refuse_pictures(contract: Contract, names: Sequence[str], where: str, remedy: str) -> None:
    """Refuse columns of pictures: they have no cells to compare.

    Raises:
        SpecRefused: there is one.
    """
    pictures = contract.pictures(names)
    if pictures:
        found, allowed = f"{pictures[0]!r}, a column of pictures", "columns of single values"
        raise SpecRefused([Finding(where, "columns", found, allowed, remedy)])


def encoded_rows(
    synthetic: Path, contract: Contract, names: tuple[str, ...], spill: Path, memory_limit: str
) -> EncodedRows:
    """Encode made-up rows as the real ones were."""
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        source = f"read_parquet({one_file(synthetic)})"
        described = attempt(
            lambda: connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall(),
            lambda error: trouble(error, synthetic, "reading it"),
        )
        present = [str(name) for name, *_ in described]
        encoded = encode_select(contract, columns_present=present, relation=source, names=names)
        return fetched_rows(connection, encoded, contract, names, synthetic)


def fetched_rows(
    connection: duckdb.DuckDBPyConnection, query: str, contract: Contract, names: tuple[str, ...], where: Path
) -> EncodedRows:
    """Fetch codes; refuse an empty table."""
    found = attempt(lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, where, "reading it"))
    codes = np.stack([np.asarray(found[name]) for name in names], axis=1)
    if not len(codes):
        raise Refused([Finding(str(where), "rows", "none", "at least one row to compare")])
    return EncodedRows(names, contract.shape(names), codes)


_JOINED: Final = "joined.parquet"
_OWNER: Final = identifier("\x05owner")


@dataclass(frozen=True)
class JoinedRows:
    """Made-up children with their parents' columns.

    Args:
        rows: a Parquet file of them.
        owners: the key of each child's parent, in the order of the file.
    """

    rows: Path
    owners: NDArray[np.int64]


@contextmanager
def joined_rows(
    children: Path, parents: Path, contract: Contract, columns: Sequence[str], *, folder: Path, memory_limit: str
) -> Iterator[JoinedRows]:
    """Join both published tables inside the block; nothing of it is kept.

    Args:
        children, parents: Parquet files with the made-up rows, as a version holds them.
        contract: over the child.
        columns: what the rows consist of, columns of both tables.
        folder: takes the file.
        memory_limit: DuckDB's limit [text].
    """
    joined = folder / _JOINED
    try:
        pair = table_pair(columns, contract)
        yield JoinedRows(joined, _join(children, parents, pair, joined, folder / SPILL, memory_limit))
    finally:
        joined.unlink(missing_ok=True)


def with_linked_errors(
    scores: PrivateScores,
    table: PrivateTable,
    made: JoinedRows,
    parents: Path,
    contract: Contract,
    columns: Sequence[str],
    *,
    memory_limit: str,
) -> PrivateScores:
    """Add to the scores of the children's rows those of the parents, of pairs across and of siblings.

    Args:
        scores: of the joined rows.
        table: the snapshot over the child, with the parents beside it.
        made: the joined rows.
        parents: Parquet file with the made-up parents.
        contract: over the child.
        columns: as of `joined_rows`.
        memory_limit: DuckDB's limit [text].
    Raises:
        Refused: one of the tables has no rows.
    Privacy: as for `tasks.evaluate`.
    """
    pair, names, spill = table_pair(columns, contract), tuple(columns), table.path.parent / SPILL
    above = contract.over(pair.parent)
    found = encoded_rows(made.rows, contract, names, spill, memory_limit)
    found_above = encoded_rows(parents, above, pair.parent_columns, spill, memory_limit)
    chosen, upper = (", ".join(map(identifier, each)) for each in (names, pair.parent_columns))
    with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
        real = fetched_rows(connection, f"SELECT {chosen} FROM codes", contract, names, table.path)
        query = f"SELECT {upper} FROM {PARENTS}.codes"
        real_above = fetched_rows(connection, query, above, pair.parent_columns, table.path)
        # Which children belong together is known where a unit is one parent.
        together = above.unit.max_rows_per_unit == 1
        units = connection.execute("SELECT unit FROM units").fetchnumpy()["unit"] if together else None
    own = None if units is None else np.unique(np.asarray(units, dtype=str), return_inverse=True)[1].astype(np.int64)
    ours, theirs = LinkedCodes(real_above, real, own), LinkedCodes(found_above, found, made.owners)
    return PrivateScores(replace(scores.scores, linked=linked_errors(ours, theirs, size=pair.size)))


def _join(
    children: Path, parents: Path, pair: TablePair, joined: Path, spill: Path, memory_limit: str
) -> NDArray[np.int64]:
    """Write the children with their parents' columns; return the key of each child's parent, in the same order."""
    child, parent = identifier(pair.child_key), identifier(pair.parent_key)
    rows = f"read_parquet({one_file(children)}, file_row_number=true)"
    query = (
        f"SELECT c.{child} AS {_OWNER}, c.* EXCLUDE ({child}), p.* EXCLUDE ({parent}) FROM {rows} AS c "
        f"JOIN read_parquet({one_file(parents)}) AS p ON c.{child} = p.{parent}"
    )
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        made, order = f"CREATE TABLE joined AS {query}", "FROM joined ORDER BY file_row_number"
        attempt(lambda: connection.execute(made), lambda error: trouble(error, children, "joining it"))
        copy = (
            f"COPY (SELECT * EXCLUDE ({_OWNER}, file_row_number) {order}) TO {literal(str(joined))} (FORMAT parquet)"
        )
        attempt(lambda: connection.execute(copy), lambda error: trouble(error, joined, "writing it"))
        joined.chmod(0o600)
        keys = connection.execute(f"SELECT {_OWNER} {order}").fetchnumpy()["\x05owner"]
    return np.asarray(keys, dtype=np.int64)
