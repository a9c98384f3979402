"""Scans of encoded rows, written once in DuckDB's SQL over the table `codes`, as an engine's SQL over its stage.

What the scans use means the same in every engine: sums and counts of whole numbers, comparisons, conditions, windows
in an order without ties, and division of whole numbers, which engines spell differently. A count of all rows that a
group has is added as the last column: it tells whether every row was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from contracts.sql.portable.compiler import Dialect, parsed, written
from contracts.sql.portable.staging import STAGE

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
