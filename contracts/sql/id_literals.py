"""Literals that a select compares columns with: a select is published, and each could tell of somebody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.sql.select_grammar import Tree


def id_literals(node: Tree, column: str) -> list[Tree]:
    """List the comparisons and calls in which the unit's id stands beside a literal.

    Args:
        node: a parsed SELECT of DuckDB.
        column: the unit's id column; upper and lower case do not matter.
    Returns:
        Their nodes, outer ones first.
    """
    return [each for each in literal_comparisons(node) if _mentions(each, column.lower())]


def literal_comparisons(node: Tree) -> list[Tree]:
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
