"""The contract: what a table's columns may hold, whose privacy counts, and what is declared public about it.

Everything here is the parsed, checked, frozen result. `contracts.contract.odcs.load_contract` reads it from a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from contracts import canonical
from contracts.contract.column import Column, LogicalType
from contracts.contract.linked_tables import LinkedTables
from contracts.contract.terms import Adjacency, PrivacyTerms, StructuralZero, TotalInvariant, Unit, contradictions
from contracts.domains.domain import NULL_LABEL, NullPolicy, Provenance
from contracts.domains.statements import Check
from contracts.domains.text import TextDomain
from contracts.errors import ContractRefused, Finding
from contracts.reading.scalars import Label, Problem, nearest, refuse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contracts.contract.labels import LabelColumn


__all__ = [
    "NULL_LABEL",
    "Adjacency",
    "Column",
    "Contract",
    "LogicalType",
    "NullPolicy",
    "Provenance",
    "StructuralZero",
    "TotalInvariant",
    "Unit",
]


class Contract(PrivacyTerms):
    """A contract about one table: identity, columns in order, and the privacy terms (inherited).

    `columns` are those with a domain, in the order of the file; the unit's id column is not among them. Where the
    table is the base of `linked` tables, unit, columns and adjacency follow from these and nothing else is accepted.
    """

    apiVersion: str
    id: Label
    version: str
    name: str
    description: dict[str, str] = Field(default_factory=dict)
    table: Label
    columns: tuple[Column, ...] = Field(min_length=1)
    linked: LinkedTables | None = Field(default=None, exclude_if=lambda linked: linked is None)

    @model_validator(mode="after")
    def _consistent(self) -> Contract:
        declared = [column.name for column in self.columns]
        problems = contradictions(self, self.columns, [*declared, *self._id_column()])
        if self.linked is not None and not problems:
            from contracts.contract.linked import link_problems  # few contracts have linked tables

            problems = link_problems(self.linked) or self._departures(self.linked)
        if problems:
            refuse(problems)
        return self

    def _departures(self, linked: LinkedTables) -> list[Problem]:
        """Name what is not as the linked tables make it."""
        from contracts.contract.linked import (
            base_problem,
            flat_terms,  # as above
        )

        wrong = base_problem(linked, self.table)
        if wrong is not None:
            return [replace(wrong, at=("table",))]
        allowed = "what follows from the linked tables"
        return [
            Problem(f"other {field} of {self.table}", allowed, at=(field,))
            for field, value in flat_terms(linked, self.table).items()
            if getattr(self, field) != value
        ]

    def over(self, base: str) -> Contract:
        """Return the contract of another base table of the same linked tables.

        Raises:
            ContractRefused: the tables are not linked, or no unit owns rows of the base.
        """
        from contracts.contract.linked import (
            base_problem,
            flat_terms,  # as above
        )

        allowed = "a contract of linked tables"
        wrong = Problem(base, allowed) if self.linked is None else base_problem(self.linked, base)
        if self.linked is None or wrong is not None:
            found = wrong or Problem(base, allowed)
            raise ContractRefused([Finding(f"contract {self.id}", "table", found.found, found.allowed, found.remedy)])
        kept = {name: getattr(self, name) for name in type(self).model_fields}
        return Contract(**{**kept, **flat_terms(self.linked, base)})

    def _id_column(self) -> tuple[str, ...]:
        return () if self.unit.column is None else (self.unit.column,)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Every column that the source must have: the unit's id column, if there is one, then `columns`."""
        return self._id_column() + tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            ContractRefused: the contract has no such column; the message suggests the nearest one.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        allowed = "one of " + ", ".join(names)
        raise ContractRefused([Finding(f"contract {self.id}", "column", repr(name), allowed, nearest(name, names))])

    def pictures(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the columns of pictures among some columns; among all of them without it."""
        return tuple(c.name for c in self.columns if c.length > 1 and (names is None or c.name in names))

    def texts(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the columns of texts that nobody declared, among some columns; among all of them without it."""
        named = (c for c in self.columns if names is None or c.name in names)
        return tuple(c.name for c in named if isinstance(c.domain, TextDomain))

    def exact(self, texts: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the unit's id and the texts, of some or all, whose digits count: no largest number is declared."""
        largest = {column.name: getattr(column.domain, "numbers_up_to", None) for column in self.columns}
        largest |= dict.fromkeys(self._id_column(), self.unit.numbers_up_to)
        named = dict.fromkeys((*self._id_column(), *self.texts(texts)))
        return tuple(name for name in named if largest[name] is None)

    def with_keys(self, keys: Mapping[str, Sequence[str]]) -> Contract:
        """Return the contract with a cell for each selected key of columns of texts; it is written the same.

        Args:
            keys: what a release has selected, by column; no longer private.
        """
        if not keys:
            return self
        columns = [
            column.model_copy(update={"domain": column.domain.selected(keys[column.name])})
            if column.name in keys and isinstance(column.domain, TextDomain)
            else column
            for column in self.columns
        ]
        return self.model_copy(update={"columns": tuple(columns)})

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column of a clique."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the exact number of cells of a clique's marginal."""
        return math.prod(self.shape(clique))

    def beside(self, clique: Sequence[str]) -> tuple[tuple[LabelColumn, ...], ...]:
        """Return what the labels of each column of a clique stand for, in columns beside them."""
        from contracts.contract.labels import label_columns

        return tuple(label_columns(self.column(name)) for name in clique)

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells of a marginal that structural zeros and constraints exclude.

        Args:
            clique: the columns of the marginal, in the order of its axes.
        Returns:
            Array of `shape(clique)`, True where a structural zero or a constraint on columns of the clique applies.
        Privacy: uses the contract only, never data.
        """
        from contracts.contract.impossible_cells import excluded

        return excluded(
            clique, {column.name: column for column in self.columns}, self.structural_zeros, self.constraints
        )

    def zero_cliques(self, names: Sequence[str] | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the sets of columns on which cells are impossible, in the contract's order.

        Args:
            names: the columns that count; all of them without it.
        """
        from contracts.contract.impossible_cells import zero_cliques

        known = [column.name for column in self.columns if names is None or column.name in names]
        return zero_cliques(known, self.structural_zeros, self.constraints)

    def ordered_axes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the places of the last two ordered columns of a clique; fewer where it has fewer.

        Args:
            clique: the columns of the marginal, in the order of its axes.
        """
        return tuple(place for place, name in enumerate(clique) if self.column(name).ordered)[-2:]

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the parsed contract, found once: a long one takes seconds.

        Independent of the file's layout, comments and order of keys, and of the order of gates, structural zeros and
        constraints.
        What the order means something for counts: columns, categories, and the entries of a mapping (the codes).
        """
        content = self.model_dump(mode="json")
        content |= _order_free(self, content["constraints"])
        if self.left_out:
            content["left_out"] = sorted(self.left_out)
        if self.linked is not None:
            terms = content["linked"]["terms"]
            terms |= _order_free(self.linked.terms, terms["constraints"])
        return canonical.digest(content)

    def __copy__(self) -> Self:
        """Copy without the digest: what `model_copy` changes has another one."""
        copied = super().__copy__()
        copied.__dict__.pop("digest", None)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy all parts, without the digest."""
        copied = super().__deepcopy__(memo)
        copied.__dict__.pop("digest", None)
        return copied

    @property
    def file_digest(self) -> str:
        """Digest of what the file says, whatever base of linked tables is taken: that over the unit's table."""
        return self.digest if self.linked is None else self.over(self.linked.terms.unit.table).digest


def _order_free(terms: PrivacyTerms, constraints: list[Any]) -> dict[str, Any]:
    """Return the parts of privacy terms whose order means nothing, in one order."""
    zeros = [sorted([name, sorted(labels)] for name, labels in zero.assignment) for zero in terms.structural_zeros]
    return {
        "structural_zeros": sorted(zeros),
        "gates": sorted(terms.gates),
        "constraints": sorted(constraints, key=canonical.canonical_json),
    }


# --- The contract's checks as neutral data.


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
    name, domain = column.name, column.domain
    stated = (("nulls", "not_null", {"missing": domain.missing}), *domain.checks())
    return [Check(f"{of}:{name}", kind, name, parameters, f"{of}:{name}" in gates) for of, kind, parameters in stated]
