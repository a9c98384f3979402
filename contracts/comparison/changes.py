"""Compare two contracts by what they mean: layout, comments, order of keys and ways of writing bins do not count.

| what changed | effect |
|---|---|
| the unit, its scope, the rows that count of one unit, the adjacency, a public total | account |
| a column's type or domain: its cells, their order, what falls into which, what missing values become | account |
| which tables are linked by which keys, their bounds, the unit's table, what a derived column counts | account |
| a column that is new or gone, the id of the contract | breaking |
| structural zeros, constraints between columns, a new gate | breaking |
| names, descriptions, provenance, shapes, the order of columns, what is left out, a gate that is gone | compatible |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from contracts.canonical import canonical_json
from contracts.comparison.change import EFFECTS, Comparison
from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.linked import all_columns, flat_name
from contracts.contract.linked_tables import Link, LinkedTables
from contracts.contract.terms import PrivacyTerms, TotalInvariant
from contracts.domains.domain import NOTATION_KEYS, DeclaredDomain, NullPolicy
from contracts.domains.statements import CELLS_CHANGED, VALUES_MOVED, Change, shortly

# --- What changed in how the tables of a contract are linked, and what a contract declares about all of its tables.


_OWNED: Final = "which rows belong to a unit follows from it, and so does every sensitivity"
_KEYS: Final = "the source must have exactly the declared keys: whoever delivers it has to change something"


def declared_columns(contract: Contract) -> tuple[Column, ...]:
    """Return the columns that a contract declares; of linked tables those of all."""
    return contract.columns if contract.linked is None else all_columns(contract.linked)


def declared_terms(contract: Contract) -> PrivacyTerms:
    """Return the privacy terms that a contract declares; of linked tables those of all."""
    return contract if contract.linked is None else contract.linked.terms


def link_changes(old: Contract, new: Contract) -> Iterator[Change]:
    """Yield what changed in tables, keys, links, the unit's table and derived columns."""
    if old.linked is None and new.linked is None:
        return
    before, after = (_facts(contract.linked) for contract in (old, new))
    for fact in before.keys() | after.keys():
        was, now = before.get(fact, ("", _OWNED)), after.get(fact, ("", _OWNED))
        if was[0] != now[0]:
            yield Change(fact, was[0], now[0], "account", (now if now[0] else was)[1])


def _facts(linked: LinkedTables | None) -> Mapping[str, tuple[str, str]]:
    """Return each fact about links by its field: what it is, and why it matters."""
    if linked is None:
        return {}
    facts = {"unit.table": (linked.terms.unit.table, _OWNED)}
    for link in linked.terms.links:
        facts[f"links.{link.origin}"] = (_words(link), _OWNED)
    for name, bound in linked.terms.rows_per_unit.items():
        facts[f"rows_per_unit.{name}"] = (str(bound), _OWNED)
    for table in linked.tables:
        for key in table.row_keys:
            facts[f"keys.{table.name}.{key.name}"] = (key.logical_type, _KEYS)
        for name, made in table.derived:
            facts[f"columns.{flat_name(linked, table.name, name)}.derived"] = (made.words, VALUES_MOVED)
    return facts


def _words(link: Link) -> str:
    bound = "" if link.at_most is None else f", at most {link.at_most}"
    return f"to {link.to}{bound}"


_AS_USUAL: Final = "not declared"


def domain_changes(old: Column, new: Column) -> Iterator[Change]:
    """Yield what changed in the type, the cells, the values behind them, and the null policy of a column."""
    at = f"columns.{old.name}"
    if old.logical_type != new.logical_type:
        yield Change(f"{at}.logicalType", old.logical_type, new.logical_type, "account", VALUES_MOVED)
    before, after = old.domain, new.domain
    if before.kind != after.kind:
        yield Change(f"{at}.kind", before.kind, after.kind, "account", CELLS_CHANGED)
    else:
        yield from (replace(change, field=f"{at}.{change.field}") for change in after.changes(before))
    for key in NOTATION_KEYS:
        one, other = (getattr(each, key, None) for each in (before, after))
        if one != other:
            was, now = (_AS_USUAL if each is None else repr(each) for each in (one, other))
            yield Change(f"{at}.{key}", was, now, "account", VALUES_MOVED)
    if before.nulls != after.nulls:
        yield Change(f"{at}.nulls", _nulls(before.nulls), _nulls(after.nulls), "account", VALUES_MOVED)
    if before.missing != after.missing:
        yield Change(f"{at}.missing", shortly(before.missing), shortly(after.missing), "account", VALUES_MOVED)
    if before.provenance != after.provenance:
        yield Change(f"{at}.provenance", before.provenance.kind, _provenance(before, after), "compatible")


def _nulls(policy: NullPolicy) -> str:
    return "a cell of their own" if policy.to is None else f"counted as {policy.to}"


def _provenance(old: DeclaredDomain, new: DeclaredDomain) -> str:
    same = old.provenance.kind == new.provenance.kind
    return f"{new.provenance.kind}, another reference" if same else new.provenance.kind


_PROMISE = "what an account's people are promised is stated in these terms; an account of other terms has to pay"
_BOUND = "every sensitivity follows from it: equal noise protects less, or equal ε needs other noise"
_DELIVERY = "the source must have exactly the declared columns: whoever delivers or reads it has to change something"
_CELLS = "cells are empty by declaration that were not, or the other way round"
_GATE = "one more exact answer about the rows is unprotected"


def compare(old: Contract, new: Contract) -> Comparison:
    """List what changed from one contract to another.

    Args:
        old: the older contract.
        new: the newer one.
    Returns:
        Comparison: the changes, gravest first, in the order of the contract.
    Privacy: reads declarations only.
    """
    found = [*_terms(old, new), *link_changes(old, new), *_columns(old, new), *_identity(old, new)]
    order = list(EFFECTS)
    return Comparison(old.version, new.version, tuple(sorted(found, key=lambda change: order.index(change.effect))))


def _terms(old: Contract, new: Contract) -> Iterator[Change]:
    promised = dict.fromkeys(("kind", "column", "scope", "numbers_up_to"), _PROMISE)
    for name, why in (promised | {"max_rows_per_unit": _BOUND}).items():
        before, after = getattr(old.unit, name), getattr(new.unit, name)
        if before != after:
            yield Change(f"unit.{name}", _or_none(before), _or_none(after), "account", why)
    if old.adjacency != new.adjacency:
        yield Change("adjacency", old.adjacency, new.adjacency, "account", _PROMISE)
    before, after = _total(old.total), _total(new.total)
    if before != after:
        yield Change("invariants.total", before, after, "account", _PROMISE)
    yield from _declared_sets(declared_terms(old), declared_terms(new))


def _declared_sets(old: PrivacyTerms, new: PrivacyTerms) -> Iterator[Change]:
    """Structural zeros, constraints and gates, whose order means nothing."""
    for field in ("structural_zeros", "constraints"):
        before, after = ({_canonical_text(each) for each in getattr(terms, field)} for terms in (old, new))
        for gone in sorted(before - after):
            yield Change(field, gone, "", "breaking", _CELLS)
        for fresh in sorted(after - before):
            yield Change(field, "", fresh, "breaking", _CELLS)
    for gate in sorted(set(new.gates) - set(old.gates)):
        yield Change("gates", "", gate, "breaking", _GATE)
    for gate in sorted(set(old.gates) - set(new.gates)):
        yield Change("gates", gate, "", "compatible")


def _columns(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = ({column.name: column for column in declared_columns(contract)} for contract in (old, new))
    for name, column in before.items():
        if name not in after:
            yield Change(f"columns.{name}", f"the column {name} ({column.domain.kind})", "", "breaking", _DELIVERY)
            continue
        yield from domain_changes(column, after[name])
        if (column.description or "") != (after[name].description or ""):
            yield Change(f"columns.{name}.description", "a text", "another text", "compatible")
        if column.shapes != after[name].shapes:
            was, now = ("none" if each.shapes is None else "shapes of places" for each in (column, after[name]))
            yield Change(f"columns.{name}.shapes", was, f"other {now}" if was == now else now, "compatible")
    for name, column in after.items():
        if name not in before:
            yield Change(f"columns.{name}", "", f"the column {name} ({column.domain.kind})", "breaking", _DELIVERY)
    kept = [[name for name in each if name in before and name in after] for each in (before, after)]
    if kept[0] != kept[1]:
        yield Change("columns", shortly(kept[0]), shortly(kept[1]), "compatible")


def _identity(old: Contract, new: Contract) -> Iterator[Change]:
    if old.id != new.id:
        yield Change("id", old.id, new.id, "breaking", "it is another contract, with versions of its own")
    for field in ("name", "table"):
        if getattr(old, field) != getattr(new, field):
            yield Change(field, getattr(old, field), getattr(new, field), "compatible")
    if set(old.left_out) != set(new.left_out):
        yield Change("left_out", shortly(old.left_out) or "none", shortly(new.left_out) or "none", "compatible")
    if old.description != new.description:
        yield Change("description", "a text", "another text", "compatible")


def _total(invariant: TotalInvariant | None) -> str:
    return "none" if invariant is None else f"{invariant.value} public rows"


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def _canonical_text(declared: object) -> str:
    """Write a structural zero or a constraint so that equal ones are equal texts."""
    dump = declared.model_dump(mode="json", exclude_none=True)  # type: ignore[attr-defined]
    if "assignment" in dump:
        dump = {name: sorted(labels) for name, labels in dump["assignment"]}
    return canonical_json(dump).decode()
