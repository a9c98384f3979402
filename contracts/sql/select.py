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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.notation import MOMENT
from contracts.domains.value_sql import NATIVE, id_sql, identifier, literal, moment_sql, number_sql, text_sql
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.sql import constant_arguments as fixed_arguments
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

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# --- The types in which a `select:` sees the columns of a source, and SQL that reads any stored value as one of them.


ValueType = Literal["text", "id", "number", "flag", "day", "moment", "numbers"]
VALUE_TYPES: Final[tuple[ValueType, ...]] = ("text", "id", "number", "flag", "day", "moment", "numbers")
_DECIMALS: Final = "-?(0|[1-9][0-9]*)[.][0-9]*"
"""A number as a writer of doubles or decimals spells it; no leading nought, which belongs to a code."""


def typed_sql(kind: ValueType, raw: str) -> str:
    """Return SQL for a value as a type, null where it is none; never an error, and the same for all stored types.

    Args:
        kind: the type.
        raw: SQL for the value as it is stored (a quoted name).
    """
    return f"CAST({_READ[kind](raw)} AS {_SQL[kind]})"


def _number(raw: str) -> str:
    return f"nullif({number_sql(raw)}, 'nan'::DOUBLE)"


def _flag(raw: str) -> str:
    return f"CASE {_number(raw)} WHEN 1e0 THEN true WHEN 0e0 THEN false END"


def _id(raw: str) -> str:
    """Return the text of an id: that of a number by its exact digits."""
    return f"CASE WHEN {_is_number(raw)} THEN {id_sql(raw)} ELSE {_text(raw)} END"


def _is_number(raw: str) -> str:
    natives = ", ".join(literal(each) for each in (*NATIVE, "HUGEINT", "UHUGEINT") if each != "BOOLEAN")
    return f"(typeof({raw}) IN ({natives}) OR starts_with(typeof({raw}), 'DECIMAL'))"


def _text(raw: str) -> str:
    """Return the text of a value. `typeof` is constant over a column, so that one branch is left of these."""
    kind, number = f"typeof({raw})", _number(raw)
    nested = f"{kind} LIKE '%]' OR regexp_matches({kind}, '^(STRUCT|MAP|UNION)[(]') OR {kind} = 'VARIANT'"
    whole = f"CASE WHEN CAST(TRY_CAST({number} AS BIGINT) AS DOUBLE) = {number} THEN TRY_CAST({number} AS BIGINT) END"
    return (
        f"CASE WHEN {nested} THEN NULL "
        f"WHEN {_is_number(raw)} "
        f"THEN COALESCE(CAST({whole} AS VARCHAR), CAST({number} AS VARCHAR)) "
        f"WHEN {kind} = 'DATE' OR starts_with({kind}, 'TIMESTAMP') THEN {_written(f'TRY_CAST({raw} AS TIMESTAMP)')} "
        f"ELSE {_spelled(text_sql(raw))} END"
    )


def _moment(raw: str) -> str:
    instant = f"typeof({raw}) = 'TIMESTAMP WITH TIME ZONE'"
    return f"CASE WHEN {instant} THEN {moment_sql(raw)} ELSE TRY_CAST({raw} AS TIMESTAMP) END"


def _written(moment: str) -> str:
    """Return the text of a moment; at midnight that of its day."""
    midnight = f"date_trunc('day', {moment}) = {moment}"
    return f"TRY(CASE WHEN {midnight} THEN CAST({moment} AS DATE)::VARCHAR ELSE CAST({moment} AS VARCHAR) END)"


def _spelled(text: str) -> str:
    """Return a text as it stands, but for what a writer's type decides: decimals that are 0, midnights, capitals."""
    return (
        f"CASE WHEN regexp_full_match({text}, {literal(_DECIMALS)}) THEN rtrim(rtrim({text}, '0'), '.') "
        f"WHEN regexp_full_match({text}, {literal(MOMENT)}) "
        f"THEN COALESCE({_written(f'TRY_CAST({text} AS TIMESTAMP)')}, {text}) "
        f"WHEN lower({text}) IN ('true', 'false') THEN lower({text}) ELSE {text} END"
    )


_SQL: Final[Mapping[ValueType, str]] = {
    "text": "VARCHAR",
    "id": "VARCHAR",
    "number": "DOUBLE",
    "flag": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "numbers": "DOUBLE[]",
}
_READ: Final[Mapping[ValueType, Callable[[str], str]]] = {
    "text": _text,
    "id": _id,
    "number": _number,
    "flag": _flag,
    "day": lambda raw: f"TRY_CAST({raw} AS DATE)",
    "moment": _moment,
    "numbers": lambda raw: f"TRY_CAST({raw} AS DOUBLE[])",
}


# --- Which columns of the source the expressions of a `select:` use, and the type that each of them has there.


RELATION: Final = "source"
TYPED, STORED = "\x02", "\x03"
"""How the names of copies begin: of typed ones, and of fields of records as they are stored."""
COUNTED: Final = "\x06"
"""How the names begin of columns that stand after what a select gives, so that their different values are counted."""
_OF_LOGICAL_TYPES: Final[Mapping[str, ValueType]] = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "flag",
    "date": "day",
    "array": "numbers",
}


def used_columns(node: Tree) -> tuple[str, ...]:
    """List the columns that the expressions of a parsed SELECT use, in lower case; fields of records with dots."""
    return tuple(dict.fromkeys(".".join(path_of(each, node)) for each in _expressions(node)))


def handed_fields(node: Tree) -> tuple[str, ...]:
    """List the fields of records that a parsed SELECT hands on as they are stored, as `used_columns` writes them."""
    paths = (path_of(item, node) for item in node["select_list"] if item["class"] == "COLUMN_REF")
    return tuple(dict.fromkeys(".".join(path) for path in paths if len(path) > 1))


def read_as(node: Tree, contract: Contract) -> dict[str, Column]:
    """Return how the contract reads what a parsed SELECT hands on, by the source's names in lower case.

    A column that is handed on twice is read in one way, the first. One with a field in use is left out.
    """
    paths = (path_of(item, node) for item in node["select_list"] if item["class"] == "COLUMN_REF")
    named = {path[0] for path in paths if len(path) == 1}
    if any(item["class"] == "STAR" for item in node["select_list"]):
        named |= {column.name.lower() for column in contract.columns}
    columns = {column.name.lower(): column for column in contract.columns}
    named -= {path.partition(".")[0] for path in (*used_columns(node), *handed_fields(node)) if "." in path}
    found = {name: [columns[each] for each in _handed_as(name, node) if each in columns] for name in named}
    return {name: handed[0] for name, handed in found.items() if handed}


def sources_of(node: Tree, output: str) -> tuple[set[str], set[str]]:
    """Return the columns of the source that an output of a SELECT hands on, and those that it is computed from."""
    name, handed, computed = output.lower(), set[str](), set[str]()
    for item in node["select_list"]:
        if item["class"] == "STAR":
            handed |= {name} - {each.lower() for each in item["exclude_list"]}
        elif (item["alias"] or item.get("column_names", [""])[-1]).lower() == name:
            paths = {".".join(path_of(each, node)) for each in _nodes(item) if each.get("class") == "COLUMN_REF"}
            handed, computed = (
                (handed | paths, computed) if item["class"] == "COLUMN_REF" else (handed, computed | paths)
            )
    return handed, computed


def whole_rows(node: Tree) -> list[Tree]:
    """List the references to the row as a whole, whose text would depend on how all columns are stored."""
    refs = [*_expressions(node), *(item for item in node["select_list"] if item["class"] == "COLUMN_REF")]
    return [each for each in refs if [name.lower() for name in each["column_names"]] == [_relation(node)]]


def types_of(
    node: Tree, declared: Mapping[str, ValueType], contract: Contract, *, date_column: str | None
) -> tuple[dict[str, ValueType], list[Problem]]:
    """Return the type of each column that the expressions of a SELECT use, and what is missing or too much.

    Args:
        node: the parsed SELECT.
        declared: types by column of the source, as the spec writes them.
        contract: gives the type of a column that is handed on as one of its own.
        date_column: the column of days, which is handed on as it is; None where there is none.
    Returns:
        The types by the names of `used_columns`, and problems below `source`.
    """
    written = {name.lower(): kind for name, kind in declared.items()}
    found: dict[str, ValueType] = {}
    unknown: dict[str, ValueType] = {}
    used = used_columns(node)
    for name in used:
        handed = {_of_the_contract(each, contract, date_column) for each in _handed_as(name, node)} - {None}
        kind = written.get(name) or (handed.pop() if len(handed) == 1 else None)
        if kind is not None:
            found[name] = kind
        else:
            unknown[name] = _of_the_contract(name, contract, date_column) or "text"
    unit = contract.unit.column
    ids = set[str]() if unit is None else sources_of(node, unit)[1]
    exact = ids.union(*(sources_of(node, name)[1] for name in contract.texts()))
    found |= {name: "id" for name in exact if found.get(name) == "text"}
    problems = [
        Problem(
            f"ids that are computed from {name!r}, a {found[name]}",
            "ids of texts: numbers have 53 bits, and large ids would be one",
            f"write `types: {{{_key(name)}: id}}`, and CAST({name} AS BIGINT) where the select computes with it",
            ("types",),
        )
        for name in sorted(ids)
        if found.get(name) in ("number", "numbers")
    ]
    problems += [
        Problem(
            f"a type of {name!r}, which no expression of the select uses",
            "columns that it computes or filters with; one that it only hands on is read by the contract",
            "drop it, or correct the name",
            ("types",),
        )
        for name in declared
        if name.lower() not in used
    ]
    if unknown:
        lines = ", ".join(f"{_key(name)}: {kind}" for name, kind in unknown.items())
        remedy = f"write `types: {{{lines}}}` under `source:`, with what each column holds"
        names = ", ".join(map(repr, unknown))
        allowed = f"{word_list(VALUE_TYPES)} for each column that the select computes or filters with"
        problems.append(Problem(f"no type for {names}", allowed, remedy, ("types",)))
    return found, problems


def rewrite(node: Tree, types: Mapping[str, ValueType]) -> None:
    """Let a parsed SELECT read typed copies in its expressions, and keep the copies out of `*`.

    A literal that is held against a text is spelled as the text is: `code = '1.0'` means the code 1.
    """
    fields = handed_fields(node)
    _respell(node, node, types)
    for each in _expressions(node):
        name = ".".join(path_of(each, node))
        if name in types:
            each["column_names"] = [TYPED + name]
    for item in node["select_list"]:
        if item["class"] == "COLUMN_REF" and len(path := path_of(item, node)) > 1:
            item.update(alias=item["alias"] or item["column_names"][-1], column_names=[STORED + ".".join(path)])
        elif item["class"] == "STAR":
            copies = [*(TYPED + name for name in types), *(STORED + name for name in fields)]
            item["exclude_list"] = [*item["exclude_list"], *copies]


def path_of(reference: Tree, node: Tree) -> tuple[str, ...]:
    """Return what a reference means: a column, and fields of records in it; in lower case, without the relation."""
    names = tuple(name.lower() for name in reference["column_names"])
    return names[1:] if len(names) > 1 and names[0] == _relation(node) else names


def _relation(node: Tree) -> str:
    """The name of the relation, in lower case."""
    return str(node["from_table"]["alias"] or RELATION).lower()


def _expressions(node: Tree) -> list[Tree]:
    """The references in computed columns and in the condition."""
    computed = [item for item in node["select_list"] if item["class"] not in ("COLUMN_REF", "STAR")]
    return [each for each in _nodes([*computed, node["where_clause"]]) if each.get("class") == "COLUMN_REF"]


def _nodes(tree: Any) -> Iterator[Tree]:
    if isinstance(tree, dict):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(value)


def _handed_as(name: str, node: Tree) -> Iterator[str]:
    """Yield the names under which a column of the source is handed on, in lower case."""
    for item in node["select_list"]:
        if item["class"] == "COLUMN_REF" and ".".join(path_of(item, node)) == name:
            yield (item["alias"] or item["column_names"][-1]).lower()
        elif item["class"] == "STAR" and name not in {each.lower() for each in item["exclude_list"]}:
            yield name


def _of_the_contract(name: str, contract: Contract, date_column: str | None) -> ValueType | None:
    """Return the type of the contract's column of a name; None where it has none."""
    for column in contract.columns:
        if column.name.lower() == name:
            return _OF_LOGICAL_TYPES[column.logical_type]
    if date_column is not None and date_column.lower() == name:
        return "day"
    return "text" if contract.unit.column is not None and contract.unit.column.lower() == name else None


def _key(name: str) -> str:
    """Write a name as a key of YAML."""
    return name if name.isidentifier() else "'" + name.replace("'", "''") + "'"


def _respell(tree: Any, node: Tree, types: Mapping[str, ValueType]) -> None:
    """Spell the literals that comparisons hold against a column of texts as `typed_sql` spells its values."""
    for each in _nodes(tree):
        parts = [each[key] for key in ("left", "right", "input", "lower", "upper") if isinstance(each.get(key), dict)]
        if each.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN") or each.get("function_name") == "nullif":
            parts = each["children"]
        texts = [
            part
            for part in parts
            if part["class"] == "COLUMN_REF" and types.get(".".join(path_of(part, node))) in ("text", "id")
        ]
        for part in parts if texts else ():
            if part["class"] == "CONSTANT" and part["value"]["type"]["id"] == "VARCHAR":
                part["value"]["value"] = _as_spelled(part["value"]["value"])


def _as_spelled(text: str) -> str:
    """Return a literal as a column of texts would hold it."""
    import duckdb

    from contracts.domains.value_sql import literal

    pass

    with duckdb.connect() as connection:
        row = connection.execute(f"SELECT {typed_sql('text', literal(text) + '::VARCHAR')}").fetchone()
    return text if row is None else str(row[0])


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
        types: of the columns that expressions read as typed copies, see `contracts.sql.select`.
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
    rewrite(node, types or {})
    node["select_list"] = [
        item if item["class"] in ("STAR", "COLUMN_REF") else _tried(item) for item in node["select_list"]
    ]
    if counted:
        listed = ", ".join(f"{identifier(name)} AS {identifier(COUNTED + name)}" for name in counted)
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
    yield from (flaw("the row as a whole", "columns", remedy, each) for each in whole_rows(node))


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


# --- Columns that a select has to pass through as they are.


def check_unit(sql: str, column: str) -> list[Finding]:
    """List why the id of the privacy unit does not pass through a select as it is; empty means that it does.

    An id that the select computes could give one person as many ids as rows, and the bound on rows a unit would
    bound nothing. So the output column of that name is the source's own: by `*`, or by its bare name. Nor is it
    compared with a literal: a select is published, and who opted out would stand there by name.

    Args:
        sql: a SELECT over the relation `source` in which `check_select` finds nothing.
        column: the unit's id column; upper and lower case do not matter.
    Privacy: looks at the text of the select only, never at data.
    """
    passes = _passes(sql, column, "for the privacy unit's id", "it says whose rows are counted together")
    return passes or _names_somebody(sql, column)


def _names_somebody(sql: str, column: str) -> list[Finding]:
    """List comparisons of the unit's id with a literal; the literal, which is somebody's id, is not shown."""
    tree = parse_select(sql)
    if isinstance(tree, Finding):
        return [tree]
    found = _id_literals(tree["statements"][0]["node"], column)
    what, allowed = "a literal beside the privacy unit's id", "no id of anybody: the select is published as it stands"
    remedy = "mark the rows in a column of the source where the table is made, and select by that"
    return [flaw(what, allowed, remedy, node) for node in found[:1]]


def compares_literals(sql: str) -> bool:
    """Say whether a select holds a column against a literal, which is published with it.

    Args:
        sql: a SELECT over the relation `source` in which `check_select` finds nothing.
    """
    tree = parse_select(sql)
    return not isinstance(tree, Finding) and bool(_literal_comparisons(tree["statements"][0]["node"]))


def check_by(sql: str, column: str) -> list[Finding]:
    """List why the column that tells periods apart does not pass through a select as it is; as `check_unit`.

    A day that the select computes could put one row into several periods, whose accounts do not know of each other.
    """
    return _passes(sql, column, "for the column of days", "it says which period a row belongs to")


def _passes(sql: str, column: str, what: str, why: str) -> list[Finding]:
    """List why a column of the source is not, unchanged and once, among those that a select makes."""
    tree = parse_select(sql)
    if isinstance(tree, Finding):
        return [tree]
    node = tree["statements"][0]["node"]
    relation = (node["from_table"]["alias"] or RELATION).lower()
    named = [item for item in node["select_list"] if column.lower() in _outputs(item, column)]
    if len(named) == 1 and _is_own(named[0], column.lower(), relation):
        return []
    found = (
        "a select without it" if not named else f"{len(named)} columns of this name" if named[1:] else "another value"
    )
    allowed = f"the source's column {column!r}, unchanged and once"
    remedy = f"select {relation}.{_quoted(column)} as it is, or by *: {why}"
    return [flaw(f"{what} {column!r}: {found}", allowed, remedy, *named[-1:])]


def _outputs(item: Tree, column: str) -> tuple[str, ...]:
    """The name of an output column in lower case; of a star, `column` unless it is excluded."""
    if item["class"] == "STAR":
        excluded = {name.lower() for name in item["exclude_list"]}
        return () if column.lower() in excluded else (column.lower(),)
    return ((item["alias"] or item["column_names"][-1]).lower(),)


def _is_own(item: Tree, column: str, relation: str) -> bool:
    """Say whether an output column is the source's column of that name; a whole row or a field of one is not."""
    if item["class"] == "STAR":
        return item["relation_name"].lower() in ("", relation)
    if item["class"] != "COLUMN_REF":
        return False
    names = [name.lower() for name in item["column_names"]]
    return names == [relation, column] or (names == [column] and column != relation)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


def _id_literals(node: Tree, column: str) -> list[Tree]:
    """List the comparisons and calls in which the unit's id stands beside a literal.

    Args:
        node: a parsed SELECT of DuckDB.
        column: the unit's id column; upper and lower case do not matter.
    Returns:
        Their nodes, outer ones first.
    """
    return [each for each in _literal_comparisons(node) if _mentions(each, column.lower())]


def _literal_comparisons(node: Tree) -> list[Tree]:
    """List the comparisons and calls in which any column stands beside a literal, outer ones first."""
    return [each for each in _nodes(node) if _compares(each) and _mentions(each) and any(map(_is_name, _nodes(each)))]


def _compares(node: Tree) -> bool:
    """Say whether a node is a comparison or a call, whose arguments are held against each other."""
    return node.get("class") in ("COMPARISON", "BETWEEN", "FUNCTION") or node.get("type") in (
        "COMPARE_IN",
        "COMPARE_NOT_IN",
    )


def _mentions(node: Tree, column: str | None = None) -> bool:
    """Say whether a column, or any column without a name, stands somewhere in a node."""
    names = [name.lower() for each in _nodes(node) for name in each.get("column_names", ())]
    return bool(names) if column is None else column in names


def _is_name(node: Tree) -> bool:
    """Say whether a node is a literal that could be an id; an empty text is nobody's."""
    return node.get("class") == "CONSTANT" and not node["value"]["is_null"] and node["value"].get("value") != ""
