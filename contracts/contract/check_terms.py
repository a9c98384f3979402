"""The contract's checks as neutral data: what the rows should satisfy. An engine runs them (see tasks/validate).

| name | kind | parameters | holds when |
|---|---|---|---|
| `columns` | columns | names | the table has exactly these columns, in any order |
| `rows` | rows | least | it has at least this many rows |
| `nulls:COLUMN` | not_null | missing | no value is null or one of the missing texts |
| `type:COLUMN` | castable | to | every value that is not null can be read as integer, number or date |
| `domain:COLUMN` | in_set | values, missing | every value that is not null is one of the values |
| `domain:COLUMN` | between | low, high, to, missing | every value that can be read lies within the bounds |

Of a picture, `type:COLUMN` says that every value has the declared number of places, each a whole number, and
`domain:COLUMN` that all of these are levels.

A broken check does not stop a release (values are clipped or mapped, law 3) unless it is a gate: one that the
contract names under `gates`, or one without which the format itself is broken (`columns`, nulls in the id of
the privacy unit). The outcome of a gate is unprotected, and the record says so. A source without any row stops its
reading. `rows` is about what a `select:` and a period leave of it: whether that is nobody can be a matter of one
person, so the release goes on, on noise alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from contracts.contract.contract import CategoryDomain, Column, Contract, ImageDomain, MappingDomain

CheckKind = Literal["columns", "rows", "not_null", "castable", "in_set", "between"]
Parameter = str | int | tuple[str, ...]
_READ_AS = {"integer": "integer", "decimal": "number", "date": "date", "image": "levels"}


@dataclass(frozen=True)
class Check:
    """One thing that the rows should satisfy.

    Args:
        name: unique in the contract; gates are named by it.
        kind: what is checked; the module's docstring says what each kind means.
        column: the column, or None for the table as a whole.
        parameters: plain data; bounds are texts, so that they are exact.
        gate: whether a failure stops the release.
    """

    name: str
    kind: CheckKind
    column: str | None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    gate: bool = False


def checks(contract: Contract) -> tuple[Check, ...]:
    """List the checks that a contract implies: the format's gates first, then each column's."""
    unit = contract.unit.column
    listed = [
        Check("columns", "columns", None, {"names": contract.source_columns}, gate=True),
        Check("rows", "rows", None, {"least": 1}, gate="rows" in contract.gates),
    ]
    if unit is not None:
        listed.append(Check(f"nulls:{unit}", "not_null", unit, {"missing": ()}, gate=True))
    for column in contract.columns:
        listed += _column_checks(column, frozenset(contract.gates))
    return tuple(listed)


def _column_checks(column: Column, gates: frozenset[str]) -> list[Check]:
    """The checks of one column."""
    name, domain = column.name, column.domain
    missing: dict[str, Parameter] = {"missing": domain.missing}
    found = [Check(f"nulls:{name}", "not_null", name, missing, f"nulls:{name}" in gates)]
    if isinstance(domain, CategoryDomain | MappingDomain):
        parameters = {"values": _values(domain), **missing}
        return [*found, Check(f"domain:{name}", "in_set", name, parameters, f"domain:{name}" in gates)]
    read_as: dict[str, Parameter] = {"to": _READ_AS[domain.kind]}
    low, high = (0, domain.levels - 1) if isinstance(domain, ImageDomain) else domain.bounds
    bounds: dict[str, Parameter] = {"low": str(low), "high": str(high)}
    places: dict[str, Parameter] = {"places": domain.places} if isinstance(domain, ImageDomain) else {}
    return [
        *found,
        Check(f"type:{name}", "castable", name, {**read_as, **missing, **places}, f"type:{name}" in gates),
        Check(f"domain:{name}", "between", name, {**bounds, **read_as, **missing}, f"domain:{name}" in gates),
    ]


def _values(domain: CategoryDomain | MappingDomain) -> tuple[str, ...]:
    """The texts that a listed domain understands: raw values, categories and other."""
    other = () if domain.other is None else (domain.other,)
    raw = tuple(raw for raw, _ in domain.mapping) if isinstance(domain, MappingDomain) else ()
    return tuple(dict.fromkeys((*raw, *domain.categories, *other)))
