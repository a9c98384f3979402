"""What changed in a column's type and domain. Each concerns the account: a cell counts something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contracts.comparison.change import Change
from contracts.contract.column import Column
from contracts.domains.domain_terms import NOTATION_KEYS, DeclaredDomain, NullPolicy
from contracts.domains.image import ImageDomain
from contracts.domains.kinds import DateDomain, DecimalDomain, IntegerDomain, MappingDomain

SHOWN = 8
_CELLS = "cells count something else than before: versions do not compare, and the account has paid for the others"
_PLACES = "values fall into other cells than before: versions do not compare"

_AS_USUAL: Final = "not declared"


def domain_changes(old: Column, new: Column) -> Iterator[Change]:
    """Yield what changed in the type, the cells, the values behind them, and the null policy of a column."""
    at = f"columns.{old.name}"
    if old.logical_type != new.logical_type:
        yield Change(f"{at}.logicalType", old.logical_type, new.logical_type, "account", _PLACES)
    before, after = old.domain, new.domain
    if before.kind != after.kind:
        yield Change(f"{at}.kind", before.kind, after.kind, "account", _CELLS)
    else:
        yield from _cells(at, before, after)
    for key in NOTATION_KEYS:
        one, other = (getattr(each, key, None) for each in (before, after))
        if one != other:
            was, now = (_AS_USUAL if each is None else repr(each) for each in (one, other))
            yield Change(f"{at}.{key}", was, now, "account", _PLACES)
    if before.nulls != after.nulls:
        yield Change(f"{at}.nulls", _nulls(before.nulls), _nulls(after.nulls), "account", _PLACES)
    if before.missing != after.missing:
        yield Change(f"{at}.missing", shortly(before.missing), shortly(after.missing), "account", _PLACES)
    if before.provenance != after.provenance:
        yield Change(f"{at}.provenance", before.provenance.kind, _provenance(before, after), "compatible")


def _cells(at: str, old: DeclaredDomain, new: DeclaredDomain) -> Iterator[Change]:
    """Compare two domains of one kind."""
    if isinstance(old, IntegerDomain | DecimalDomain | DateDomain):
        yield from _ranges(at, old, new)
    elif isinstance(old, ImageDomain) and isinstance(new, ImageDomain):
        for key in ("height", "width", "levels"):
            before, after = getattr(old, key), getattr(new, key)
            if before != after:
                yield Change(f"{at}.{key}", str(before), str(after), "account", _CELLS)
    else:
        yield from _listed(at, old, new)


def _ranges(at: str, old: IntegerDomain | DecimalDomain | DateDomain, new: DeclaredDomain) -> Iterator[Change]:
    """Compare the bounds and the bins of numbers and days."""
    if not isinstance(new, IntegerDomain | DecimalDomain | DateDomain):
        return
    if old.bounds != new.bounds:
        before, after = (f"[{each.bounds[0]}, {each.bounds[1]}]" for each in (old, new))
        yield Change(f"{at}.bounds", before, after, "account", _PLACES)
    if isinstance(old, DateDomain) and isinstance(new, DateDomain):
        if old.granularity != new.granularity:
            yield Change(f"{at}.granularity", old.granularity, new.granularity, "account", _CELLS)
    elif old.bins != new.bins:
        before, after = (f"{len(each.bins)} bins" for each in (old, new))
        same = before == after
        yield Change(f"{at}.bins", before, f"{after}, others" if same else after, "account", _CELLS)


def _listed(at: str, old: DeclaredDomain, new: DeclaredDomain) -> Iterator[Change]:
    """Compare categories: which there are, in which order, and which raw values mean them."""
    before, after = (tuple(getattr(each, "categories", ())) for each in (old, new))
    key = "mapping" if isinstance(old, MappingDomain) else "values"
    gone, fresh = [x for x in before if x not in after], [x for x in after if x not in before]
    if gone:
        yield Change(f"{at}.{key}", shortly(gone), "", "account", _CELLS)
    if fresh:
        yield Change(f"{at}.{key}", "", shortly(fresh), "account", _CELLS)
    if [x for x in before if x in after] != [x for x in after if x in before]:
        yield Change(f"{at}.{key}", "one order of the cells", "another order", "account", _CELLS)
    others = [getattr(each, "other", None) or "none" for each in (old, new)]
    if others[0] != others[1]:
        yield Change(f"{at}.other", others[0], others[1], "account", _PLACES)
    if isinstance(old, MappingDomain) and isinstance(new, MappingDomain):
        moved = set(old.mapping) ^ set(new.mapping)
        raw = sorted({text for text, category in moved if category in before and category in after})
        if raw:
            yield Change(f"{at}.mapping", "raw values mapped one way", f"{shortly(raw)} mapped", "account", _PLACES)


def shortly(words: Sequence[str]) -> str:
    """List some words, at most a few of them."""
    shown = ", ".join(words[:SHOWN])
    return (shown + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")) or "none"


def _nulls(policy: NullPolicy) -> str:
    return "a cell of their own" if policy.to is None else f"counted as {policy.to}"


def _provenance(old: DeclaredDomain, new: DeclaredDomain) -> str:
    same = old.provenance.kind == new.provenance.kind
    return f"{new.provenance.kind}, another reference" if same else new.provenance.kind
