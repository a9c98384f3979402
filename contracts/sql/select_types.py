"""Which columns of the source the expressions of a `select:` use, and the type that each of them has there.

A column that the select hands on (`sex`, `Age AS age`, `*`) arrives as it is stored: the contract reads it by value.
In an expression or a WHERE it has a type that is fixed before a row is looked at: the one that `types:` declares,
or else that of the contract's column that it is handed on as. A stored type never decides what a select means, or
whether it can be evaluated, since a writer may choose it for the sake of one row.

Typed copies stand beside the source's columns under names that no table has; `rewrite` makes expressions read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, word_list
from contracts.sql.select_grammar import Tree
from contracts.sql.value_types import VALUE_TYPES, ValueType

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
    """Yield all nodes of a tree."""
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
    from contracts.sql.value_types import typed_sql

    with duckdb.connect() as connection:
        row = connection.execute(f"SELECT {typed_sql('text', literal(text) + '::VARCHAR')}").fetchone()
    return text if row is None else str(row[0])
