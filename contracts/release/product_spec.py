"""What every kind of product has in a spec: its part under `product:`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import Frozen
from contracts.domains.text import KeyColumn
from contracts.domains.value_lattices import ValueLattice
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.lambda_reference import LambdaReference

MOST_ROWS: Final = 2**27
"""Synthetic rows of a version, at most."""


class LabelledTable(NamedTuple):
    """A published table whose rows begin with labels: its place in the product, its label columns, its others."""

    at: FieldPath
    by: tuple[str, ...]
    others: tuple[str, ...]


class ProductSpec(Frozen):
    """What a release publishes. Each kind narrows `kind` to its own name, and adds its keys.

    `reads_rows` says whether it may read rows, and not counts alone: then no engine can count for it. Where a
    generator or trainer decides that, it says so itself. `total_at` is the key that a finding about its total names.
    """

    kind: str
    reads_rows: ClassVar[bool] = True
    total_at: ClassVar[FieldPath] = ("source", "by")

    @property
    def keeps_total(self) -> bool:
        """Whether a total that the contract declares public is kept."""
        return True

    @property
    def rows_about(self) -> object:
        """About how many rows there are, as the product's options declare it; None where they do not."""
        return None

    @property
    def target(self) -> str | None:
        """The column that it tells from others, if there is one."""
        return None

    @property
    def reference(self) -> LambdaReference | None:
        """The earlier version that is read for it, if there is one."""
        return None

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are read, in the contract's order."""
        return tuple(column.name for column in contract.columns)

    def lattices(self, contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
        """Return the lattices on which columns are added up, and the columns whose keys are selected, each once."""
        return ()

    @property
    def counts_parents(self) -> bool:
        """Whether it counts the rows of the base's parent table, of linked tables, beside those of the base."""
        return False

    def reads_texts(self, contract: Contract) -> bool:
        """Whether texts that nobody declared are read, which no engine encodes."""
        told = [each.column for each in self.lattices(contract) if isinstance(each, KeyColumn)]
        return any(name != contract.unit.column for name in told)

    def labelled(self, contract: Contract) -> tuple[LabelledTable, ...]:
        """Return the tables whose rows begin with labels; none where rows are no cells."""
        return ()


class SyntheticModifier(ABC):
    """A modifier of synthetic rows, as a spec asks for it; the table is in `contracts.release.synthetic_modifiers`.

    `product` is a `SyntheticProduct`, whose module imports those of its modifiers.
    """

    counts_parents: ClassVar[bool] = False
    """Whether the rows of the base's parent table are counted, of linked tables."""

    @abstractmethod
    def asked(self, product: Any) -> bool:
        """Say whether a product asks for it."""

    def contradiction(self, product: Any) -> Problem | None:
        """Say what in a product contradicts the modifier by itself; refused while the spec is read."""
        return None

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what does not fit the contract, with its place in the product.

        Args:
            product: the product, whether it asks for the modifier or not.
            names: its columns; none where some of them are unknown.
            contract: its contract.
        """
        return iter(())

    def idle_options(self, product: Any) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what is written and does nothing, for who writes a spec; the product of a record states all keys."""
        return iter(())

    def lattices(self, product: Any, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices on which columns are added up."""
        return ()
