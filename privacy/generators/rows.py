"""Rows out of a published model and a published seed: sampled, shuffled, decoded; the same bytes on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.decoding import Decoded, Decoder
from contracts.plug_ins import load_place
from contracts.release.synthetic import MODIFIERS
from privacy.generators.class_pictures import DeformedDecoder, read_deformed
from privacy.generators.decoder import DecoderModel, read_decoder
from privacy.generators.generator import Model
from privacy.generators.weighted_rows import WeightedRows, read_weighted_rows
from privacy.marginals.blocks import ModelTooLarge, NothingPossible
from privacy.marginals.model import PublishedModel, read_graphical
from privacy.marginals.portable import PostProcessingSeed

if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.contract.decoding import BinContents


# --- A published model, read back.


def read_model(kind: str, values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> Model:
    """Read a published model back.

    Args:
        kind: its kind.
        values, arrays: what `to_arrays` gave; written by a stranger, and checked.
    Raises:
        ValueError: not a model of that kind.
    """
    of_modifiers = dict(parts.model for parts in MODIFIERS.values() if parts.model is not None)
    if kind not in _READERS and kind not in of_modifiers:
        allowed = ", ".join(sorted({*_READERS, *of_modifiers}))
        raise ValueError(f"model kind {kind[:60]!r}; allowed: {allowed}")
    try:
        if kind in _READERS:
            return _READERS[kind](values, arrays)
        made: Model = load_place(of_modifiers[kind])(values, arrays, read_model)
        return made
    # Whatever a stranger's values break while they are read is a refusal.
    except (KeyError, TypeError, ModelTooLarge, NothingPossible) as error:
        raise ValueError(f"not a model of kind {kind}: {type(error).__name__}") from error


_READERS: Final[dict[str, Callable[[Mapping[str, Any], Mapping[str, NDArray[np.int64]]], Model]]] = {
    PublishedModel.kind: read_graphical,
    DecoderModel.kind: read_decoder,
    DeformedDecoder.kind: read_deformed,
    WeightedRows.kind: read_weighted_rows,
}


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
