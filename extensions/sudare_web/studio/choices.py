"""Choices on the form: each is a small change of one of the two texts.

| choice | changes |
|---|---|
| `release`, `source`, `account`, `epsilon`, `delta`, `mechanism`, `method` | a value of the spec |
| `table.add`, `table.drop`, `table.column`, `table.weight` | the list of tables |
| `unit.KEY`, `adjacency`, `nulls`, `missing`, `provenance`, `reference` | a value of the contract |
| those of `product_choices` | kind of the product, statistics, synthetic rows |
| `column.kind`, `column.range`, `column.listed`, `column.left_out`, `column.taken_in` | a column of the contract |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml

from contracts.reading.placeholders import PLACEHOLDER
from sudare_web.studio.form import ColumnForm, column_of, columns_of_table, provenance_of
from sudare_web.studio.product_choices import OF_PRODUCTS
from sudare_web.studio.yaml_text import YamlStep, YamlTree, tree_of, with_value, without

_SPEC: Final[dict[str, tuple[YamlStep, ...]]] = {
    "release": ("release",),
    "source": ("source", "path"),
    "account": ("charge", "account"),
    "epsilon": ("charge", "epsilon"),
    "delta": ("charge", "delta"),
    "mechanism": ("product", "mechanism"),
    "method": ("product", "refine", "method"),
}
_CONTRACT: Final[dict[str, tuple[YamlStep, ...]]] = {
    "id": ("id",),
    "unit.kind": ("unit", "kind"),
    "unit.scope": ("unit", "scope"),
    "unit.column": ("unit", "column"),
    "unit.max_rows_per_unit": ("unit", "max_rows_per_unit"),
    "adjacency": ("adjacency",),
    "nulls": ("defaults", "nulls"),
}
_TABLES: Final[tuple[YamlStep, ...]] = ("product", "tables")
_LONGEST: Final = 100_000
_EXAMPLES: Final = {
    "whole": "0..99 by 10",
    "number": "number 0..100 by 10",
    "date": "2024-01-01..2024-12-31 by month",
    "open": PLACEHOLDER,
}
"""What stands there when a kind is chosen, to be corrected. Public: nothing of it is learned from rows."""


class NoChoice(ValueError):
    """No such choice, or none that the text has a place for."""


def chosen(spec: str, contract: str, name: str, at: str, value: str) -> tuple[str, str]:
    """Return both texts with a choice in them.

    Args:
        spec, contract: the texts.
        name: of the choice.
        at: which column or table it is about; empty for the others.
        value: what was chosen.
    Raises:
        NoChoice: it cannot be made.
    """
    if len(value) > _LONGEST:
        raise NoChoice(name)
    try:
        if not isinstance(tree_of(contract if name in _CONTRACT or name in _OF_CONTRACT else spec), dict):
            raise NoChoice(name)
        if name in _SPEC:
            return with_value(spec, _SPEC[name], value.strip()), contract
        if name in _CONTRACT:
            return spec, _term(contract, _CONTRACT[name], value.strip())
        if name in _OF_TABLES:
            return _OF_TABLES[name](spec, at, value), contract
        if name in OF_PRODUCTS:
            return OF_PRODUCTS[name](spec, contract, at, value), contract
        if name in _OF_CONTRACT:
            return spec, _OF_CONTRACT[name](contract, at, value)
    except (yaml.YAMLError, ValueError, LookupError, TypeError):  # whatever tree a person has typed
        raise NoChoice(name) from None
    raise NoChoice(name)


def _term(contract: str, at: tuple[YamlStep, ...], value: str) -> str:
    """Write a term; a person's rows have neither column nor number where a row is the unit."""
    text = with_value(contract, at, value) if value else without(contract, at)
    if at == ("unit", "kind") and value == "row":
        text = without(without(text, ("unit", "column")), ("unit", "max_rows_per_unit"))
    return text


def _tables(spec: str) -> list[Any]:
    tree: Any = tree_of(spec)
    product = tree.get("product") if isinstance(tree, dict) else None
    listed = product.get("tables") if isinstance(product, dict) else None
    if isinstance(listed, str):
        return [listed]
    return listed if isinstance(listed, list) else []


def _add_table(spec: str, at: str, value: str) -> str:
    """Add a table by columns (a line each), or `all 2-way`."""
    names: YamlTree = value if value.startswith("all ") else [each for each in value.split("\n") if each]
    tables = _tables(spec)
    if _is_of_statistics(spec):
        if not isinstance(names, list):
            raise NoChoice("table.add")
        names = {"by": names, "of": ["count"]}  # without columns it is about all rows together
    if not names or names in tables:
        raise NoChoice("table.add")
    if isinstance(tree_of(spec), dict) and len(tables) and not _is_list(spec):
        return with_value(spec, _TABLES, [*tables, names])
    return with_value(spec, (*_TABLES, len(tables)), names) if tables else with_value(spec, _TABLES, [names])


def _is_list(spec: str) -> bool:
    tree: Any = tree_of(spec)
    return isinstance(tree["product"]["tables"], list)


def _is_of_statistics(spec: str) -> bool:
    tree: Any = tree_of(spec)
    product = tree.get("product")
    return isinstance(product, dict) and product.get("kind") == "statistics"


def _drop_table(spec: str, at: str, value: str) -> str:
    return without(spec, (*_TABLES, int(at))) if _is_list(spec) else with_value(spec, _TABLES, [])


def _table_column(spec: str, at: str, value: str) -> str:
    """Count a table by a column too, or no longer."""
    entry = _tables(spec)[int(at)]
    columns, of_statistics = columns_of_table(entry), isinstance(entry, dict) and "of" in entry
    if columns is None or (columns == [value] and not of_statistics):
        raise NoChoice("table.column")
    columns = [each for each in columns if each != value] if value in columns else [*columns, value]
    inner = ("by" if of_statistics else "columns",) if isinstance(entry, dict) else ()
    return with_value(spec, (*_TABLES, int(at), *inner), list(columns))


def _table_weight(spec: str, at: str, value: str) -> str:
    entry = _tables(spec)[int(at)]
    place = (*_TABLES, int(at))
    if isinstance(entry, dict):
        return without(spec, (*place, "weight")) if value == "1" else with_value(spec, (*place, "weight"), value)
    columns = columns_of_table(entry)
    if columns is None:
        raise NoChoice("table.weight")
    return spec if value == "1" else with_value(spec, place, {"columns": list(columns), "weight": value})


def _column(contract: str, name: str) -> ColumnForm:
    tree: Any = tree_of(contract)
    return column_of(name, tree["columns"][name])


def _column_kind(contract: str, at: str, value: str) -> str:
    """Begin a column's domain anew; an example stands there until somebody corrects it."""
    column = _column(contract, at)
    inner = ("range", "values", "labels") if column.inner else ()
    text = contract
    for key in inner:
        text = without(text, ("columns", at, key))
    listed: dict[str, YamlTree] = {"values": [PLACEHOLDER], "labels": {"1": PLACEHOLDER}}
    new = listed.get(value) or _EXAMPLES[value]
    key = {"values": "values", "labels": "labels"}.get(value, "range")
    return with_value(text, ("columns", at, key) if column.inner and value != "open" else ("columns", at), new)


def _column_range(contract: str, at: str, value: str) -> str:
    """Write a range out of kind, ends and step (a line each)."""
    kind, low, high, step = (value.split("\n") + [""] * 4)[:4]
    stated = "number " if kind == "number" else ""
    written = f"{stated}{low.strip() or PLACEHOLDER}..{high.strip() or PLACEHOLDER} {step.strip()}".strip()
    inner = (_column(contract, at).inner,) if _column(contract, at).inner else ()
    return with_value(contract, ("columns", at, *inner), written)


def _column_listed(contract: str, at: str, value: str) -> str:
    """Write values, or codes with labels (`1 = male`), a line each."""
    column = _column(contract, at)
    lines = [line.strip() for line in value.split("\n") if line.strip()]
    new: YamlTree = list(dict.fromkeys(lines))
    if column.kind == "labels":
        pairs = [line.partition("=") for line in lines]
        new = {code.strip(): label.strip() or PLACEHOLDER for code, _, label in pairs}
    inner = (column.inner,) if column.inner else ()
    return with_value(contract, ("columns", at, *inner), new or PLACEHOLDER)


def _left_out(contract: str, at: str, value: str) -> str:
    """Leave a column out: nobody reads it."""
    tree: Any = tree_of(contract)
    now = tree.get("left_out")
    text = with_value(contract, ("left_out",), [*(now if isinstance(now, list) else []), at])
    return without(text, ("columns", at))


def _provenance(contract: str, at: str, value: str) -> str:
    """Say where domains come from; a public document that is named already stays named."""
    tree: Any = tree_of(contract)
    _, reference = provenance_of((tree.get("defaults") or {}).get("provenance"))
    new: YamlTree = {"public": reference or PLACEHOLDER} if value == "public" else value
    return with_value(contract, ("defaults", "provenance"), new)


def _reference(contract: str, at: str, value: str) -> str:
    return with_value(contract, ("defaults", "provenance"), {"public": value.strip() or PLACEHOLDER})


def _missing(contract: str, at: str, value: str) -> str:
    """Write the texts that mean a missing value, a line each; a blank line is none."""
    texts: list[YamlTree] = list(dict.fromkeys(line.strip() for line in value.split("\n") if line.strip()))
    place = ("defaults", "missing")
    return with_value(contract, place, texts) if texts else without(contract, place)


def _taken_in(contract: str, at: str, value: str) -> str:
    """Take a column in that was left out; its domain is open."""
    tree: Any = tree_of(contract)
    rest: YamlTree = [each for each in tree["left_out"] if each != at]
    text = with_value(contract, ("left_out",), rest) if rest else without(contract, ("left_out",))
    holds = isinstance(tree.get("columns"), dict)
    return (
        with_value(text, ("columns", at), PLACEHOLDER) if holds else with_value(text, ("columns",), {at: PLACEHOLDER})
    )


_Act = Callable[[str, str, str], str]
_OF_TABLES: Final[dict[str, _Act]] = {
    "table.add": _add_table,
    "table.drop": _drop_table,
    "table.column": _table_column,
    "table.weight": _table_weight,
}
_OF_CONTRACT: Final[dict[str, _Act]] = {
    "missing": _missing,
    "provenance": _provenance,
    "reference": _reference,
    "column.kind": _column_kind,
    "column.range": _column_range,
    "column.listed": _column_listed,
    "column.left_out": _left_out,
    "column.taken_in": _taken_in,
}
