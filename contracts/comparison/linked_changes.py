"""What changed in how the tables of a contract are linked, and what a contract declares about all of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.flattening import all_columns, flat_name
from contracts.contract.linked_tables import Link, LinkedTables
from contracts.contract.privacy_terms import PrivacyTerms
from contracts.domains.statements import VALUES_MOVED, Change

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
