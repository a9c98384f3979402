"""The model of the neural and the Gaussian generators: latents, a decoder in whole numbers, and what rows may be.

Rows that the contract excludes, or that a condition does not admit, are drawn again: candidates are made in pieces of
fixed size from numbered streams, and those that may be are taken in order. So the same model, seed and condition give
the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, get_args

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.learning.lattice import LatticePoints
from privacy.learning.outputs import OutputColumn, OutputForm, all_codes
from privacy.learning.whole_network import LatentMixture, WholeLayer, WholeNetwork, words_of
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import NothingPossible
from privacy.marginals.seeds import PostProcessingSeed

PIECE: Final = 2**13
_MOST_ROWS: Final = 2**31 - 1
_MOST_COLUMNS: Final = 2**16
_MOST_SPREAD: Final = 2**22
_FEWEST_TAKEN: Final = 1e-4
_PIECES_BEFORE_GIVING_UP: Final = 64
_SAMPLE_FOR_MARGINALS: Final = 2**16
_MOST_LAYERS: Final = 64


@dataclass(frozen=True, eq=False)
class DecoderModel:
    """A decoder with its latent distribution, all in whole numbers.

    Args:
        rows: public or estimated number of rows, 0 to 2^31 - 1 [rows].
        columns: what comes out, in order.
        latents: distribution of the latent.
        network: from latents to outputs.
        reading: how outputs are read.
        spreads: what is added to the numbers among the outputs, a standard normal times this, shape (outputs,)
            [2^-12].
        label: a column whose code is that of the latent's component, and which the network does not give; or None.
        labels: that column's code of each component, shape (K,); empty without a label.
        impossible: structural zeros: for some cliques True where no row can be.
    Raises:
        ValueError: what does not fit together, or is out of range.
    """

    kind: ClassVar[str] = "decoder"
    rows: int
    columns: tuple[OutputColumn, ...]
    latents: LatentMixture
    network: WholeNetwork
    reading: OutputForm
    spreads: LatticePoints
    label: str | None
    labels: LatticePoints
    impossible: Mapping[Clique, NDArray[np.bool_]]

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 0 <= self.rows <= _MOST_ROWS:
            raise ValueError(f"rows must be a whole number from 0 to {_MOST_ROWS}")
        if self.reading not in get_args(OutputForm):
            raise ValueError(f"reading must be one of {', '.join(get_args(OutputForm))}")
        outputs = sum(column.outputs for column in self._decoded)
        first, last = self.network.layers[0].weights.shape[1], self.network.layers[-1].weights.shape[0]
        if (first, last) != (self.latents.size, outputs):
            raise ValueError(f"the network leads from {first} to {last}; its ends are {self.latents.size}, {outputs}")
        if self.spreads.shape != (outputs,) or (
            outputs and not 0 <= self.spreads.min() <= self.spreads.max() <= _MOST_SPREAD
        ):
            raise ValueError(f"spreads must be {outputs} whole numbers from 0 to 2^22")
        cells = self.domain.sizes((self.label,))[0] if self.label is not None else 0
        wanted = self.latents.weights.shape if self.label is not None else (0,)
        if self.labels.shape != wanted or ((self.labels < 0) | (self.labels >= cells)).any():
            raise ValueError("labels must name a code of the label's column for each component")
        for clique, excluded in self.impossible.items():
            if excluded.shape != self.domain.sizes(clique) or any(self._lengths[name] != 1 for name in clique):
                raise ValueError(f"what is impossible of {'×'.join(clique)} has another shape")

    @cached_property
    def domain(self) -> CellDomain:
        """The columns with their cells; each place of an array has the cells of its levels."""
        return CellDomain(
            tuple(column.name for column in self.columns), tuple(column.cells for column in self.columns)
        )

    @cached_property
    def _decoded(self) -> tuple[OutputColumn, ...]:
        return tuple(column for column in self.columns if column.name != self.label)

    @cached_property
    def _lengths(self) -> dict[str, int]:
        return {column.name: column.length for column in self.columns}

    @cached_property
    def _starts(self) -> dict[str, int]:
        ends = np.cumsum([0, *self._lengths.values()])
        return {name: int(start) for name, start in zip(self._lengths, ends, strict=False)}

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes, shape (rows, codes); the same model, seed and condition give the same bytes.

        Args:
            rows: how many, 0 to 2^31 - 1.
            seed: 0 to 2^128 - 1, public.
            where: column to the codes that it may have; not on arrays.
        Raises:
            NothingPossible: hardly one candidate in 10,000 may be.
            ValueError: an argument out of range, an unknown column or code.
        Privacy: post-processing.
        """
        if not 0 <= rows <= _MOST_ROWS:
            raise ValueError(f"rows must lie between 0 and {_MOST_ROWS}, not {rows}")
        admitted = {name: self._admitted(name, codes) for name, codes in (where or {}).items()}
        found = np.empty((rows, sum(self._lengths.values())), dtype=np.int32)
        done = 0
        candidates = self._candidates(PostProcessingSeed(seed), admitted)
        for number, codes in enumerate(candidates) if rows else ():
            # Rejection: candidates in their order, until there are enough.
            may_be = codes[self._may_be(codes, admitted)][: rows - done]
            found[done : done + len(may_be)] = may_be
            done += len(may_be)
            if done == rows:
                break
            if number + 1 >= _PIECES_BEFORE_GIVING_UP and done < _FEWEST_TAKEN * (number + 1) * PIECE:
                raise NothingPossible(
                    f"of {(number + 1) * PIECE} rows that the model made {done} are possible and meet the "
                    "condition; do: ask for a condition that the model meets more often"
                )
        return found

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique, estimated from 65,536 rows of seed 0 [rows].

        Raises:
            ValueError: an array column.
        """
        if any(self._lengths[name] != 1 for name in clique):
            raise ValueError("there is no marginal of an array")
        codes, sizes = self.sample(_SAMPLE_FOR_MARGINALS, seed=0), self.domain.sizes(clique)
        if not clique:
            return np.array(float(self.rows))
        flat = np.ravel_multi_index(tuple(codes[:, self._starts[name]] for name in clique), sizes)
        counts = np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.float64)
        return counts * (self.rows / _SAMPLE_FOR_MARGINALS)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values = {
            "rows": self.rows,
            "columns": [column.to_json() for column in self.columns],
            "reading": self.reading,
            "label": self.label,
            "layers": len(self.network.layers),
            "impossible": [list(clique) for clique in self.impossible],
        }
        arrays = {
            "latent-weights": self.latents.weights,
            "latent-means": self.latents.means,
            "latent-factors": self.latents.factors,
            "spreads": self.spreads,
            "labels": self.labels,
        }
        for number, layer in enumerate(self.network.layers):
            arrays |= {f"weights-{number:02d}": layer.weights, f"biases-{number:02d}": layer.biases}
        for number, column in enumerate(self.columns):
            arrays[f"thresholds-{number:05d}"] = column.thresholds
        for number, excluded in enumerate(self.impossible.values()):
            arrays[f"impossible-{number:04d}"] = excluded.astype(np.int64)
        return values, arrays

    def _candidates(
        self, seed: PostProcessingSeed, admitted: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[NDArray[np.int32]]:
        """Make rows, `PIECE` at a time; a condition on the label holds in all of them."""
        allowed = np.ones(self.latents.weights.shape, dtype=np.bool_)
        if self.label is not None and self.label in admitted:
            # A condition on the label picks components: no candidate is made in vain.
            allowed = admitted[self.label][self.labels]
        if not self.latents.weights[allowed].any():
            raise NothingPossible(f"the model gives no row with such a {self.label}; do: ask for another condition")
        # A piece reads one stream for its latents and two a column.
        piece, streams = 0, 1 + 2 * len(self.columns)
        while True:
            words = words_of(seed, piece * streams, (1 + self.latents.size, PIECE))
            component, latents = self.latents.sample(words, allowed)
            outputs = self.network(latents)
            codes = all_codes(self._decoded, outputs, self.reading, self.spreads, seed, piece * streams + 1)
            if self.label is not None:
                codes = np.insert(codes, self._starts[self.label], self.labels[component], axis=1)
            yield self._finished(codes, seed, piece)
            piece += 1

    def _finished(self, codes: NDArray[np.int32], seed: PostProcessingSeed, piece: int) -> NDArray[np.int32]:
        """Return the rows of a piece as they come out; a kind of decoder may go on from here."""
        return codes

    def _admitted(self, name: str, codes: Sequence[int]) -> NDArray[np.bool_]:
        """Mark the codes that a condition admits."""
        size = self.domain.sizes((name,))[0]
        if self._lengths[name] != 1:
            raise ValueError(f"column {name}: no condition on an array")
        if not len(codes) or min(codes) < 0 or max(codes) >= size:
            raise ValueError(f"column {name}: codes must be at least one, from 0 to {size - 1}")
        marked = np.zeros(size, dtype=np.bool_)
        marked[list(codes)] = True
        return marked

    def _may_be(self, codes: NDArray[np.int32], admitted: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Mark the rows that are possible and meet the condition."""
        fine = np.ones(len(codes), dtype=np.bool_)
        for name, marked in admitted.items():
            fine &= marked[codes[:, self._starts[name]]]
        for clique, excluded in self.impossible.items():
            fine &= ~excluded[tuple(codes[:, self._starts[name]] for name in clique)]
        return fine


def read_decoder(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> DecoderModel:
    """Read a published decoder back; written by a stranger, and checked.

    Raises:
        ValueError, KeyError, TypeError: not such a model.
    """
    wanted = {"rows", "columns", "reading", "label", "layers", "impossible"}
    if set(values) != wanted:
        raise ValueError(f"a decoder has exactly {', '.join(sorted(wanted))}")
    layers, written = values["layers"], values["columns"]
    if not (isinstance(layers, int) and 1 <= layers <= _MOST_LAYERS) or not 1 <= len(written) <= _MOST_COLUMNS:
        raise ValueError("a decoder has 1 to 64 layers, and columns")
    made = DecoderModel(
        rows=values["rows"],
        columns=tuple(_column(each, arrays[f"thresholds-{n:05d}"]) for n, each in enumerate(written)),
        latents=LatentMixture(arrays["latent-weights"], arrays["latent-means"], arrays["latent-factors"]),
        network=WholeNetwork(
            tuple(WholeLayer(arrays[f"weights-{n:02d}"], arrays[f"biases-{n:02d}"]) for n in range(layers))
        ),
        reading=values["reading"],
        spreads=arrays["spreads"],
        label=values["label"],
        labels=arrays["labels"],
        impossible={
            tuple(clique): arrays[f"impossible-{n:04d}"].astype(np.bool_)
            for n, clique in enumerate(values["impossible"])
        },
    )
    # Nothing is published that the model does not read.
    if set(arrays) != set(made.to_arrays()[1]):
        raise ValueError("arrays that a decoder does not have")
    return made


def _column(written: Mapping[str, Any], thresholds: NDArray[np.int64]) -> OutputColumn:
    """Read one column back."""
    if set(written) != {"name", "kind", "cells", "length", "nullable"} or not isinstance(written["name"], str):
        raise ValueError("a column has exactly name, kind, cells, length and nullable")
    whole = [written["cells"], written["length"]]
    if any(isinstance(each, bool) or not isinstance(each, int) for each in whole):
        raise ValueError(f"column {written['name'][:60]!r}: cells and length must be whole numbers")
    if not isinstance(written["nullable"], bool):
        raise ValueError(f"column {written['name'][:60]!r}: nullable must be true or false")
    return OutputColumn(
        written["name"], written["kind"], written["cells"], written["length"], thresholds, written["nullable"]
    )
