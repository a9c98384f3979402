"""Rows of two linked tables out of a published model and a published seed; the same bytes on any machine.

Parents are sampled and put in random order; the key of each is its place in it, from 1. Each has as many children as
its column of sizes says, one after the other, with the parent's key. Within a parent children are in random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contracts.contract.decoding import Decoded, DecodedForm, Decoder
from contracts.release.linked_rows import TablePair, table_pair
from privacy.generators.linked_model import LinkedModel
from privacy.generators.rows import PIECE_ROWS, shuffled
from privacy.marginals.seeds import PostProcessingSeed

if TYPE_CHECKING:
    from contracts.contract.contract import Contract


@dataclass(frozen=True, eq=False)
class LinkedRowPieces:
    """The rows of both tables.

    Args:
        model: a published model.
        contract: over the child; gives domains and constraints.
        seed: public.
        parents: how many rows of the parent table.
    Privacy: post-processing.
    """

    model: LinkedModel
    contract: Contract
    seed: PostProcessingSeed
    parents: int

    @cached_property
    def pair(self) -> TablePair:
        """The two tables, with their keys."""
        return table_pair(self.model.domain.columns, self.contract)

    @cached_property
    def parent_codes(self) -> NDArray[np.int32]:
        """Codes of the parents in the order in which they are published."""
        codes = self.model.sample(self.parents, seed=self.seed.derived("parents").value)
        return codes[shuffled(self.parents, self.seed.derived("order"))]

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The place of each child's parent, ascending; as often as the parent's size says."""
        sizes = self.parent_codes[:, self.model.parents.domain.place(self.pair.size)]
        return np.repeat(np.arange(self.parents, dtype=np.int64), sizes)

    @cached_property
    def child_codes(self) -> NDArray[np.int32]:
        """Codes of the children, parent by parent."""
        return self.model.children_of(self.parent_codes[self.owner], seed=self.seed.derived("children"))

    @property
    def children(self) -> int:
        """How many rows of the child table."""
        return int(self.owner.size)

    def parent_rows(self) -> Iterator[tuple[Decoded, ...]]:
        """Yield the parents piece by piece: the key, then their columns."""
        names = self.model.parents.domain.columns
        keys = np.arange(1, self.parents + 1, dtype=np.int64)
        return self._decoded(self.pair.parent_key, keys, names, self.parent_codes, "parent values")

    def child_rows(self) -> Iterator[tuple[Decoded, ...]]:
        """Yield the children piece by piece: the key of the parent, then their columns."""
        names = self.model.child_columns
        return self._decoded(self.pair.child_key, self.owner + 1, names, self.child_codes, "child values")

    def _decoded(
        self, key: str, keys: NDArray[np.int64], names: Sequence[str], codes: NDArray[np.int32], purpose: str
    ) -> Iterator[tuple[Decoded, ...]]:
        decoder, values = Decoder(self.contract, names), self.seed.derived(purpose)
        for piece, start in enumerate(range(0, max(len(codes), 1), PIECE_ROWS)):
            own = keys[start : start + PIECE_ROWS]
            column = Decoded(key_form(key), own, np.zeros(own.size, dtype=np.bool_))
            yield (column, *decoder.decode(codes[start : start + PIECE_ROWS], piece=piece, words=values.words))


def key_form(name: str) -> DecodedForm:
    """Say how a column of keys is published: as whole numbers."""
    return DecodedForm(name, "integer")


def linked_forms(contract: Contract, names: Sequence[str]) -> tuple[tuple[DecodedForm, ...], tuple[DecodedForm, ...]]:
    """Return the columns of the published parents and of the published children, the key of each first.

    Args:
        contract: over the child.
        names: the columns that are synthesized, in the contract's order.
    """
    pair = table_pair(names, contract)
    above, below = (tuple(name for name in names if name in own) for own in (pair.parent_columns, pair.child_columns))
    return (
        (key_form(pair.parent_key), *Decoder(contract, above).forms),
        (key_form(pair.child_key), *Decoder(contract, below).forms),
    )
