"""Rows out of a published model and a published seed: sampled, shuffled, decoded; the same bytes on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.decoding import Decoded, Decoder
from contracts.contract.impossible_cells import Clique
from contracts.plug_ins import load_place
from contracts.release.synthetic import MODIFIERS
from privacy.generators.class_pictures import DeformedDecoder, read_deformed
from privacy.generators.decoder import DecoderModel, read_decoder
from privacy.generators.generator import Model
from privacy.generators.weighted_rows import WeightedRows, read_weighted_rows
from privacy.marginals.blocks import ModelTooLarge, NothingPossible
from privacy.marginals.graph import CellDomain, check_size
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import sample
from privacy.marginals.portable import PostProcessingSeed

if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.contract.decoding import BinContents


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


def _read_graphical(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> Model:
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


_READERS: Final[dict[str, Callable[[Mapping[str, Any], Mapping[str, NDArray[np.int64]]], Model]]] = {
    PublishedModel.kind: _read_graphical,
    DecoderModel.kind: read_decoder,
    DeformedDecoder.kind: read_deformed,
    WeightedRows.kind: read_weighted_rows,
}


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
