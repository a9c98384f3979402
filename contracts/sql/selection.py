"""The `select:` of a source, checked on its parsed tree: it maps, projects and filters rows one by one.

A select that combined rows would let one person change many of them, and every sensitivity would be false. So
whatever is not on the list in `contracts.sql.select_grammar` is refused, unknown fields and node types too:

1. one statement, a SELECT, from the one relation `source`;
2. no DISTINCT, ORDER BY, LIMIT, OFFSET, sample, WITH, GROUP BY, HAVING, QUALIFY, set operation or subquery;
3. expressions over the columns of one row, with listed functions and casts; every computed column is named (AS);
4. arguments that could stop the run are written out; see `contracts.sql.constant_arguments`.

`guarded_select` gives the SQL to run: listed functions are pinned to DuckDB's own, so that a macro in the source's
database cannot stand in for them, and an expression that fails on a row is null there, so that no single row can stop
a release (law 3). That holds on a connection with `UNSAFE_OPTIMIZERS` switched off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from contracts.domains.value_sql import identifier
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import nearest
from contracts.sql import constant_arguments as fixed_arguments
from contracts.sql import select_types
from contracts.sql.select_grammar import (
    CAST_TYPES,
    EXPRESSIONS,
    FROM_TABLE,
    FUNCTIONS,
    ROW_POSITIONS,
    SELECT_NODE,
    SHIFTING_COLUMNS,
    STAR,
    WORDS,
    ExpressionShape,
    Tree,
)
from contracts.sql.select_types import RELATION
from contracts.sql.value_types import ValueType

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

UNSAFE_OPTIMIZERS = ("common_subexpressions", "statistics_propagation")
"""DuckDB's optimizers that evaluate a part of an expression outside its TRY: on a connection that runs a guarded
select they are switched off (SET disabled_optimizers), or one row can still stop it."""
_ALLOWED = "SELECT columns and row-wise expressions FROM source [WHERE condition]"
_ALWAYS_FREE = ("class", "type", "alias", "query_location")


def check_select(sql: str) -> list[Finding]:
    """List what in a select is not row-wise; empty means that it is.

    Args:
        sql: a SELECT over the relation `source`.
    Privacy: looks at the text of the select only, never at data.
    """
    return _checked(parse_select(sql))


def _checked(tree: Tree | Finding) -> list[Finding]:
    """List what in a parsed select is not row-wise; why it could not be parsed is the one finding then."""
    if isinstance(tree, Finding):
        return [tree]
    try:
        return list(_statement(tree))
    except RecursionError:
        return [flaw("an expression nested too deeply", "a flatter expression")]


def select_tree(sql: str) -> Tree:
    """Return the parsed SELECT of a text in which `check_select` finds nothing.

    Raises:
        SpecRefused: the text cannot be parsed.
    """
    tree = parse_select(sql)
    if isinstance(tree, Finding):
        raise SpecRefused([tree])
    node: Tree = tree["statements"][0]["node"]
    return node


def guarded_select(sql: str, types: Mapping[str, ValueType] | None = None, counted: Sequence[str] = ()) -> str:
    """Return the select as it is to be run: functions pinned to DuckDB's own, failing expressions null.

    Args:
        sql: a SELECT over the relation `source`.
        types: of the columns that expressions read as typed copies, see `contracts.sql.select_types`.
        counted: columns of the source that are given after those of the select, as they are stored.
    Returns:
        SQL over the relation `source`. A computed column is null where its expression fails (a cast of a text that is
        no number, an overflow); a row where the WHERE condition fails is left out. `replace`,
        `regexp_replace`, LIKE, ILIKE and GLOB look at the first 10,000 characters of a text.
    Raises:
        SpecRefused: the select is not row-wise.
    """
    tree = parse_select(sql)
    findings = _checked(tree)
    if findings or isinstance(tree, Finding):
        raise SpecRefused(findings)
    node = tree["statements"][0]["node"]
    select_types.rewrite(node, types or {})
    node["select_list"] = [
        item if item["class"] in ("STAR", "COLUMN_REF") else _tried(item) for item in node["select_list"]
    ]
    if counted:
        listed = ", ".join(f"{identifier(name)} AS {identifier(select_types.COUNTED + name)}" for name in counted)
        node["select_list"] += select_tree(f"SELECT {listed} FROM source")["select_list"]
    if node["where_clause"] is not None:
        node["where_clause"] = _tried(node["where_clause"])
    _guard(node)
    return str(_duckdb("json_deserialize_sql(?::JSON)", json.dumps(tree)))


def _duckdb(call: str, argument: str) -> Any:
    """Evaluate one function of texts."""
    with _parser().cursor() as connection:
        row = connection.execute(f"SELECT {call}", [argument]).fetchone()
    return row[0] if row else None


@cache
def _parser() -> DuckDBPyConnection:
    """A DuckDB for nothing else, which a process makes once: to make one takes longer than to parse."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


def parse_select(sql: str) -> Tree | Finding:
    """Parse a select into DuckDB's tree with every field written out, or say why it cannot be parsed."""
    import duckdb

    call = "json_serialize_sql(?::VARCHAR, skip_null := false, skip_empty := false, skip_default := false)"
    try:
        tree: Tree = json.loads(_duckdb(call, sql))
    except (duckdb.Error, RecursionError, ValueError):
        return flaw("SQL that cannot be parsed", _ALLOWED)
    if not tree.get("error", True):
        return tree
    if tree.get("error_type") == "not implemented":
        return flaw("a statement that is no SELECT", _ALLOWED)
    return flaw(f"SQL that cannot be parsed: {tree.get('error_message')}", _ALLOWED)


def flaw(found: str, allowed: str, remedy: str = "", node: Tree | None = None) -> Finding:
    """Make a finding; the place in the text stands with what was found."""
    place = (node or {}).get("query_location")
    at = f" (character {place + 1})" if isinstance(place, int) and place < 2**62 else ""
    return Finding("select", "select", found + at, allowed, remedy)


def _word(name: str) -> str:
    """How a person calls a part of a statement."""
    return WORDS.get(name, name)


def _statement(tree: Tree) -> Iterator[Finding]:
    """Rule 1: one statement over `source`; rule 2: nothing around it."""
    statements = tree["statements"]
    if len(statements) != 1:
        yield flaw(f"{len(statements)} statements", "one SELECT", "write one statement")
        return
    node = statements[0]["node"]
    if set(statements[0]) != {"node", "named_param_map"} or statements[0]["named_param_map"]:
        yield flaw("a parameter", _ALLOWED, "write the value")
    if node["type"] not in SELECT_NODE.types:
        yield flaw(_word(node["type"]), _ALLOWED)
        return
    yield from _fields(node, SELECT_NODE)
    yield from _from(node["from_table"])
    for item in node["select_list"]:
        yield from _selected(item)
    if node["where_clause"] is not None:
        yield from _expression(node["where_clause"])
    remedy = f"name its columns; a column of this name is {RELATION}.{RELATION}"
    yield from (flaw("the row as a whole", "columns", remedy, each) for each in select_types.whole_rows(node))


def _fields(node: Tree, shape: ExpressionShape) -> Iterator[Finding]:
    """Refuse every field that is unknown to the shape, or that is not as if it had not been written."""
    known = {*_ALWAYS_FREE, *shape.one, *shape.many, *shape.free}
    for key, value in node.items():
        if key in known or (key in shape.neutral and value == shape.neutral[key]):
            continue
        yield flaw(_word(key), _ALLOWED, "leave it out: a select may not combine rows", node)


def _from(table: Tree) -> Iterator[Finding]:
    """Refuse any relation but `source`."""
    if table["type"] not in FROM_TABLE.types:
        yield flaw(_word(table["type"]), "FROM source", node=table)
        return
    yield from _fields(table, FROM_TABLE)
    if table["table_name"].lower() != RELATION:
        yield flaw(f"the relation {table['table_name']!r}", "FROM source", "the table is called `source` here", table)


def _selected(item: Tree) -> Iterator[Finding]:
    """Check one entry of the select list: a star, a column, or a named expression."""
    if item["class"] == "STAR":
        yield from _fields(item, STAR)
        return
    if item["class"] != "COLUMN_REF" and item["class"] in EXPRESSIONS and not item["alias"]:
        yield flaw("an expression without a name", "expression AS name", "add AS and the column's name", item)
    yield from _expression(item)


def _expression(node: Tree) -> Iterator[Finding]:
    """Rule 3: check an expression and everything below it."""
    shape = EXPRESSIONS.get(node["class"])
    if shape is None:
        yield flaw(_word(node["class"]), "columns, constants, CASE, casts, functions", node=node)
        return
    if node["type"] not in shape.types:
        yield flaw(f"the operator {node['type']}", "comparisons, AND, OR, NOT, IN, IS NULL, COALESCE", node=node)
    yield from _fields(node, shape)
    yield from _particulars(node)
    for child in _children(node, shape):
        yield from _expression(child)


def _children(node: Tree, shape: ExpressionShape) -> Iterator[Tree]:
    """The expressions directly below a node."""
    yield from (node[key] for key in shape.one if node.get(key) is not None)
    for key in shape.many:
        yield from node[key]
    for check in node.get("case_checks", ()):
        yield from (check["when_expr"], check["then_expr"])


def _particulars(node: Tree) -> Iterator[Finding]:
    """Check names: of functions, of columns, of types."""
    if node["class"] == "FUNCTION":
        name = node["function_name"].lower()
        if name not in FUNCTIONS or node["schema"] not in ("", "main"):
            shown = f"{node['schema']}.{name}" if node["schema"] not in ("", "main") else name
            allowed = "a row-wise function: " + ", ".join(sorted(word for word in FUNCTIONS if word.isidentifier()))
            yield flaw(f"the function {shown}()", allowed, nearest(name, FUNCTIONS), node)
        for problem in fixed_arguments.problems(name, node["children"]):
            yield flaw(problem.found, problem.allowed, problem.remedy, node)
    elif node["class"] == "COLUMN_REF":
        names = [name.lower() for name in node["column_names"]]
        positions = ROW_POSITIONS.intersection(names)
        if names[0] in SHIFTING_COLUMNS or positions:
            remedy = "" if positions else f"if it is a column of the table, write source.{names[0]}"
            yield flaw(f"{'.'.join(names)}, which is no column of the row", "columns of the row", remedy, node)
    elif node["class"] == "CAST":
        kind = node["cast_type"]
        if kind["id"] not in CAST_TYPES or (kind["type_info"] is not None and kind["id"] != "DECIMAL"):
            name = (kind["type_info"] or {}).get("name", kind["id"])
            yield flaw(f"a cast to {name}", "a cast to one of " + ", ".join(sorted(CAST_TYPES)), node=node)


def _tried(node: Tree) -> Tree:
    """Wrap an expression in TRY, which is null where the expression fails."""
    inner = {**node, "alias": ""}
    return {
        "class": "OPERATOR",
        "type": "OPERATOR_TRY",
        "alias": node["alias"],
        "query_location": 0,
        "children": [inner],
    }


def _guard(node: Any) -> None:
    """Name DuckDB's own catalog on every function, operators included; guard its arguments, and casts to text."""
    if isinstance(node, list):
        for value in node:
            _guard(value)
    if not isinstance(node, dict):
        return
    for value in list(node.values()):
        _guard(value)
    if node.get("class") == "FUNCTION":
        name = node["function_name"].lower()
        called = fixed_arguments.NAMES.get(name, node["function_name"])
        children = fixed_arguments.guarded(name, node["children"])
        node.update(function_name=called, catalog="system", schema="main", is_operator=False, children=children)
    elif node.get("class") == "CAST" and node["cast_type"]["id"] == "VARCHAR":
        named = fixed_arguments.as_text(node["child"], tried=node["try_cast"]) | {"alias": node["alias"]}
        node.clear()
        node.update(named)
