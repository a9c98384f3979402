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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from privacy.marginals import inference as factor
from privacy.marginals.blocks import ModelTooLarge, NothingPossible
from privacy.marginals.graph import BYTES_PER_CELL, MEGABYTE, CellDomain, check_size
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.portable import PostProcessingSeed, logarithm, scaled_exponential

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.arrays import Floats, Unsigned

# --- The distribution of each column given those drawn before it, as whole-number weights, the same everywhere.


HEADROOM_BITS = 62
MOST_BITS = 50
CHUNK_CELLS = 1 << 15


class ConditionalWeights:
    """Weights of each node's residual columns given its separator.

    Args:
        model: the distribution.
        where: column to the code, or codes, that it may have.
    Raises:
        NothingPossible: structural zeros and evidence exclude every row.
        ValueError: an unknown column, or a code that the column does not have.
    """

    def __init__(self, model: GraphicalModel, where: Mapping[str, int | Sequence[int]]) -> None:
        self._domain = model.domain
        self._nodes = model.tree.nodes
        self._assigned: list[list[tuple[Clique, Floats]]] = [[] for _ in self._nodes]
        for clique, values in [*model.factors.items(), *_evidence(model, where)]:
            home = model.tree.home(clique)
            self._assigned[0 if home is None else home].append((clique, values))
        self._weights: list[NDArray[np.int64]] = [np.empty((0, 0), np.int64)] * len(self._nodes)
        messages: dict[int, Floats] = {}
        # Children come after their parents: their messages are factors of the parent's table.
        for number in range(len(self._nodes) - 1, -1, -1):
            messages[number] = self._collect(number, messages)
        if np.isneginf(messages[0]):
            raise NothingPossible

    def of(self, number: int, depth: int) -> NDArray[np.int64]:
        """Return the weights of a node's residual column number `depth`, given the separator and those before it.

        Returns:
            Array of shape (separator cells × cells of the residual columns before, cells of the column).
        """
        node = self._nodes[number]
        sizes = self._domain.sizes(node.residual)
        # Columns drawn before are part of the row; those still to come are summed out.
        before, after = prod(sizes[:depth]), prod(sizes[depth + 1 :])
        table = self._weights[number]
        cells = table.reshape(table.shape[0] * before, sizes[depth], after)
        return np.asarray(cells[:, :, 0] if after == 1 else cells.sum(axis=2))

    def _collect(self, number: int, messages: Mapping[int, Floats]) -> Floats:
        """Compute a node's weights, shape (separator cells, residual cells); return its message to the parent."""
        node = self._nodes[number]
        order = node.separator + node.residual
        factors = list(self._assigned[number])
        factors += [(self._nodes[child].separator, messages[child]) for child in node.children]
        rows, cells = self._domain.cells(node.separator), self._domain.cells(node.residual)
        logs = factor.product(factors, order, self._domain.sizes(order)).reshape(rows, cells)
        self._weights[number], sums = whole_weights(logs)
        return sums.reshape(self._domain.sizes(node.separator))


def whole_weights(logs: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return weights in whole numbers, row by row, and the logarithm of the sum of each row.

    Args:
        logs: logarithms of the weights, shape (rows, cells); changed.
    """
    cells = logs.shape[1]
    # A row of `cells` weights below 2^bits each sums to less than 2^62: whole numbers never overflow.
    bits = min(MOST_BITS, HEADROOM_BITS - cells.bit_length())
    top = logs.max(axis=1)
    # Each row relative to its largest cell: the likeliest code gets the most bits, whatever the row's own size.
    shift = np.where(np.isneginf(top), 0.0, top)
    logs -= shift[:, None]
    weights = np.empty(logs.shape, dtype=np.int64)
    flat, result = logs.reshape(-1), weights.reshape(-1)
    for low in range(0, flat.size, CHUNK_CELLS):
        some = slice(low, low + CHUNK_CELLS)
        result[some] = scaled_exponential(flat[some], bits)
    # The sums are worked out from the whole-number weights themselves, so that they are the same on every machine.
    return weights, shift + logarithm(weights.sum(axis=1))


def _evidence(model: GraphicalModel, where: Mapping[str, int | Sequence[int]]) -> list[tuple[Clique, Floats]]:
    """Return a factor a column of the evidence: 0 at the allowed codes, minus infinity at the others."""
    factors: list[tuple[Clique, Floats]] = []
    for column, codes in where.items():
        size = model.domain.cells([column])
        allowed = [codes] if isinstance(codes, int | np.integer) else list(codes)
        if not all(0 <= code < size for code in allowed):
            raise ValueError(f"column {column} has the codes 0 to {size - 1}; the evidence names another")
        values = np.full(size, -np.inf)
        values[allowed] = 0.0
        factors.append(((column,), values))
    return factors


WEIGHT_BITS = 31
MAX_ROWS = 1 << 31
SAMPLING_CHUNK_CELLS = 1 << 22
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
    chunk = max(1, SAMPLING_CHUNK_CELLS // weights.shape[1])
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


# --- The distribution of some columns of a model, given the others row by row, as whole-number weights.


MOST_CELLS: Final = 2**26


@dataclass(frozen=True, eq=False)
class ConditionalColumn:
    """One column's weights given those that are known before it.

    Args:
        column: the column.
        known: the columns that it depends on, in the order of the axes.
        shape: cells of each of these.
        weights: of each code in each cell of `known`, shape (cells of known, codes), whole numbers.
    """

    column: str
    known: Clique
    shape: tuple[int, ...]
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ConditionalColumns:
    """The modelled columns of a model in the order in which they are drawn.

    Args:
        steps: each depends on given columns and on those of the steps before.
        left: what remains over given columns alone: the logarithm of how possible a row of these is.
    """

    steps: tuple[ConditionalColumn, ...]
    left: tuple[tuple[Clique, Floats], ...]


def conditional_columns(model: GraphicalModel, given: Sequence[str]) -> ConditionalColumns:
    """Work out the weights of every column that is not given.

    Args:
        model: the joint distribution.
        given: columns of it whose values will be known.
    Raises:
        ModelTooLarge: a table of weights would have more than 2^26 cells.
        NothingPossible: structural zeros exclude every row.
    """
    domain = model.domain
    factors: list[tuple[Clique, Floats]] = list(model.factors.items())
    steps: list[ConditionalColumn] = []
    for column, known in elimination(domain, model.cliques, given):
        if domain.cells((*known, column)) > MOST_CELLS:
            size = BYTES_PER_CELL * domain.cells((*known, column)) / MEGABYTE
            raise ModelTooLarge(size, BYTES_PER_CELL * MOST_CELLS / MEGABYTE)
        own = [each for each in factors if column in each[0]]
        sizes = domain.sizes((*known, column))
        logs = factor.product(own, (*known, column), sizes).reshape(-1, sizes[-1])
        weights, sums = whole_weights(logs)
        steps.append(ConditionalColumn(column, known, sizes[:-1], weights))
        factors = [each for each in factors if column not in each[0]]
        factors.append((known, sums.reshape(sizes[:-1])))
    if any(bool(np.isneginf(values).all()) for _, values in factors):
        raise NothingPossible
    return ConditionalColumns(tuple(reversed(steps)), tuple(factors))


def elimination(
    domain: CellDomain, cliques: Iterable[Sequence[str]], given: Sequence[str]
) -> Iterator[tuple[str, Clique]]:
    """Yield the columns that are not given in the order in which they are eliminated, each with what it depends on.

    The smallest table is next, and of equal ones the first column: the same order on every machine.

    Args:
        domain: all columns.
        cliques: of the model.
        given: the columns that stay.
    """
    left = [name for name in domain.columns if name not in given]
    around: dict[str, set[str]] = {name: set() for name in domain.columns}
    for clique in cliques:
        for name in clique:
            around[name] |= set(clique) - {name}
    while left:
        column = min(left, key=lambda name: (domain.cells((name, *around[name])), domain.place(name)))
        left.remove(column)
        known = around.pop(column)
        for name in known:
            around[name] = (around[name] | known) - {name, column}
        yield column, domain.canonical(tuple(known))


def conditional_megabytes(domain: CellDomain, cliques: Iterable[Sequence[str]], given: Sequence[str]) -> float:
    """Return the memory of the weights of a model of cliques, given some columns [MB of 2²⁰ bytes]."""
    cells = sum(domain.cells((*known, column)) for column, known in elimination(domain, cliques, given))
    return BYTES_PER_CELL * cells / MEGABYTE


def draw_given(
    columns: ConditionalColumns, known: dict[str, NDArray[np.int64]], rows: int, *, seed: PostProcessingSeed
) -> dict[str, NDArray[np.int64]]:
    """Draw the modelled columns of rows whose given columns are known.

    Args:
        columns: of the model.
        known: codes of each given column, shape (rows,) each.
        rows: how many.
        seed: public; the same one gives the same codes on every machine.
    Returns:
        The codes of all columns.
    Raises:
        NothingPossible: a row of given columns has no possible row of the others.
    Privacy: post-processing.
    """
    codes = dict(known)
    for stream, step in enumerate(columns.steps):
        group = np.zeros(rows, dtype=np.int64)
        for name, size in zip(step.known, step.shape, strict=True):
            group = group * size + codes[name]
        if (step.weights.sum(axis=1)[group] == 0).any():
            raise NothingPossible
        codes[step.column] = assigned_codes(group, step.weights, seed, stream)
    return codes


# --- The model that is published.


STEPS: Final = 2**20
FORBIDDEN: Final = -(2**62)
_LOWEST: Final = -(2**40)
_MOST_ROWS: Final = 2**31 - 1
_MOST_MEGABYTES: Final = 4096.0


@dataclass(frozen=True, eq=False)
class PublishedModel:
    """A graphical model in whole numbers.

    Args:
        domain: the columns with their cells.
        rows: public or estimated number of rows, 0 to 2^31 - 1 [rows].
        cliques: distinct, in the domain's order of columns.
        potentials: for each clique int64 in its shape, at most 0, in units of 2^-20 [nats]; `FORBIDDEN` where no row
            can be.
    Raises:
        ValueError: what does not fit together, or is out of range.
    """

    kind: ClassVar[str] = "graphical_model"
    domain: CellDomain
    rows: int
    cliques: tuple[Clique, ...]
    potentials: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 0 <= self.rows <= _MOST_ROWS:
            raise ValueError(f"rows must be a whole number from 0 to {_MOST_ROWS}")
        if len(self.cliques) != len(self.potentials):
            raise ValueError("one potential a clique")
        for clique, values in zip(self.cliques, self.potentials, strict=True):
            if values.dtype != np.int64 or ((values > 0) | ((values < _LOWEST) & (values != FORBIDDEN))).any():
                raise ValueError(f"the potential of {'×'.join(clique)} must be int64, from -2^40 to 0 or forbidden")
        _ = self.graphical  # checks cliques and shapes

    @classmethod
    def of(cls, model: GraphicalModel, rows: int) -> PublishedModel:
        """Round a graphical model."""
        return cls(model.domain, rows, model.cliques, tuple(_rounded(values) for values in model.potentials))

    @cached_property
    def graphical(self) -> GraphicalModel:
        """The same model in the floats that the whole numbers stand for, exactly."""
        # Whole numbers up to 2^40 over 2^20 are exact in float64.
        potentials = [np.where(values == FORBIDDEN, -np.inf, values / float(STEPS)) for values in self.potentials]
        return GraphicalModel(self.domain, self.cliques, tuple(potentials), float(self.rows))

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes, shape (rows, columns); the same model, seed and condition give the same bytes.

        Args:
            rows: how many, 0 to 2^31 - 1.
            seed: 0 to 2^128 - 1, public.
            where: column to the codes that it may have.
        Raises:
            NothingPossible: the condition and the structural zeros exclude every row.
            ValueError: an argument out of range, an unknown column or code.
        Privacy: post-processing.
        """
        codes = sample(self.graphical, rows, seed=PostProcessingSeed(seed), where=where)
        return codes.astype(np.int32)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique, axes in its order [rows]."""
        return self.graphical.marginal(clique)

    def weighed(self, column: str, weights: NDArray[np.float64]) -> PublishedModel:
        """Return the model in which each cell of a column is as much likelier as its weight says.

        Args:
            column: the column.
            weights: of its cells, not negative; a cell of weight 0 becomes impossible.
        """
        with np.errstate(divide="ignore"):
            return PublishedModel.of(times(self.graphical, column, np.log(weights)), self.rows)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        domain = {"columns": list(self.domain.columns), "shape": list(self.domain.shape)}
        cliques = [list(clique) for clique in self.cliques]
        values = {"domain": domain, "rows": self.rows, "cliques": cliques, "steps": STEPS, "forbidden": FORBIDDEN}
        return values, {_name(number): each for number, each in enumerate(self.potentials)}


def read_graphical(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> PublishedModel:
    """Read the JSON values and arrays of a graphical model back, which a stranger may have written.

    Raises:
        ValueError: what does not fit together, or is too large.
    """
    wanted = {"domain", "rows", "cliques", "steps", "forbidden"}
    if set(values) != wanted or (values["steps"], values["forbidden"]) != (STEPS, FORBIDDEN):
        raise ValueError(f"a graphical model has exactly {', '.join(sorted(wanted))}, in steps of 2^-20")
    domain = CellDomain.read(values["domain"])
    cliques = tuple(tuple(clique) for clique in values["cliques"])
    names = [_name(number) for number in range(len(cliques))]
    if set(arrays) != set(names):
        raise ValueError("one array a clique, named potential-0000 and so on")
    # Checked before a table is made: a stranger's cliques could ask for any amount of memory.
    check_size(domain, cliques, _MOST_MEGABYTES)
    made = PublishedModel(domain, values["rows"], cliques, tuple(arrays[name] for name in names))
    made.marginal(())  # some row is possible
    return made


def times(graphical: GraphicalModel, column: str, factors: NDArray[np.float64]) -> GraphicalModel:
    """Return a model with a factor for each cell of a column, given by its logarithm."""
    cliques, potentials = graphical.cliques, list(graphical.potentials)
    place = next((number for number, clique in enumerate(cliques) if column in clique), None)
    if place is None:
        return GraphicalModel(graphical.domain, (*cliques, (column,)), (*potentials, factors), graphical.total)
    shape = [-1 if name == column else 1 for name in cliques[place]]
    potentials[place] = potentials[place] + factors.reshape(shape)
    return GraphicalModel(graphical.domain, cliques, tuple(potentials), graphical.total)


def _rounded(potential: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round a potential relative to its largest value; minus infinity becomes `FORBIDDEN`."""
    top = potential.max(initial=-np.inf)
    # Only differences within a clique matter: its largest potential becomes 0.
    relative = potential - top if np.isfinite(top) else potential
    possible = np.isfinite(relative)
    steps = np.rint(np.maximum(np.where(possible, relative, 0.0) * STEPS, float(_LOWEST)))
    return np.where(possible, steps.astype(np.int64), FORBIDDEN)


def _name(number: int) -> str:
    return f"potential-{number:04d}"
