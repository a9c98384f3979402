"""What changed in a column's type and domain. Each concerns the account: a cell counts something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from contracts.contract.column import Column
from contracts.domains.domain import DeclaredDomain
from contracts.domains.domain_terms import NOTATION_KEYS, NullPolicy
from contracts.domains.statements import CELLS_CHANGED, VALUES_MOVED, Change, shortly

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
