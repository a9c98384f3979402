"""Ibis expressions as the SQL of an engine, without that engine's driver.

Ibis writes the SQL. What engines would do differently is written here:

- spaces of Unicode are taken off a text;
- SHA-256 of a text is 64 hexadecimal digits in lower case;
- doubles are read from their shortest text: an engine may take 0.1 for a decimal;
- no cast fails in Spark and PostgreSQL, whose errors quote the value;
- Spark looks a text up in a map, and PostgreSQL in a JSON object: they go through the branches of a CASE one by one;
- PostgreSQL takes parts of days as doubles, and computes an expression as often as it is written. A code and the
  checks of its column are written of the same parts, so what is repeated is computed once, in a subquery below.

What is computed below is computed for each row, so a part is moved only if some place of it is computed for each row
already: a guard (CASE, COALESCE, AND, OR) that keeps a part from some rows keeps it from them afterwards too.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import ibis
from ibis.backends.sql import compilers
from ibis.config import Config, options
from sqlglot import exp, parse_one

Dialect = Literal["duckdb", "pyspark", "postgres"]
_COMPILERS: Final[dict[Dialect, str]] = {
    "duckdb": "DuckDBCompiler",
    "pyspark": "PySparkCompiler",
    "postgres": "PostgresCompiler",
}


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
    tree = _QUIET.get(dialect, lambda same: same)(_rewritten(tree, dialect))
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


def _postgres(tree: exp.Expression) -> exp.Expression:
    """Let no cast fail in PostgreSQL, which has none that try: its log would quote the value.

    Casts to these types are calls of functions of the session, by `TRIED`. Casts of constants stay. Subqueries need
    names there, and semi and anti joins are conditions: it would take the word for a table's alias. What is repeated
    is computed once.
    """
    for join in list(tree.find_all(exp.Join)):
        if join.kind in ("SEMI", "ANTI"):
            _as_condition(join)
    for cast in reversed([node for node in tree.find_all(exp.Cast) if isinstance(node, exp.Cast)]):
        function = TRIED.get(cast.to.this)
        if function is not None and next(cast.this.find_all(exp.Column), None) is not None:
            cast.replace(_call(f"pg_temp.{function}", cast.this))
    for subquery in tree.find_all(exp.Subquery):
        if isinstance(subquery.parent, exp.From) and not subquery.alias:
            subquery.set("alias", exp.TableAlias(this=exp.to_identifier("unnamed")))
    for select in list(tree.find_all(exp.Select)):
        share_parts(select)
    return tree


def _as_condition(join: exp.Join) -> None:
    """Write a semi or anti join as a condition on the only table that it is joined to."""
    select, [name] = join.parent, join.args["using"]
    if not isinstance(select, exp.Select):
        raise ValueError("a semi or anti join of something else than a SELECT")
    own = exp.column(name.copy(), table=select.args["from_"].this.alias_or_name)
    other = exp.Select(expressions=[exp.Literal.number(1)]).from_(exp.alias_(join.this.copy(), "others", table=True))
    there: exp.Expression = exp.Exists(this=other.where(exp.column(name.copy(), table="others").eq(own)))
    join.pop()
    select.where(there if join.kind == "SEMI" else exp.not_(there), copy=False)


TRIED: Final = {
    exp.DataType.Type.DOUBLE: "sudare_double",
    exp.DataType.Type.DATE: "sudare_day",
    exp.DataType.Type.TIMESTAMP: "sudare_moment",
    exp.DataType.Type.DECIMAL: "sudare_fixed",
}
"""Names of functions that a session of PostgreSQL makes for itself; a fixed one has 17 digits, 9 behind the point."""
_QUIET: Final[dict[Dialect, Callable[[exp.Expression], exp.Expression]]] = {"pyspark": _quiet, "postgres": _postgres}


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
    if isinstance(node, exp.Extract) and dialect == "postgres":
        # Its `extract` makes decimals, which it computes with slowly.
        return _call("date_part", _text(node.name), _rewritten(node.expression, dialect))
    if isinstance(node, exp.Literal) and not node.is_string and not node.name.isdigit():
        return exp.cast(exp.Literal.string(node.name), "double")
    return node


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _text(letters: str) -> exp.Expression:
    return exp.Literal.string(letters)


_MANY: Final = 16
"""Known texts from which on PostgreSQL finds one sooner in an object: by halving, at some fixed work."""


def _lookup(dialect: Dialect, text: exp.Expression, known: exp.Expression, codes: exp.Expression) -> exp.Expression:
    """Write the code of a text among known ones, NULL for others; equal texts have equal bytes."""
    if dialect == "pyspark":
        return _call("TRY_ELEMENT_AT", _call("MAP_FROM_ARRAYS", known, codes), text)
    case, (keys, values) = exp.Case(), (each.find(exp.Array) or each for each in (known, codes))
    pairs = list(zip(keys.expressions, values.expressions, strict=True))
    if dialect == "postgres" and len(pairs) >= _MANY:
        found = exp.cast(_text(json.dumps({key.name: int(code.name) for key, code in pairs})), "jsonb")
        return exp.cast(_call("jsonb_object_field_text", found, text), "int")
    for key, code in pairs:
        case = case.when(exp.EQ(this=text.copy(), expression=key), code)
    return case


_SHA256: Final[dict[Dialect, Callable[[exp.Expression], exp.Expression]]] = {
    "duckdb": lambda text: _call("SHA256", text),
    "pyspark": lambda text: _call("SHA2", text, exp.Literal.number(256)),
    "postgres": lambda text: _call("encode", _call("sha256", _call("convert_to", text, _text("UTF8"))), _text("hex")),
}


LEAST: Final = 6
"""Nodes of a part that is worth a column: `x IS NULL` is sooner computed again than carried along."""
_CALLS: Final = (exp.Anonymous, exp.Trim, exp.RegexpLike)
"""Worth a column, however short."""
_NAMES: Final = (exp.Alias, exp.Identifier)
_NEW: Final = ("sudare_part\x1f", "sudare_value\x1f")
"""How new columns' names begin. No column of a contract can be named so: it is a control character."""


def share_parts(select: exp.Select) -> None:
    """Move what a SELECT from one table repeats into a subquery, and what is repeated of that into one below.

    Args:
        select: any SELECT. One that makes a row of each row of one table is changed in place, others stay.
    """
    table = select.args.get("from_")
    others = any(select.args.get(clause) for clause in ("joins", "where", "group", "distinct", "limit"))
    if table is None or not isinstance(table.this, exp.Table) or others:
        return
    if any(item.find(exp.AggFunc, exp.Window) for item in select.expressions):
        return
    alias, levels, below = table.this.alias_or_name, [list(select.expressions)], table
    for name in _NEW:
        moved = _moved(levels, name, alias)
        if moved:
            levels.append(moved)
    for parts in reversed(levels[1:]):
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))
        # OFFSET keeps PostgreSQL from writing the parts back to where they stood.
        fence = exp.Offset(expression=exp.Literal.number(0))
        lower = exp.Select(expressions=[star, *parts], from_=below, offset=fence)
        below = exp.From(this=lower.subquery(exp.to_identifier(alias, quoted=True)))
    select.set("expressions", levels[0])
    select.set("from_", below)


def _moved(levels: list[list[exp.Expression]], name: str, alias: str) -> list[exp.Expression]:
    """Write columns for the largest parts that are repeated, in place; return what the columns are."""
    items = [item for level in levels for item in level]
    numbers: dict[int, int] = {}
    known: dict[Any, int] = {}
    for item in items:
        _number(item, known, numbers)
    always = {numbers[id(part)] for item in items for part in _always(item)}
    times = Counter(numbers[id(part)] for item in items for part in item.walk())
    parts: dict[int, exp.Expression] = {}

    def replaced(part: exp.Expression) -> exp.Expression:
        # A node that was put in place of another one has no number.
        number = numbers.get(id(part), -1)
        if times[number] < 2 or number not in always or not _worth_a_column(part):
            return part
        if number not in parts:
            parts[number] = exp.alias_(part.copy(), f"{name}{len(parts)}", quoted=True)
        return exp.column(parts[number].alias, table=alias, quoted=True)

    for level in levels:
        level[:] = [item.transform(replaced, copy=False) for item in level]
    return list(parts.values())


def _worth_a_column(part: exp.Expression) -> bool:
    if isinstance(part, (exp.Column, *_NAMES)) or next(part.find_all(exp.Column), None) is None:
        return False
    return isinstance(part, _CALLS) or sum(not isinstance(each, _NAMES) for each in part.walk()) >= LEAST


def _number(part: exp.Expression, known: dict[Any, int], numbers: dict[int, int]) -> int:
    """Give equal parts equal numbers."""
    key = (type(part), tuple((name, _key(value, known, numbers)) for name, value in part.args.items()))
    numbers[id(part)] = known.setdefault(key, len(known))
    return numbers[id(part)]


def _key(value: Any, known: dict[Any, int], numbers: dict[int, int]) -> Any:
    if isinstance(value, exp.Expression):
        return (_number(value, known, numbers),)
    return tuple(_key(each, known, numbers) for each in value) if isinstance(value, list) else value


def _always(part: exp.Expression) -> Iterator[exp.Expression]:
    """Yield a part and those of it that are computed whenever it is."""
    yield part
    certain: Sequence[exp.Expression]
    if isinstance(part, exp.Case):
        certain = [part.args["ifs"][0].this if part.this is None else part.this]
    elif isinstance(part, (exp.Coalesce, exp.And, exp.Or)):
        certain = [part.this]
    else:
        certain = list(part.iter_expressions())
    for each in certain:
        yield from _always(each)
