"""The stage of one run in an engine, as it is counted: SQL goes there, whole numbers come back.

Scans are written once, in DuckDB's SQL over the table `codes`, and translated to an engine's SQL over its stage. What
they use means the same in every engine: sums and counts of whole numbers, comparisons, conditions, windows in an
order without ties, and division of whole numbers, which engines spell differently. A count of all rows that a group
has is added as the last column: it tells whether every row was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from contracts.contract.contract import Contract, checks
from contracts.release.tables.tables import MOST_CODES
from privacy.counting_engine import PopulatedCells
from sudare_engines.engine import UNCHARGED, Engine
from sudare_engines.portable_sql import Dialect, parsed, sql_of, written
from sudare_engines.staging import STAGE, BesideCodes, cells_of, checks_of, first_cells, stage_of
from tasks.storage.source_engine import EngineFailed

CODES: Final = "codes"
"""The table of a snapshot."""


def scan_sql(query: str, names: Mapping[str, str], dialect: Dialect) -> tuple[str, int]:
    """Write a scan as an engine's SQL.

    Args:
        query: a SELECT in DuckDB's SQL whose rows are groups of all rows of `codes`, its columns whole numbers. Names
            of columns of `codes` are quoted, all other names are not.
        names: name of each column in the stage, by its name in `codes`.
        dialect: the engine.
    Returns:
        One SELECT over the stage, with the number of rows of each group after its own columns; how many these are.
    Raises:
        KeyError: it names a column that the stage does not have.
    """
    tree = parsed(query, "duckdb")
    if not isinstance(tree, exp.Select):
        raise ValueError("a scan is one SELECT")
    width = len(tree.expressions)
    tree.select(exp.Count(this=exp.Star()), copy=False)
    for star in list(tree.find_all(exp.Star)):
        if isinstance(star.parent, exp.Select):
            star.parent.set("expressions", list(_columns(star, names)))
    for column in tree.find_all(exp.Column):
        if column.this.quoted:
            column.set("this", exp.to_identifier(names[column.name]))
    for table in tree.find_all(exp.Table):
        if table.name == CODES:
            table.set("this", exp.to_identifier(STAGE))
    return written(tree, dialect), width


def _columns(star: exp.Star, names: Mapping[str, str]) -> Iterator[exp.Expression]:
    """Yield the columns that a star stands for; those that are replaced keep their names."""
    replaced = {each.alias: each.this for each in star.args.get("replace") or ()}
    for name, here in names.items():
        yield exp.alias_(replaced.get(name) or exp.column(name, quoted=True), here)


AT_ONCE: Final = 64
"""Marginals that one scan counts at most: the Java that Spark writes for a scan grows with them."""


class StagedTable:
    """The stage of one run in an engine; a `CountingEngine`.

    Args:
        worker: the session that has the stage attached.
        contract: the contract that it was made by.
        rows: how many rows were written to it; every marginal has to count as many.
        beside: what it has beside the codes.
        read: how many rows the source has; None for as many.
        repeated: where each row is a unit, what was counted of columns that may be ids; see `repeated_ids`.
    """

    def __init__(
        self,
        worker: Engine,
        contract: Contract,
        rows: int,
        beside: Sequence[BesideCodes] = (),
        read: int | None = None,
        repeated: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        self._worker, self._contract, self._rows, self._repeated = worker, contract, rows, repeated
        self._read = rows if read is None else read
        self._names = stage_of(contract, beside).scanned

    def whole_columns(self, query: str) -> list[NDArray[np.int64]]:
        """Return the columns of a scan of all rows that is written for DuckDB; all of whole numbers."""
        sql, width = scan_sql(query, self._names, self._worker.dialect)
        found = self._worker.query(sql)
        *columns, rows = whole_numbers(self._worker, found, width + 1, least=-(2**63)).T
        if rows.sum() != self._rows:
            raise _incomplete(self._worker)
        return columns

    def counted_cells(self, cliques: Sequence[tuple[str, ...]]) -> tuple[PopulatedCells, ...]:
        """Return for each of some marginals its populated cells, row-major and ascending, and their exact counts."""
        counted: list[PopulatedCells] = []
        for together in _scans(self._contract, cliques):
            firsts = first_cells(self._contract, together)
            sql = sql_of(cells_of(self._contract, together), self._worker.dialect)
            found = whole_numbers(self._worker, self._worker.query(sql), 2)
            found = found[np.argsort(found[:, 0])]
            places = np.searchsorted(found[:, 0], firsts)
            parts = [found[begin:end] for begin, end in pairwise(places)]
            if places[0] or places[-1] != len(found) or any(part[:, 1].sum() != self._rows for part in parts):
                raise _incomplete(self._worker)
            counted += [(part[:, 0] - first, part[:, 1]) for part, first in zip(parts, firsts, strict=False)]
        return tuple(counted)

    def broken_checks(self) -> frozenset[str]:
        """Return the names of the checks that some row breaks, or that no row is there; in one scan."""
        rows, marked = self.marked_rows()
        broken = {name for name, count in marked.items() if count}
        least = {check.name for check in checks(self._contract) if check.kind == "rows" and rows < 1}
        return frozenset(broken | least)

    def marked_rows(self) -> tuple[int, Mapping[str, int]]:
        """Return how many rows there are, and how many break each check; in one scan."""
        names = stage_of(self._contract).broken
        sql = sql_of(checks_of(self._contract), self._worker.dialect)
        rows, *marks = whole_numbers(self._worker, self._worker.query(sql), 1 + len(names))[0]
        if rows != self._rows or any(mark > rows for mark in marks):
            raise _incomplete(self._worker)
        return int(rows), {name: int(mark) for name, mark in zip(names, marks, strict=True)}

    def seen(self) -> Sequence[tuple[Any, ...]]:
        """Return the rows of the source and those that the bound of units kept, or what may be ids."""
        unit = self._contract.unit.column
        return self._repeated if unit is None else [(unit, self._read, self._rows)]

    def close(self) -> None:
        """End the engine."""
        self._worker.close()


def _scans(contract: Contract, cliques: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield the cliques that one scan counts, in order: few enough for its code, and with numbers for all cells."""
    begin, cells = 0, 0
    for end, clique in enumerate(cliques):
        cells += contract.cells(clique)
        if end > begin and (end - begin == AT_ONCE or cells > MOST_CODES):
            yield tuple(cliques[begin:end])
            begin, cells = end, contract.cells(clique)
    if begin < len(cliques):
        yield tuple(cliques[begin:])


def whole_numbers(worker: Engine, rows: Any, width: int, *, least: int = 0) -> NDArray[np.int64]:
    """Return the rows of an answer, whole numbers from `least` to 2^63 - 1, shape (rows, width).

    Raises:
        EngineFailed: the engine answered something else. A fraction or a text must not become a count.
    """
    gone = not rows or (isinstance(rows, list) and any(isinstance(row, list) and None in row for row in rows))
    if gone:
        raise _incomplete(worker)
    if not isinstance(rows, list) or not all(_is_whole(row, width, least) for row in rows):
        kind = "whole numbers from 0 on" if least == 0 else "whole numbers of 64 bits"
        raise EngineFailed(f"{worker.name}, query: its counts are not {kind}; {UNCHARGED}. {worker.remedy}")
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _incomplete(worker: Engine) -> EngineFailed:
    return EngineFailed(f"{worker.name}, query: it did not count every row of the stage; {UNCHARGED}, run again")


def _is_whole(row: Any, width: int, least: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == width
        and all(type(each) is int and least <= each < 2**63 for each in row)
    )
