"""Parts that stand in a SELECT more than once are computed once, in a subquery below it.

PostgreSQL computes an expression as often as it is written. A code and the checks of its column are written of the
same parts: the value as a number, the known text that it is, whether there is any. What is computed below is computed
for each row, so a part is moved only if some place of it is computed for each row already: a guard (CASE, COALESCE,
AND, OR) that keeps a part from some rows keeps it from them afterwards too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlglot import exp

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
