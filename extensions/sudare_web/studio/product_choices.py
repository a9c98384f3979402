"""Choices about the product: its kind, statistics with their clips, and what synthetic rows are made of.

| choice | changes |
|---|---|
| `kind` | the product; the columns that were chosen stay |
| `stat.add`, `stat.drop`, `stat.clip`, `stat.shares` | what a table of statistics tells of each cell |
| `synthetic.generator`, `synthetic.column`, `synthetic.rows`, `synthetic.degree` | a value of synthetic rows |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sudare_web.studio.form import PRODUCTS, column_names, columns_of_table
from sudare_web.studio.product_form import ALL_COLUMNS, GENERATORS, OF_ROWS, WHATS, WITH_DEGREE
from sudare_web.studio.yaml_text import YamlTree, tree_of, with_value, without

_QUARTILES: Final = ("0.25", "0.5", "0.75")

ProductAct = Callable[[str, str, str, str], str]
"""Spec, contract, place and value; returns the spec."""


def _product(spec: str) -> dict[str, Any]:
    tree: Any = tree_of(spec)
    found = tree.get("product")
    return found if isinstance(found, dict) else {}


def _kind(spec: str, contract: str, at: str, value: str) -> str:
    """Begin another product with the columns of the one that was there."""
    if value not in PRODUCTS:
        raise LookupError(value)
    old = _product(spec)
    if old.get("kind") == value:
        return spec
    wanted = _BEGINNINGS[value](old)
    text = spec
    for key in old:
        if key != "kind" and old[key] != wanted.get(key):
            text = without(text, ("product", key))
    for key, part in wanted.items():
        text = with_value(text, ("product", key), part)
    return text


def _cliques(product: dict[str, Any]) -> list[list[str]]:
    """Return the columns that a product's tables count by; of synthetic rows the first pair."""
    tables, columns = product.get("tables"), product.get("columns")
    if isinstance(columns, list):
        return [columns[:2]]
    found = [columns_of_table(each) for each in tables] if isinstance(tables, list) else []
    return [each for each in found if each is not None]


def _tables(old: dict[str, Any]) -> dict[str, YamlTree]:
    tables: list[YamlTree] = [list[YamlTree](each) for each in _cliques(old) if each]
    mechanism = old.get("mechanism", "laplace")
    return {"kind": "tables", "mechanism": mechanism, "tables": tables, "refine": {"method": "simplex"}}


def _statistics(old: dict[str, Any]) -> dict[str, YamlTree]:
    tables: list[YamlTree] = [{"by": list[YamlTree](each), "of": ["count"]} for each in _cliques(old)]
    mechanism = "gaussian" if old.get("mechanism") == "gaussian" else "laplace"
    return {"kind": "statistics", "mechanism": mechanism, "tables": tables}


def _synthetic(old: dict[str, Any]) -> dict[str, YamlTree]:
    columns: YamlTree = list(dict.fromkeys(name for each in _cliques(old) for name in each)) or ALL_COLUMNS
    return {"kind": "synthetic", "generator": "mst", "columns": columns, "rows": "estimated"}


_BEGINNINGS: Final = {"tables": _tables, "statistics": _statistics, "synthetic": _synthetic}


def _add_statistic(spec: str, contract: str, at: str, value: str) -> str:
    """Add a statistic to a table: what, and of which column, a line each."""
    what, _, column = value.partition("\n")
    if what not in WHATS or (what not in OF_ROWS and not column):
        raise LookupError(what)
    new: YamlTree = what if what in OF_ROWS else {what: column}
    if what == "quantiles":
        new = {"quantiles": list(_QUARTILES), "of": column}
    now = _product(spec)["tables"][int(at)].get("of")
    if not isinstance(now, list) or new in now:
        raise LookupError(what)
    place = ("product", "tables", int(at), "of")
    return with_value(spec, place, [*now, new])


def _drop_statistic(spec: str, contract: str, at: str, value: str) -> str:
    table, place = (int(each) for each in at.split("."))
    now = _product(spec)["tables"][table]["of"]
    return with_value(spec, ("product", "tables", table, "of"), [*now[:place], *now[place + 1 :]])


def _clip(spec: str, contract: str, at: str, value: str) -> str:
    """Write a clip of two ends, a line each; without both the contract's bounds are it."""
    table, place = (int(each) for each in at.split("."))
    where = ("product", "tables", table, "of", place, "clip")
    ends = [each.strip() for each in value.split("\n")[-2:]]
    return with_value(spec, where, list[YamlTree](ends)) if any(ends) else without(spec, where)


def _shares(spec: str, contract: str, at: str, value: str) -> str:
    table, place = (int(each) for each in at.split("."))
    shares: list[YamlTree] = [each.strip() for each in value.split(",") if each.strip()]
    return with_value(spec, ("product", "tables", table, "of", place, "quantiles"), shares or list(_QUARTILES))


def _generator(spec: str, contract: str, at: str, value: str) -> str:
    """Choose a generator; options of another one, which it could not read, go."""
    if value not in GENERATORS:
        raise LookupError(value)
    return with_value(without(spec, ("product", "options")), ("product", "generator"), value)


def _degree(spec: str, contract: str, at: str, value: str) -> str:
    if _product(spec).get("generator") not in WITH_DEGREE:
        raise LookupError(value)
    place = ("product", "options", "degree")
    return with_value(spec, place, value.strip()) if value.strip() else without(spec, place)


def _column(spec: str, contract: str, at: str, value: str) -> str:
    """Make rows of a column too, or no longer; in the contract's order, and `all` where none is missing."""
    tree: Any = tree_of(contract)
    known, now = column_names(tree), _product(spec).get("columns", ALL_COLUMNS)
    old = list(known) if not isinstance(now, list) else now
    chosen = [each for each in old if each != value] if value in old else [*old, value]
    if not chosen:
        raise LookupError(value)
    ordered: list[YamlTree] = [each for each in known if each in chosen]
    ordered += [each for each in chosen if each not in known]
    return with_value(spec, ("product", "columns"), ALL_COLUMNS if ordered == known else ordered)


def _rows(spec: str, contract: str, at: str, value: str) -> str:
    return with_value(spec, ("product", "rows"), value.strip() or "estimated")


OF_PRODUCTS: Final[dict[str, ProductAct]] = {
    "kind": _kind,
    "stat.add": _add_statistic,
    "stat.drop": _drop_statistic,
    "stat.clip": _clip,
    "stat.shares": _shares,
    "synthetic.generator": _generator,
    "synthetic.column": _column,
    "synthetic.rows": _rows,
    "synthetic.degree": _degree,
}
