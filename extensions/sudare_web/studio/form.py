"""What the form shows of contract and spec: their YAML as choices. What has no choice is edited in the YAML.

The form is a function of the two texts. A text that cannot be read has no form until it can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from contracts.reading.placeholders import PLACEHOLDER
from sudare_web.studio.product_form import GENERATORS, WHATS, StatisticChoice, statistics_of, synthetic_form
from sudare_web.studio.yaml_text import flow, tree_of

RANGE: Final = re.compile(r"(?:(integer|number|date)\s+)?(\S+?)\s*\.\.\s*([^\s,]+)(?:\s+(by|at)\s+(.+))?")
KINDS: Final = ("open", "whole", "number", "date", "values", "labels", "other")
MECHANISMS: Final = ("laplace", "gaussian", "auto")
PRODUCTS: Final = ("tables", "statistics", "synthetic")
METHODS: Final = ("none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy", "auto")
_SHORT: Final = ("range", "values", "labels")


@dataclass(frozen=True)
class ColumnForm:
    """A column of a short contract as choices.

    Args:
        name: of the column.
        kind: how its domain is declared, one of `KINDS`; "open" is not declared yet.
        low, high, step: ends of a range, and "by 5" or "at 18, 40" or "by month".
        listed: a list of values, or codes with labels, a line each.
        written: its YAML.
        inner: the key that holds the domain within a block of keys; empty where the domain stands alone.
    """

    name: str
    kind: str
    low: str = ""
    high: str = ""
    step: str = ""
    listed: str = ""
    written: str = ""
    inner: str = ""


@dataclass(frozen=True)
class TableChoice:
    """A published table as choices.

    Args:
        place: in the spec's list.
        columns: by which it counts; empty for an entry that stands for many tables.
        weight: of its share.
        written: its YAML.
        chosen: whether it can be chosen on the form.
        statistics: of a table of statistics, what it tells of each cell.
    """

    place: int
    columns: tuple[str, ...]
    weight: str
    written: str
    chosen: bool
    statistics: tuple[StatisticChoice, ...] = ()


def form_of(spec: str, contract: str | None) -> dict[str, Any]:
    """Return what the form shows.

    Args:
        spec, contract: the texts; None where there is no contract that the page may show.
    Returns:
        dict: `spec` and `contract`, each None where the text is no YAML mapping.
    """
    declared = None if contract is None else _tree(contract)
    return {
        "spec": _spec(_tree(spec)),
        "contract": None if declared is None else _contract(declared),
        "columns": [] if declared is None else column_names(declared),
        "kinds": KINDS,
        "mechanisms": MECHANISMS,
        "methods": METHODS,
        "products": PRODUCTS,
        "numbers": [] if declared is None else numeric_columns(declared),
        "whats": WHATS,
        "generators": GENERATORS,
    }


def contract_file(spec: str) -> str:
    """Return the contract that a spec names; empty where it names none."""
    return text_at(_tree(spec) or {}, "contract")


def text_at(tree: Any, *at: str | int) -> str:
    """Return the text at a place; empty where there is none."""
    for step in at:
        inside = isinstance(tree, dict) or (isinstance(tree, list) and isinstance(step, int) and step < len(tree))
        tree = (tree.get(step) if isinstance(tree, dict) else tree[step]) if inside else None
    return tree if isinstance(tree, str) else ""


def column_names(contract: dict[str, Any]) -> list[str]:
    """Name the columns of a contract with a domain, in the short form or the long one."""
    columns = contract.get("columns")
    if isinstance(columns, dict):
        return list(columns)
    schema = contract.get("schema")
    tables = schema if isinstance(schema, list) else []
    properties = tables[0].get("properties") if tables and isinstance(tables[0], dict) else None
    return [
        name
        for each in (properties if isinstance(properties, list) else [])
        if (name := text_at(each, "name")) and isinstance(each.get("customProperties"), list)
    ]


def numeric_columns(contract: dict[str, Any]) -> list[str]:
    """Name the columns that may be summed: of a short contract those of ranges of numbers, of a long one all."""
    columns = contract.get("columns")
    if not isinstance(columns, dict):
        return column_names(contract)
    return [name for name, node in columns.items() if column_of(name, node).kind in ("whole", "number", "other")]


def columns_of_table(entry: Any) -> list[str] | None:
    """Return the columns of an entry of `tables:`; None for one that stands for many tables."""
    listed = entry.get("columns", entry.get("by")) if isinstance(entry, dict) else entry
    plain = isinstance(listed, list) and all(isinstance(each, str) for each in listed)
    return list(listed) if isinstance(listed, list) and plain else None


def _tree(text: str) -> dict[str, Any] | None:
    try:
        tree = tree_of(text)
    except yaml.YAMLError:
        return None
    return tree if isinstance(tree, dict) else None


def _spec(tree: dict[str, Any] | None) -> dict[str, Any] | None:
    if tree is None:
        return None
    product = tree.get("product")
    listed = product.get("tables") if isinstance(product, dict) else None
    return {
        "release": text_at(tree, "release"),
        "contract": text_at(tree, "contract"),
        "source": text_at(tree, "source", "path"),
        "account": text_at(tree, "charge", "account"),
        "epsilon": text_at(tree, "charge", "epsilon"),
        "delta": text_at(tree, "charge", "delta"),
        "kind": text_at(product, "kind"),
        "mechanism": text_at(product, "mechanism"),
        "method": text_at(product, "refine", "method") or "none",
        "tables": [_table(place, each) for place, each in enumerate(listed if isinstance(listed, list) else [])],
        "all": listed if isinstance(listed, str) else "",
        "synthetic": synthetic_form(product),
    }


def _table(place: int, entry: Any) -> TableChoice:
    columns = columns_of_table(entry)
    written = entry if isinstance(entry, str) else flow(entry)
    weight = text_at(entry, "weight") or "1"
    return TableChoice(place, tuple(columns or ()), weight, written, columns is not None, statistics_of(entry))


def _contract(tree: dict[str, Any]) -> dict[str, Any]:
    columns, left_out, defaults = (tree.get(key) for key in ("columns", "left_out", "defaults"))
    provenance, reference = provenance_of(defaults.get("provenance") if isinstance(defaults, dict) else None)
    return {
        "short": "schema" not in tree,
        "id": text_at(tree, "id"),
        "unit": {key: text_at(tree, "unit", key) for key in ("kind", "scope", "column", "max_rows_per_unit")},
        "adjacency": text_at(tree, "adjacency"),
        "nulls": text_at(tree, "defaults", "nulls"),
        "missing": _texts(defaults.get("missing") if isinstance(defaults, dict) else None),
        "provenance": provenance,
        "reference": reference,
        "left_out": _texts(left_out),
        "columns": [column_of(*each) for each in columns.items()] if isinstance(columns, dict) else [],
    }


def _texts(node: Any) -> list[str]:
    """Return the texts of a list; what is no list has none."""
    return [each for each in node if isinstance(each, str)] if isinstance(node, list) else []


def provenance_of(node: Any) -> tuple[str, str]:
    """Return of which kind a provenance is, and the public document that it names; both may be open."""
    if isinstance(node, dict):
        kind = "public" if "public" in node else text_at(node, "kind")
        return kind, text_at(node, "public") or text_at(node, "reference")
    return node if isinstance(node, str) else "", ""


def column_of(name: str, node: Any) -> ColumnForm:
    """Read a column's line as a choice; what is none of them is "other"."""
    written = node if isinstance(node, str) else flow(node)
    inner = next((key for key in _SHORT if isinstance(node, dict) and key in node), "")
    domain = node[inner] if inner else node
    if isinstance(domain, str):
        return _range(name, domain, written, inner)
    listed = isinstance(domain, list) and all(isinstance(each, str) for each in domain)
    if listed and inner in ("", "values"):
        return ColumnForm(name, "values", listed="\n".join(domain), written=written, inner=inner)
    coded = isinstance(domain, dict) and all(isinstance(each, str) for each in domain.values())
    if coded and (inner == "labels" or (not inner and "kind" not in domain)):
        lines = "\n".join(f"{code} = {label}" for code, label in domain.items())
        return ColumnForm(name, "labels", listed=lines, written=written, inner=inner)
    return ColumnForm(name, "other", written=written)


def _range(name: str, domain: str, written: str, inner: str) -> ColumnForm:
    if domain == PLACEHOLDER:
        return ColumnForm(name, "open", written=written, inner=inner)
    found = RANGE.fullmatch(domain.strip())
    if found is None or inner not in ("", "range"):
        return ColumnForm(name, "other", written=written)
    stated, low, high, how, step = found.groups()
    kind = {"number": "number", "date": "date"}.get(stated or "") or _kind_of(low)
    return ColumnForm(name, kind, low, high, f"{how} {step}" if how else "", written=written, inner=inner)


def _kind_of(low: str) -> str:
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", low):
        return "date"
    return "number" if "." in low else "whole"
