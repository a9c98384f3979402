"""Sums of a snapshot: handles on sums of columns by cell, and on counts of values, read when a grant opens them.

All sums over the same cells are added up in one scan, when the first of them is opened; each tree, each column whose
moments are wanted, each sum on a part of its lattice, each one within quotas of units, and each distinct count
takes its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import (
    Addends,
    DistinctCount,
    LoneSum,
    NarrowedLattice,
    ValueMagnitudes,
    ValueMoments,
    WeightedCount,
    distinct_count,
    encoded_beside,
)
from contracts.domains.lattice import MISSING, ValueLattice
from contracts.domains.text import NO_KEY, OTHERS, KeyColumn, TextDomain, UnitOrder
from contracts.domains.trees import BinTree, QuantileChoices, ValueTree
from contracts.domains.value_sql import enumeration, identifier, literal
from contracts.release.survey_weight import most_cells
from contracts.release.tables.tables import MOST_CODES
from privacy.arrays import Unsigned
from privacy.learning.layout import PrivateRows, RowLayout, row_layout
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.cell_values import PrivateCellValues
from privacy.marginals.counts import Coarsening, ParentRows, PrivateCounts, SparseCounts
from privacy.marginals.key_units import KeyLabels, PrivateKeyRows, PrivateKeys
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import (
    count_between_cuts,
    count_distinct,
    count_leaves,
    count_magnitudes,
    count_offsets,
    narrowed,
    quota_unit,
    sum_moments,
    sum_offsets,
    sum_within_quota,
)
from privacy.snapshots.shared_scan import SPILL, Shapes, count_marginals, count_populated, settings, spread_out

# --- What all readers of an encoded snapshot share.


_THREADS: Final = 2
"""Threads that DuckDB may use."""


class SnapshotReader:
    """Reads an encoded snapshot, for handles that a grant alone opens.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads: ClassVar[str]
    """What is read: it stays in this process."""
    _engine_refuses: ClassVar[str | None] = None
    """What an engine does not do; None where it does all, or where no engine comes this far."""

    def __init__(self, table: PrivateTable, contract: Contract) -> None:
        if table.contract_digest != contract.digest:
            raise ValueError("the snapshot was encoded by another contract")
        self._table = table
        self._contract = contract

    def __repr__(self) -> str:
        """Show which snapshot is read."""
        return f"{type(self).__name__}({self._table!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: private data stay in this process."""
        raise TypeError(f"{type(self).__name__} cannot be pickled: {self._reads} stay in this process")

    @property
    def _mark(self) -> tuple[str, str]:
        """What ties a handle to this snapshot: its keyed hash, and the digest of its contract.

        Raises:
            ValueError: the snapshot lies in an engine that cannot give what is read.
        """
        if self._table.engine is not None and self._engine_refuses is not None:
            raise ValueError(f"an engine counts, and {self._engine_refuses}")
        return self._table.keyed_hash, self._table.contract_digest


class SnapshotSums(SnapshotReader):
    """Adds up columns of an encoded snapshot, by the cells of full declared domains.

    Args:
        table: the snapshot, encoded with the lattices of these columns.
        contract: the contract that encoded it.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact sums"

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of some columns over the same cells; opening one adds up all that are no trees.

        Raises:
            ValueError: a distinct count says that a unit is in fewer cells than this snapshot was bounded to.
        Privacy: nothing is read yet; each handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        for each in addends:
            if isinstance(each, DistinctCount) and each.most_cells is not None:
                self._check_bound(clique, each.most_cells)
        known: dict[ValueLattice, NDArray[np.int64]] = {}
        alike = [each.lattice for each in addends if isinstance(each, ValueLattice | LoneSum) and not _bounded(each)]
        together = tuple(each for each in alike if not isinstance(each, NarrowedLattice))
        read = partial(self._of, clique, shape, together, known)
        return tuple(PrivateCellSums(clique, shape, each, *self._mark, read) for each in addends)

    def _check_bound(self, clique: Clique, stated: int) -> None:
        """Refuse a price for fewer cells than the rows of one unit may lie in here."""
        groups = [self._table.bounded_groups.get(name) for name in self._contract.texts(clique)]
        bound = most_cells(clique, groups[0], self._contract) if len(groups) == 1 else None
        if bound is None or stated < bound:
            here = "in any number of cells" if bound is None else f"in up to {bound} cells"
            raise ValueError(f"a unit is {here} of this snapshot, and the distinct count says {stated}")

    def _of(
        self,
        clique: Clique,
        shape: tuple[int, ...],
        together: tuple[ValueLattice, ...],
        known: dict[ValueLattice, NDArray[np.int64]],
        wanted: Addends,
    ) -> NDArray[np.int64]:
        """Return the exact numbers of what is added up; the handle names its own."""
        if isinstance(wanted, ValueTree | BinTree):
            return self._tree(clique, shape, wanted)
        if isinstance(wanted, DistinctCount):
            stored = telling_column(wanted, self._contract)
            found = count_distinct(self._table, clique, shape, *stored, threads=_THREADS)
            return found.reshape(*shape, 1)
        if isinstance(wanted, WeightedCount):
            # A weight is its own distance from 0, and a missing one adds nothing.
            return self._summed(clique, shape, (wanted.weight,), wanted.weight, known)[..., :1]
        if isinstance(wanted, ValueMagnitudes):
            return self._magnitudes(clique, wanted)
        if isinstance(wanted, ValueMoments):
            found = sum_moments(self._table, clique, shape, wanted, threads=_THREADS)
            return found.reshape(*shape, wanted.parts)
        if isinstance(wanted, LoneSum) and _bounded(wanted):
            terms = clique, shape, wanted, quota_unit(self._contract)
            return sum_within_quota(self._table, *terms, threads=_THREADS).reshape(*shape, 1)
        if isinstance(wanted, LoneSum):
            parts = self._summed(clique, shape, together, wanted.lattice, known)
            above, valued = parts[..., :1], (parts[..., :1] + parts[..., 1:2]) // wanted.lattice.width
            return np.asarray(above + wanted.low_steps * valued, dtype=np.int64)
        return self._summed(clique, shape, together, wanted, known)

    def _tree(self, clique: Clique, shape: tuple[int, ...], tree: ValueTree | BinTree) -> NDArray[np.int64]:
        """Return the exact counts of all nodes, shape (*shape, parts)."""
        where = self._table, clique, shape
        if isinstance(tree, ValueTree):
            found = count_leaves(*where, tree, threads=_THREADS)
        else:
            found = count_between_cuts(*where, tree, threads=_THREADS)
        missing, counts = found[:, :1], found[:, 1:]
        levels = [np.add.reduceat(counts, np.arange(0, tree.leaves, each), axis=1) for each in tree.level_leaves]
        parts = [*levels, missing] if tree.lattice.counts_missing else levels
        return np.concatenate(parts, axis=1).reshape(*shape, tree.parts)

    def _summed(
        self,
        clique: Clique,
        shape: tuple[int, ...],
        together: tuple[ValueLattice, ...],
        wanted: ValueLattice,
        known: dict[ValueLattice, NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Return the exact sums of one column, shape (*shape, parts), and remember those of the others; read-only."""
        if wanted not in known:
            relation = narrowed(wanted) if isinstance(wanted, NarrowedLattice) else "codes"
            together = together if wanted in together else (wanted,)
            names = [_names(each) for each in together]
            found = sum_offsets(self._table, clique, shape, names, threads=_THREADS, relation=relation)
            for each in together:
                known[each] = _handed_out(each, *found[_names(each)]).reshape(*shape, each.parts)
                known[each].flags.writeable = False
        return known[wanted]

    def _magnitudes(self, clique: Clique, magnitudes: ValueMagnitudes) -> NDArray[np.int64]:
        """Return the exact counts of all bins, shape (parts,).

        Raises:
            ValueError: by the cells of columns; it is of all rows together.
        """
        if clique:
            raise ValueError("a histogram of magnitudes is one of all rows")
        return count_magnitudes(self._table, magnitudes, threads=_THREADS)


def telling_column(counted: DistinctCount, contract: Contract) -> tuple[str, str | int | None]:
    """Return the column of a snapshot by which values or units are told apart, and what in it is none.

    Raises:
        ValueError: of as many values as the contract does not declare: the price would be another.
    """
    if counted.column is None:
        return KeyColumn(str(contract.unit.column)).name, None
    domain = contract.column(counted.column).domain
    if counted != distinct_count(
        counted.column, domain, declared_cells=counted.declared_cells, most_cells=counted.most_cells
    ):
        raise ValueError(f"a distinct count of {counted.column} has the values that the contract declares")
    beside = encoded_beside(counted.column, domain)
    if beside is None:
        return counted.column, domain.null_code if domain.nulls.policy == "category" else None
    return beside.name, NO_KEY if isinstance(beside, KeyColumn) else MISSING


def _bounded(addends: Addends) -> bool:
    """Tell whether all rows of a unit add at most a quota: then they are taken unit by unit."""
    return isinstance(addends, LoneSum) and addends.quota is not None


def _names(lattice: ValueLattice) -> tuple[str, str | None]:
    """Return the columns of a snapshot that have the offsets, and the weights."""
    return lattice.name, None if lattice.weight is None else lattice.weight.name


def _handed_out(
    addends: ValueLattice, offsets: NDArray[np.int64], valued: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the steps above, below and of missing values, weighed where a weight is; shape (cells, parts)."""
    parts = [offsets, addends.width * valued - offsets, addends.width * (rows - valued)]
    return np.stack(parts[: addends.parts], axis=-1)


# --- Keys of a snapshot that nobody declared.


_RECODED = "selected.duckdb"


class SnapshotKeys(SnapshotReader):
    """Reads keys of an encoded snapshot.

    Args:
        table: the snapshot, encoded with the keys of these columns.
        contract: the contract that encoded it.
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
        path, config = self._table.path, settings(self._table.path, _THREADS)
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
        config = settings(self._table.path, _THREADS)
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
        with duckdb.connect(str(path), config=settings(self._table.path, _THREADS)) as connection:
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


# --- Counts of a snapshot.


REMEMBERED_BYTES: Final = 512 << 20
_CELL_BYTES: Final = 8


class SnapshotCounts(SnapshotReader):
    """Counts marginals of an encoded snapshot, over the full declared domain.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
        remembered_bytes: exact counts kept at most; the oldest make room. They go with this object, at the end of
            the run at the latest [bytes].
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact counts"
    _schema = "main"

    def __init__(self, table: PrivateTable, contract: Contract, *, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        super().__init__(table, contract)
        self._room = remembered_bytes
        self._known: dict[Clique, NDArray[np.int64]] = {}

    def marginal(self, clique: Clique, coarsening: Coarsening | None = None) -> PrivateCounts:
        """Return the handle on the marginal of `clique`, shape as the contract's columns [cells].

        Args:
            clique: the columns.
            coarsening: sums the cells up to a coarser resolution, whose shape the counts then have.
        Raises:
            ValueError: the coarsening is of a marginal of another shape.
        Privacy: nothing is read yet; the handle opens only inside a grant. Coarser counts have the same sensitivity:
            a row falls in exactly one cell.
        """
        return self.marginals((clique,))[0].coarser(coarsening)

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return handles on the marginals of `cliques`, in their order; opening one counts all of them in one scan.

        Those that together exceed the memory for counts are counted in as many scans as it takes.

        Privacy: nothing is read yet; each handle opens only inside a grant.
        """
        # Each column is looked up once: all pairs of 500 columns are 124,750 cliques.
        names = dict.fromkeys(name for clique in cliques for name in clique)
        sizes = dict(zip(names, self._contract.shape(tuple(names)), strict=True))
        shapes = {clique: tuple(sizes[name] for name in clique) for clique in cliques}
        return tuple(
            PrivateCounts(clique, shapes[clique], *self._mark, partial(self._counted, clique, shapes))
            for clique in cliques
        )

    def sparse(self, clique: Clique) -> SparseCounts:
        """Return the handle on the populated cells of the marginal of `clique`, by their row-major numbers.

        Raises:
            ValueError: the domain has no column, or more than 2^63 - 1 cells.
        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        if not clique or prod(shape) > MOST_CODES:
            raise ValueError(f"clique must have at least one column and at most {MOST_CODES} cells")
        table = self._table
        return SparseCounts(
            clique, prod(shape), table.keyed_hash, table.contract_digest, lambda: self._populated(clique, shape)
        )

    def _counted(self, clique: Clique, together: Shapes) -> NDArray[np.int64]:
        """Return the exact counts of one clique, and remember those of the others; read-only."""
        if clique not in self._known:
            asked = self._fitting(clique, together)
            self._make_room(sum(map(_bytes, asked.values())))
            for each, counts in self._counts_of(asked).items():
                counts.flags.writeable = False
                self._known[each] = counts
        return self._known[clique]

    def _counts_of(self, shapes: Shapes) -> dict[Clique, NDArray[np.int64]]:
        """Count marginals where the rows are: here, or in the engine that keeps them."""
        engine = self._table.engine
        if engine is None:
            return count_marginals(self._table.path, shapes, threads=_THREADS, schema=self._schema)
        counted = zip(shapes.items(), engine.counted_cells(tuple(shapes)), strict=True)
        return {clique: spread_out(*cells, prod(shape)).reshape(shape) for (clique, shape), cells in counted}

    def _populated(self, clique: Clique, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the populated cells of one marginal where the rows are."""
        if self._table.engine is not None:
            return self._table.engine.counted_cells((clique,))[0]
        return count_populated(self._table.path, clique, shape, threads=_THREADS)

    def _fitting(self, clique: Clique, together: Shapes) -> dict[Clique, tuple[int, ...]]:
        """Choose what is counted now: the clique, and of those after it, then before it, what the memory holds."""
        names = list(together)
        place = names.index(clique)
        chosen, used = {clique: together[clique]}, _bytes(together[clique])
        for other in (*names[place + 1 :], *names[:place]):
            if other in self._known:
                continue
            used += _bytes(together[other])
            if used > self._room:
                break
            chosen[other] = together[other]
        return chosen

    def _make_room(self, size: int) -> None:
        """Forget the oldest counts until `size` bytes fit, or all of them."""
        kept = sum(counts.nbytes for counts in self._known.values())
        while self._known and kept + size > self._room:
            kept -= self._known.pop(next(iter(self._known))).nbytes


def _bytes(shape: tuple[int, ...]) -> int:
    return _CELL_BYTES * prod(shape)


# --- Rows of a snapshot.


BATCH_ROWS: Final = 1 << 16
"""Rows fetched at a time."""


class SnapshotRows(SnapshotReader):
    """Reads rows of an encoded snapshot.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
    Raises:
        ValueError: the snapshot was encoded by another contract; or, when a handle is asked for, it lies in an
            engine.
    """

    _reads = "private rows"
    _engine_refuses = "gives no rows"

    def __init__(self, table: PrivateTable, contract: Contract) -> None:
        super().__init__(table, contract)
        self._known: dict[tuple[str, ...], Unsigned] = {}

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return the handle on the rows, of all columns or of the given ones in their order.

        Raises:
            ContractRefused: no such column.
            ValueError: a column named twice.
        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        layout = row_layout(self._contract, names)
        return PrivateRows(layout, *self._mark, partial(self._codes, layout))

    def _codes(self, layout: RowLayout) -> Unsigned:
        """Read the codes, once; read-only."""
        if layout.names not in self._known:
            codes = _read_codes(self._table.path, layout, threads=_THREADS)
            codes.flags.writeable = False
            self._known[layout.names] = codes
        return self._known[layout.names]


def _read_codes(path: Path, layout: RowLayout, *, threads: int) -> Unsigned:
    """Read codes from the snapshot's table `codes`, shape (rows, columns), in the smallest type that holds them."""
    import duckdb  # here, so that looking at a budget does not load it

    dtype = np.min_scalar_type(max(column.table.shape[0] for column in layout.columns) - 1)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in layout.names)
    batches = [np.empty((0, layout.code_width), dtype=dtype)]
    with duckdb.connect(str(path), read_only=True, config={"threads": threads}) as connection:
        for batch in connection.execute(f"SELECT {quoted} FROM codes").to_arrow_reader(BATCH_ROWS):
            codes = np.empty((batch.num_rows, layout.code_width), dtype=dtype)
            for column, values in zip(layout.columns, batch.columns, strict=True):
                place = layout.code_place(column.name)
                each = values if column.length == 1 else values.flatten()
                codes[:, place : place + column.length] = each.to_numpy().reshape(-1, column.length)
            batches.append(codes)
    return np.concatenate(batches)


# --- Values of a snapshot.


class SnapshotValues(SnapshotReader):
    """Lists values of an encoded snapshot, by the cells of full declared domains.

    Args:
        table: the snapshot, encoded with the lattices of these columns.
        contract: the contract that encoded it.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads = "exact values"

    def values(self, clique: Clique, choices: QuantileChoices) -> PrivateCellValues:
        """Return a handle on the values of a column.

        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        return PrivateCellValues(clique, shape, choices, *self._mark, partial(self._listed, clique, shape))

    def _listed(self, clique: Clique, shape: tuple[int, ...], choices: QuantileChoices) -> NDArray[np.int64]:
        return count_offsets(self._table, clique, shape, choices.lattice.name, threads=_THREADS)


# --- Counts of a parent table's rows, in a snapshot that holds these beside the rows of the base.


PARENTS: Final = "parents"
"""The schema of their `codes`."""


class ParentCounts(SnapshotCounts):
    """Counts marginals of the parent table's rows; arguments as of `SnapshotCounts`, the contract over the base.

    Raises:
        ValueError: the base has no parent table, or the snapshot was encoded by another contract.
    """

    _reads = "exact counts of parents"
    _schema = PARENTS

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return handles on the marginals of `cliques`, each of which says whose rows it counts.

        Privacy: nothing is read yet; a grant derives the sensitivity from the rows of one unit that are stated here,
            which the snapshot has bounded.
        """
        parents = ParentRows.of(self._contract)
        return tuple(replace(handle, parents=parents) for handle in super().marginals(cliques))
