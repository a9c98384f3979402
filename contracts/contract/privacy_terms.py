"""The privacy terms of a table: whose loss is bounded, which tables count as neighbours, what is declared public."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from contracts.contract.constraints import Constraint
from contracts.domains.domain_terms import Frozen, exactness_problems
from contracts.reading.scalars import Label, Problem, Text, Whole, as_tuple, refuse, show

Adjacency = Literal["add_remove", "replace_one"]
Scope = Literal["block", "lifetime"]


class Unit(Frozen):
    """Whose privacy counts: each row, or everyone with rows under one id (at most `max_rows_per_unit` are kept).

    `scope` says over which data the loss of a unit is bounded; nothing that changes privacy has a default:

    - `block`: a unit is a row or a person within one time block of the data. Accounts of different time blocks bound
      the loss block by block; somebody who is in several blocks may lose the sum.
    - `lifetime`: the same person may be in many time blocks and is protected over all of them. Every charge is also
      taken from an account whose block is `lifetime`; without one the ledger refuses.
    """

    kind: Literal["row", "id"]
    scope: Scope = Field(
        description="`scope: block` if each time block's people are bounded by themselves, `scope: lifetime` if "
        "people appear in several blocks and are protected over all of them"
    )
    column: Label | None = None
    max_rows_per_unit: Whole = 1
    numbers_up_to: Whole | None = Field(
        default=None,
        exclude_if=lambda largest: largest is None,
        description="the largest id that is a number: larger ones count as missing. Where it is declared, ids may be "
        "stored as floating-point numbers",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Unit:
        problems = []
        problems += exactness_problems(self.numbers_up_to)
        if self.max_rows_per_unit < 1:
            problems.append(Problem(str(self.max_rows_per_unit), "a whole number from 1", at=("max_rows_per_unit",)))
        if self.kind == "id":
            for key in ("column", "max_rows_per_unit"):
                if key not in self.model_fields_set or getattr(self, key) is None:
                    problems.append(Problem(f"kind: id without `{key}`", f"`{key}` given", f"add `{key}:`"))
            if self.column is not None and self.column.lower() == "row":
                remedy = (
                    "rename it in the contract and in the source's table: the ledger tells units apart by this name"
                )
                problems.append(Problem(repr(self.column), "a name other than row", remedy, ("column",)))
        elif self.column is not None or self.max_rows_per_unit != 1 or self.numbers_up_to is not None:
            remedy = "write kind: id if one person may have several rows"
            problems.append(Problem("kind: row with further keys", "kind: row and its scope alone", remedy))
        if problems:
            refuse(problems)
        return self


class TotalInvariant(Frozen):
    """The number of rows, declared public with the place where it is published."""

    kind: Literal["total"]
    value: Whole
    reference: Label

    @field_validator("value")
    @classmethod
    def _countable(cls, value: int) -> int:
        if value < 0:
            refuse([Problem(str(value), "a number of rows, zero or more")])
        return value


class StructuralZero(Frozen):
    """A combination that cannot occur: each column at one of its listed labels, all at once."""

    assignment: tuple[tuple[str, tuple[Label, ...]], ...]

    @model_validator(mode="before")
    @classmethod
    def _from_mapping(cls, written: Any) -> Any:
        """Read the written form, {column: [labels]}, beside the parsed one."""
        if not isinstance(written, dict) or not written:
            refuse([Problem(show(written), "a mapping of column: [labels]")])
        inner = written.get("assignment")
        if len(written) == 1 and isinstance(inner, list | tuple) and all(isinstance(p, list | tuple) for p in inner):
            return written
        problems = [
            Problem(show(labels), "a list of labels, such as [A, B]", at=(str(name),))
            for name, labels in written.items()
            if not isinstance(labels, list | tuple) or not labels
        ]
        if problems:
            refuse(problems)
        return {"assignment": tuple((str(name), tuple(labels)) for name, labels in written.items())}


class PrivacyTerms(Frozen):
    """The `privacy` block of a contract; nothing in it that changes a sensitivity has a default.

    `left_out` names columns that the source may have and no release uses: free texts, names, addresses.
    """

    unit: Unit
    adjacency: Adjacency
    invariants: Annotated[tuple[TotalInvariant, ...], BeforeValidator(as_tuple)] = ()
    structural_zeros: Annotated[tuple[StructuralZero, ...], BeforeValidator(as_tuple)] = ()
    constraints: Annotated[tuple[Constraint, ...], BeforeValidator(as_tuple)] = ()
    gates: Annotated[tuple[Text, ...], BeforeValidator(as_tuple)] = ()
    left_out: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = ()

    @model_serializer(mode="wrap")
    def _only_what_is_left_out(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `left_out` only where it names columns: contracts from before it keep their digest and record."""
        content: dict[str, Any] = written(self)
        if not self.left_out:
            content.pop("left_out", None)
        return content

    @property
    def total(self) -> TotalInvariant | None:
        """The declared public number of rows, if there is one."""
        return next((invariant for invariant in self.invariants if invariant.kind == "total"), None)
