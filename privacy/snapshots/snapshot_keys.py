"""Keys of a snapshot that nobody declared: a handle on how many units have each, and codes of those selected.

The texts stand in the snapshot beside the codes (`contracts.domains.text`), in the run's private folder and nowhere
else. After a selection the rows are coded anew, in a file beside the snapshot that goes with it. Each selected key
has a code, all other texts have one together, missing values have the last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.text import NO_KEY, OTHERS, KeyColumn, TextDomain, UnitOrder
from contracts.domains.value_sql import enumeration, identifier, literal
from privacy.marginals.key_units import KeyLabels, PrivateKeyRows, PrivateKeys
from privacy.private_table import PrivateTable
from privacy.snapshots.shared_scan import SPILL, settings
from privacy.snapshots.snapshot_reader import SnapshotReader

_RECODED = "selected.duckdb"


class SnapshotKeys(SnapshotReader):
    """Reads keys of an encoded snapshot.

    Args:
        table: the snapshot, encoded with the keys of these columns.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract; or, when a handle is asked for, it lies in an
            engine.
    """

    _reads = "keys"
    _engine_refuses = "selects no keys"

    def keys(self, column: str, at_most_groups: int | None = None) -> PrivateKeys:
        """Return the handle on the keys of a column of texts.

        One unit has at most as many keys as rows, and these are bounded in the snapshot. Where fewer are asked for,
        the first ones of each unit are read, by its own keyed order of rows.

        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        groups = self._contract.unit.max_rows_per_unit if at_most_groups is None else at_most_groups
        return PrivateKeys((column,), groups, *self._mark, self._units)

    def _units(self, clique: Clique, groups: int) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64]]:
        """Return each key with the number of distinct units that have it; a unit of several rows counts once."""
        import duckdb  # here, so that looking at a budget does not load it

        [column] = clique
        key, unit = identifier(KeyColumn(column).name), self._contract.unit.column
        count = "count(*)"
        if groups < self._contract.unit.max_rows_per_unit:
            rows, count = f"({first_keys(column, str(unit), groups)})", "count(DISTINCT unit)"
        elif unit is not None:
            # `units` has the ids of the rows of `codes`, in their order.
            of_rows = f"codes.{key} AS text, units.unit AS unit"
            rows, count = f"(SELECT {of_rows} FROM codes POSITIONAL JOIN units)", "count(DISTINCT unit)"
        else:
            rows = f"(SELECT {key} AS text FROM codes)"
        query = f"SELECT text, {count}::BIGINT FROM {rows} WHERE text <> {literal(NO_KEY)} GROUP BY 1 ORDER BY 1"
        path, config = self._table.path, settings(self._table.path, self._threads)
        with duckdb.connect(str(path), read_only=True, config=config) as connection:
            found = connection.execute(query).fetchall()
        units = np.array([number for _, number in found], dtype=np.int64)
        return tuple((text,) for text, _ in found), units

    def key_rows(self, column: str) -> PrivateKeyRows:
        """Return the handle on the keys of a column of texts with the rows of each, and of those without one.

        Privacy: as `keys`.
        """
        return PrivateKeyRows((column,), *self._mark, self._rows)

    def _rows(self, clique: Clique) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64], int, int]:
        """Return each key with its rows; then the rows of other texts, and those of none."""
        import duckdb  # as above

        [column] = clique
        key, code = identifier(KeyColumn(column).name), identifier(column)
        query = f"SELECT {key}, {code} = 1, count(*)::BIGINT FROM codes GROUP BY ALL ORDER BY ALL"
        config = settings(self._table.path, self._threads)
        with duckdb.connect(str(self._table.path), read_only=True, config=config) as connection:
            found = connection.execute(query).fetchall()
        keys = [(text, number) for text, _, number in found if text != NO_KEY]
        unfit, missing = (
            sum(n for text, none, n in found if text == NO_KEY and none is own) for own in (False, True)
        )
        rows = np.array([number for _, number in keys], dtype=np.int64)
        return tuple((text,) for text, _ in keys), rows, unfit, missing

    def recoded(
        self,
        keys: Mapping[str, Sequence[str]],
        told_apart: Collection[str] = (),
        at_most_groups: Mapping[str, int] | None = None,
    ) -> tuple[PrivateTable, Contract]:
        """Return the snapshot coded by selected keys, and the contract with their cells.

        Args:
            keys: the selected keys of each column of texts; no longer private.
            told_apart: columns whose different texts are counted: theirs stay beside the codes.
            at_most_groups: keys that one unit has at most, by column; rows of further ones are with all other texts.
        Privacy: the file is as private as the snapshot, stands beside it, and goes with it.
        """
        import duckdb  # as above

        if not keys:
            return self._table, self._contract
        path = self._table.path.parent / SPILL / _RECODED
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        contract = self._contract.with_keys(keys)
        codes = ", ".join(_code(contract, name, selected) for name, selected in keys.items())
        dropped = ", ".join(identifier(KeyColumn(name).name) for name in keys if name not in told_apart)
        without = f"EXCLUDE ({dropped}) " if dropped else ""
        with duckdb.connect(str(path), config=settings(self._table.path, self._threads)) as connection:
            path.chmod(0o600)
            connection.execute(f"ATTACH {literal(str(self._table.path))} AS snapshot (READ_ONLY)")
            connection.execute(f"CREATE TABLE codes AS SELECT * {without}REPLACE ({codes}) FROM snapshot.codes")
            bounds = dict(at_most_groups or {})
            for name, groups in bounds.items():
                self._drop_further_keys(connection, contract, name, groups)
        return replace(self._table, path=path, bounded_groups=bounds), contract

    def _drop_further_keys(self, connection: Any, contract: Contract, name: str, groups: int) -> None:
        """Count rows of a unit's further keys with all other texts; the rows of both tables have one order."""
        kept = first_keys(name, str(self._contract.unit.column), groups, relation="snapshot.codes")
        column, others = identifier(name), contract.column(name).domain.labels.index(OTHERS)
        further = f"{column} < {others} AND rowid NOT IN (SELECT number FROM ({kept}))"
        connection.execute(f"UPDATE codes SET {column} = {others} WHERE {further}")


def first_keys(column: str, unit: str, groups: int, *, relation: str = "codes") -> str:
    """Write SQL for the rows of the first keys of each unit: text, unit, and number of the row.

    A unit's keys are in the order of their first rows, and its rows in an order that is keyed and its own
    (`contracts.domains.text.UnitOrder`): no value decides, and no other unit.
    """
    names = {"text": KeyColumn(column).name, "unit": KeyColumn(unit).name, "place": UnitOrder(unit).name}
    columns = ", ".join(f"{identifier(stored)} AS {name}" for name, stored in names.items())
    rows = f"SELECT rowid AS number, {columns} FROM {relation} WHERE {identifier(names['text'])} <> {literal(NO_KEY)}"
    begun = f"SELECT *, min(place) OVER (PARTITION BY unit, text) AS begins FROM ({rows})"
    ranked = f"SELECT *, dense_rank() OVER (PARTITION BY unit ORDER BY begins) AS nth FROM ({begun})"
    return f"SELECT text, unit, number FROM ({ranked}) WHERE nth <= {groups}"


def _code(contract: Contract, name: str, selected: Sequence[str]) -> str:
    """Return SQL for the code of a row's text among the selected keys."""
    domain = contract.column(name).domain
    if not isinstance(domain, TextDomain):
        raise ValueError(f"column {name} is none of texts")
    kind, column, key = domain.code_type, identifier(name), identifier(KeyColumn(name).name)
    place = f"enum_code(TRY_CAST({key} AS {enumeration(selected)}))" if selected else "NULL"
    null, others = domain.null_code, domain.null_code - 1
    return f"CASE WHEN {column} = 1 THEN {null} ELSE COALESCE({place}, {others}) END::{kind} AS {column}"
