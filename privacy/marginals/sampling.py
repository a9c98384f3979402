"""Rows out of a model: the same bytes from the same potentials and seed on every machine.

Going down the tree, each node's columns are drawn one after the other. Rows that agree on the columns before form a
group; how many of a group get each code is the conditional expectation, rounded at random to whole numbers that add
up to the group (systematic sampling: each cell is rounded up with exactly the probability of its fraction), and then
the codes are shuffled within the group. Without that shuffle the rows of a group would stay in the order of earlier
columns, and pairs that are not in one node would come out wrong. From the weights on everything is whole numbers; the
weights come from potentials by portable arithmetic. A weight that is 0, as every structural zero's, is never drawn.

Source: Madow 1949 (systematic sampling); McKenna et al. 2019, section 4 (column by column).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Unsigned
from privacy.marginals.conditional_weights import ConditionalWeights
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.seeds import PostProcessingSeed

WEIGHT_BITS = 31
MAX_ROWS = 1 << 31
CHUNK_CELLS = 1 << 22
BATCH = 1 << 24
"""Rows drawn together; more rows are drawn batch by batch, which bounds the memory."""


def sample(
    model: GraphicalModel,
    rows: int,
    *,
    seed: PostProcessingSeed,
    where: Mapping[str, int | Sequence[int]] | None = None,
) -> Unsigned:
    """Draw rows.

    Args:
        model: the distribution; its total is not used.
        rows: how many, from 0 to 2³¹ - 1.
        seed: public; the same one gives the same rows.
        where: evidence: column to the code, or the codes, that it may have.
    Returns:
        Codes, shape (rows, columns), columns in the domain's order, the smallest unsigned type that holds all codes.
    Raises:
        NothingPossible: structural zeros and evidence exclude every row.
        ValueError: rows out of range, an unknown column, or a code that the column does not have.
    Privacy: post-processing.
    """
    if not 0 <= rows < MAX_ROWS:
        raise ValueError(f"rows must lie between 0 and {MAX_ROWS - 1}, not {rows}")
    weights = ConditionalWeights(model, where or {})
    kind = np.min_scalar_type(max(model.domain.shape, default=1) - 1)
    codes = np.empty((rows, len(model.domain.columns)), dtype=kind)
    for batch, low in enumerate(range(0, rows, BATCH)):
        part = codes[low : low + BATCH]
        part[...] = _batch(model, weights, len(part), seed, batch * len(model.domain.columns)).T
    return codes


def _batch(
    model: GraphicalModel, weights: ConditionalWeights, rows: int, seed: PostProcessingSeed, stream: int
) -> Unsigned:
    """Return the codes of some rows, shape (columns, rows); each column takes the next stream."""
    domain = model.domain
    codes = np.zeros((len(domain.columns), rows), dtype=np.min_scalar_type(max(domain.shape, default=1) - 1))
    for number, node in enumerate(model.tree.nodes):
        group = np.zeros(rows, dtype=np.int64)
        for name in node.separator:
            group = group * domain.shape[domain.place(name)] + codes[domain.place(name)]
        for depth, name in enumerate(node.residual):
            place = domain.place(name)
            codes[place] = assigned_codes(group, weights.of(number, depth), seed, stream)
            group = group * domain.shape[place] + codes[place]
            stream += 1
    return codes


def assigned_codes(
    group: NDArray[np.int64], weights: NDArray[np.int64], seed: PostProcessingSeed, stream: int
) -> NDArray[np.int64]:
    """Return a code for each row.

    Args:
        group: the group of each row, shape (rows,).
        weights: of each code in each group, shape (groups, codes), not negative.
        seed, stream: where the randomness comes from.
    """
    rows = group.size
    # Rows that agree so far lie side by side, in random order within their group.
    order, ordered = _shuffled_by_group(group, seed, 2 * stream)
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(starts, append=rows)
    words = seed.words(2 * stream + 1, starts.size)
    result = np.empty(rows, dtype=np.int64)
    chunk = max(1, CHUNK_CELLS // weights.shape[1])
    for low in range(0, starts.size, chunk):
        some = slice(low, low + chunk)
        counts = _rounded_counts(weights[ordered[starts[some]]], sizes[some], words[some])
        first = int(starts[low])
        codes = np.repeat(np.tile(np.arange(weights.shape[1]), len(counts)), counts.reshape(-1))
        result[order[first : first + codes.size]] = codes
    return result


def _shuffled_by_group(
    group: NDArray[np.int64], seed: PostProcessingSeed, stream: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows ordered by group and shuffled within groups, and the group of each.

    One sort of whole numbers: the group, then random bits, then the row. They are distinct, so that no sorting
    algorithm can order them differently. There are at least as many random bits as a row number has, or else so many
    groups that the largest share a key only with a few neighbours: what order those are in moves no more than a few
    rows a column.
    """
    row_bits = max(1, (group.size - 1).bit_length())
    group_bits = int(group.max(initial=0)).bit_length()
    random_bits = 64 - row_bits - group_bits
    key = seed.words(stream, group.size)
    key >>= np.uint64(64 - random_bits)
    key |= group.astype(np.uint64) << np.uint64(random_bits)
    key <<= np.uint64(row_bits)
    key |= np.arange(group.size, dtype=np.uint64)
    key.sort()
    order = (key & np.uint64((1 << row_bits) - 1)).astype(np.int64)
    key >>= np.uint64(row_bits + random_bits)
    return order, key.astype(np.int64)


def _rounded_counts(
    weights: NDArray[np.int64], sizes: NDArray[np.int64], words: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Split each group over its codes: expectations rounded at random to whole numbers that add up.

    Args:
        weights: shape (groups, codes).
        sizes: rows of each group, shape (groups,).
        words: one random word a group.
    Returns:
        counts, shape (groups, codes), rows adding up to `sizes`, 0 where the weight is 0.
    """
    # Weights times rows must stay below 2^62: 31 bits of weight, 31 of rows.
    excess = np.frexp(weights.sum(axis=1).astype(np.float64))[1] - WEIGHT_BITS
    weights = weights >> np.maximum(excess, 0)[:, None]
    total = weights.sum(axis=1)[:, None]
    whole, fraction = np.divmod(weights * sizes[:, None], total)
    # One random start a group, uniform below the total: cell j is rounded up where a multiple of the total falls into
    # its stretch of the cumulated fractions, which has probability fraction / total.
    start = ((words >> np.uint64(64 - WEIGHT_BITS)).astype(np.int64)[:, None] * total) >> WEIGHT_BITS
    # ceil((cumulated - start) / total): how many multiples were passed up to and with this cell.
    reached = (np.cumsum(fraction, axis=1) - start + total - 1) // total
    whole += np.diff(reached, axis=1, prepend=0)
    return whole
