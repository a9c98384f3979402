"""Ibis expressions as the SQL of an engine, without that engine's driver.

Ibis writes the SQL. What engines would do differently is written here:

- spaces of Unicode are taken off a text;
- SHA-256 of a text is 64 hexadecimal digits in lower case;
- doubles are read from their shortest text: an engine may take 0.1 for a decimal;
- no cast fails in Spark, whose errors quote the value;
- Spark looks a text up in a map: it goes through the branches of a CASE one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal

import ibis
from ibis.backends.sql import compilers
from ibis.config import Config, options
from sqlglot import exp, parse_one

Dialect = Literal["duckdb", "pyspark"]
_COMPILERS: Final[dict[Dialect, str]] = {"duckdb": "DuckDBCompiler", "pyspark": "PySparkCompiler"}


class _SparkOptions(Config):  # type: ignore[misc]
    """What Ibis' compiler for Spark asks for; Ibis itself sets it only where PySpark can be imported."""

    treat_nan_as_null: bool = False


def portable_sha256(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 as 64 hexadecimal digits in lower case."""
    return hashlib.sha256(text.encode()).hexdigest()


sha256_of: Any = ibis.udf.scalar.builtin(portable_sha256)
"""The same as an expression."""


def sql_of(expression: Any, dialect: Dialect) -> str:
    """Write an expression as SQL.

    Args:
        expression: an Ibis table over unbound tables.
        dialect: the engine.
    Returns:
        One SELECT.
    """
    if options.pyspark is None:
        options.pyspark = _SparkOptions()
    compiler = getattr(compilers, _COMPILERS[dialect])()
    return written(compiler.to_sqlglot(expression), dialect)


def written(tree: exp.Expression, dialect: Dialect) -> str:
    """Write a statement's tree as SQL, with what engines call differently in the engine's words."""
    tree = _rewritten(tree, dialect)
    if dialect == "pyspark":
        tree = _quiet(tree)
    compiler = getattr(compilers, _COMPILERS[dialect])()
    return str(tree.sql(dialect=compiler.dialect, copy=False))


def parsed(sql: str, dialect: Dialect) -> exp.Expression:
    """Parse a statement in an engine's dialect.

    Raises:
        sqlglot.errors.ParseError: it is no statement of that dialect.
    """
    return parse_one(sql, dialect=getattr(compilers, _COMPILERS[dialect])().dialect)


def _rewritten(tree: exp.Expression, dialect: Dialect) -> exp.Expression:
    """Write each part of a tree; one that is replaced has its arguments written before."""
    rewritten: exp.Expression = tree.transform(lambda node: _written(node, dialect))
    return rewritten


def _quiet(tree: exp.Expression) -> exp.Expression:
    """Let no cast fail: Spark's error would quote the value, in logs that are not ours. What cannot be cast is NULL.

    None of our casts can fail on the kinds that are let in. If one did, its row would be missing from the counts, and
    the run stops because they are not whole.
    """
    for cast in reversed([node for node in tree.find_all(exp.Cast) if type(node) is exp.Cast]):
        cast.replace(exp.TryCast(**{**cast.args, "safe": True}))
    return tree


def _written(node: exp.Expression, dialect: Dialect) -> exp.Expression:
    """Write what engines call differently."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name == "portable_trim":
        text, letters = (_rewritten(each, dialect) for each in node.expressions)
        return exp.Trim(this=text, expression=letters, position="BOTH")
    if name == "portable_sha256":
        return _SHA256[dialect](_rewritten(node.expressions[0], dialect))
    if name == "portable_lookup":
        return _lookup(dialect, *(_rewritten(each, dialect) for each in node.expressions))
    if isinstance(node, exp.Literal) and not node.is_string and not node.name.isdigit():
        return exp.cast(exp.Literal.string(node.name), "double")
    return node


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _lookup(dialect: Dialect, text: exp.Expression, known: exp.Expression, codes: exp.Expression) -> exp.Expression:
    """Write the code of a text among known ones, NULL for others; equal texts have equal bytes."""
    if dialect == "pyspark":
        return _call("TRY_ELEMENT_AT", _call("MAP_FROM_ARRAYS", known, codes), text)
    case, (keys, values) = exp.Case(), (each.find(exp.Array) or each for each in (known, codes))
    for key, code in zip(keys.expressions, values.expressions, strict=True):
        case = case.when(exp.EQ(this=text.copy(), expression=key), code)
    return case


_SHA256: Final[dict[Dialect, Callable[[exp.Expression], exp.Expression]]] = {
    "duckdb": lambda text: _call("SHA256", text),
    "pyspark": lambda text: _call("SHA2", text, exp.Literal.number(256)),
}
