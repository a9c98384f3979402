"""Columns that a select has to pass through as they are: the privacy unit's id, and the column of days.

A select is published too. So literals that it compares columns with are looked for: each could tell of somebody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.errors import Finding
from contracts.sql.select_grammar import Tree
from contracts.sql.select_types import RELATION
from contracts.sql.selection import flaw, parse_select


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
    """Write a name as SQL reads it."""
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


def _nodes(tree: Any) -> Iterator[Tree]:
    """Yield all nodes of a tree."""
    if isinstance(tree, dict):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(value)


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
