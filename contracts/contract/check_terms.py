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

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.statements import Check


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
    stated = (("nulls", "not_null", {"missing": domain.missing}), *domain.checks())
    return [Check(f"{of}:{name}", kind, name, parameters, f"{of}:{name}" in gates) for of, kind, parameters in stated]
