"""Rows out of a published model and a published seed: sampled, shuffled, decoded; the same bytes on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.decoding import Decoded, Decoder
from privacy.marginals.seeds import PostProcessingSeed

if TYPE_CHECKING:
    from contracts.contract.bin_contents import BinContents
    from contracts.contract.contract import Contract
    from privacy.generators.generator import Model

PIECE_ROWS: Final = 2**20
"""Rows that are decoded together. The random words of a value depend on it: it belongs to the form of a release."""


def synthetic_rows(
    model: Model,
    contract: Contract,
    seed: PostProcessingSeed,
    rows: int,
    where: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[tuple[Decoded, ...]]:
    """Sample rows, put them in random order, and decode them piece by piece.

    Args:
        model: a published model.
        contract: gives domains and constraints.
        seed: public.
        rows: how many.
        where: the codes that a column may have, by column; published rows have no such condition.
    Yields:
        tuple[Decoded, ...]: one a column, at most `PIECE_ROWS` rows; one empty piece where there are none.
    Raises:
        ValueError: the model breaks an order that the contract declares, or a column or code that there is not.
        NothingPossible: no row of the model meets the condition.
    Privacy: post-processing.
    """
    codes = model.sample(rows, seed=seed.derived("rows").value, where=where)
    order = shuffled(rows, seed.derived("order"))
    decoder, values = Decoder(contract, model.domain.columns, contents_of(model)), seed.derived("values")
    for piece, start in enumerate(range(0, max(rows, 1), PIECE_ROWS)):
        some = codes[order[start : start + PIECE_ROWS]]
        yield decoder.decode(some, piece=piece, words=values.words)


def contents_of(model: Model) -> Mapping[str, BinContents]:
    """Return how values lie inside the bins of columns, as far as the model says it."""
    found: Mapping[str, BinContents] = getattr(model, "contents", {})
    return found


def shuffled(rows: int, seed: PostProcessingSeed) -> NDArray[np.int64]:
    """Return the numbers below `rows` in random order: sorted by random words, whose low bits are the numbers."""
    low = (1 << max(1, (rows - 1).bit_length())) - 1
    words = (seed.words(0, rows) >> np.uint64(1)).astype(np.int64)
    # The sorted numbers are distinct, so that every sorting algorithm gives the same order.
    order: NDArray[np.int64] = np.sort((words & ~low) | np.arange(rows, dtype=np.int64)) & low
    return order


def seed_text(seed: PostProcessingSeed) -> str:
    """Write a seed as 32 hex digits."""
    return seed.text


def copy_seed(seed: PostProcessingSeed, number: int) -> PostProcessingSeed:
    """Derive the seed of a copy of the rows from theirs, so that it cannot be chosen."""
    return seed.derived(f"copy/{number}")
