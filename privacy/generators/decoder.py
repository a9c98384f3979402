"""The model of the neural and the Gaussian generators: latents, a decoder in whole numbers, and what rows may be.

Rows that the contract excludes, or that a condition does not admit, are drawn again: candidates are made in pieces of
fixed size from numbered streams, and those that may be are taken in order. So the same model, seed and condition give
the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, get_args

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.arrays import Floats
from privacy.generators.generator import SynthesisTask
from privacy.learning.lattice import LatticePoints
from privacy.learning.layout import RowLayout
from privacy.learning.outputs import OutputColumn, OutputForm, Windows, all_codes, output_columns
from privacy.learning.portable_normal import BITS
from privacy.learning.trained import Trained
from privacy.learning.whole_network import (
    LARGEST_ACTIVATION,
    ONE,
    LatentMixture,
    WholeLayer,
    WholeNetwork,
    to_steps,
    whole_layers,
    words_of,
)
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed

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


# --- A trained decoder in whole numbers, and several as one network.


DecoderLayers = Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]]


def layers_of(trained: Trained, part: str) -> DecoderLayers:
    """Return the weights and biases of one network, in order."""
    places = sorted(place for name, place in trained.layers if name == part)
    return tuple(trained.layers[(part, place)] for place in places)


def whole_decoder(layers: DecoderLayers) -> tuple[WholeNetwork, tuple[str, ...]]:
    """Round a decoder to whole numbers; what is too large for them is clipped, and noted.

    Returns:
        The network, and what a reader of the record should know.
    """
    kept, clipped = [], False
    for weights, biases in layers:
        most = 2.0**51 / LARGEST_ACTIVATION / ONE / weights.shape[1]  # so that no sum reaches 2^52
        limits = (weights, most), (biases, 2.0**26)
        clipped |= any(bool((np.abs(values) > limit).any()) for values, limit in limits)
        kept.append(tuple(np.clip(values.astype(np.float64), -limit, limit) for values, limit in limits))
    notes = (message("weights of the decoder were too large for whole numbers, and were clipped"),) if clipped else ()
    return whole_layers([(weights, biases) for weights, biases in kept]), notes


def side_by_side(decoders: Sequence[DecoderLayers]) -> DecoderLayers:
    """Return one network that does what each of some networks of one form does, by which inputs are given.

    Its inputs are, network after network, a latent vector and a 1; those of the others are 0. Biases are weights of
    that 1, which is handed on from layer to layer, so that the other networks' units stay at 0.

    Args:
        decoders: weights (outputs, inputs) and biases of each network's layers.
    """
    count, depth = len(decoders), len(decoders[0])
    made = []
    for place in range(depth):
        last = place == depth - 1
        outputs, inputs = decoders[0][place][0].shape
        rows, columns = (outputs if last else count * (outputs + 1)), count * (inputs + 1)
        joined = np.zeros((rows, columns))
        for number, layers in enumerate(decoders):
            weights, biases = layers[place]
            row, column = (0 if last else number * (outputs + 1)), number * (inputs + 1)
            joined[row : row + outputs, column : column + inputs] = weights
            joined[row : row + outputs, column + inputs] = biases
            if not last:
                # The mark is handed on; the last layer needs none.
                joined[row + outputs, column + inputs] = 1.0
        made.append((joined, np.zeros(rows)))
    return made


def standard_latents(weights: Floats, latent: int, *, marked: bool = True) -> LatentMixture:
    """Return the latents of networks side by side: one of them, by its weight, gets a standard normal vector and a 1.

    Args:
        weights: of the networks, not negative, shape (count,).
        latent: entries of a latent vector.
        marked: whether the 1 is there.
    """
    count, each = weights.size, latent + marked
    size = count * each
    means, factors = np.zeros((count, size), dtype=np.int64), np.zeros((count, size, size), dtype=np.int64)
    for number in range(count):
        places = number * each + np.arange(latent)
        # Its own latent entries are standard normal, its mark is 1, and all entries of the others are 0.
        factors[number, places, places] = ONE
        means[number, number * each + latent : (number + 1) * each] = ONE
    # Noise may bring a network's size below 0: it counts as 0, and rounds to the least weight.
    shares = np.maximum(weights, 0) / max(float(np.maximum(weights, 0).sum()), 1e-9)
    return LatentMixture(np.maximum(np.rint(shares * 2.0**40), 1.0).astype(np.int64), means, factors)


def decoder_model(
    task: SynthesisTask,
    layout: RowLayout,
    rows: float,
    latents: LatentMixture,
    network: WholeNetwork,
    owner: str | None = None,
    owners: LatticePoints | None = None,
    windows: Windows | None = None,
) -> DecoderModel:
    """Put latents and a network of logits together.

    Args:
        task: what rows may be.
        layout: of all columns.
        rows: estimated number of rows.
        latents: where latent vectors come from.
        network: from them to logits of the columns, less the owner.
        owner: the column whose cells own components, or None.
        owners: that cell of each component.
        windows: parts of the range that numbers' outputs stand for.
    """
    width = network.layers[-1].weights.shape[0]
    return DecoderModel(
        rows=min(max(round(rows), 0), 2**31 - 1),
        columns=output_columns(layout, windows),
        latents=latents,
        network=network,
        reading="logits",
        spreads=np.zeros(width, dtype=np.int64),
        label=owner,
        labels=np.zeros(0, dtype=np.int64) if owners is None else owners,
        impossible=task.impossible,
    )


# --- A decoded label with given shares; post-processing.


_DRAWN: Final = 2048
_ROUNDS: Final = 200
_FARTHEST: Final = 100.0
_SEED: Final = PostProcessingSeed(0)


def shares_kept(
    latents: LatentMixture, network: WholeNetwork, layout: RowLayout, label: str, means: Floats
) -> LatentMixture:
    """Return the mixture with weights under which the label's shares are those that were measured.

    Args:
        latents: the mixture.
        network: from its latents to logits, in the layout's order.
        layout: of all columns.
        label: a category column.
        means: noisy mean vector of the rows, shape (width,).
    """
    start, stop = _entries(layout, label)
    # Noise may bring a share to 0 or below: every label keeps a little.
    wanted = np.maximum(means[start:stop], 1e-6)
    components = range(latents.weights.size)
    # The label's chances under each component, from rows of fixed public words.
    given = np.stack([_chances(_logits(latents, network, each)[:, start:stop]) for each in components])
    weights = latents.weights / latents.weights.sum()
    for _ in range(_ROUNDS):
        # A step of EM for the weights alone: each grows by how well its component explains the wanted shares.
        weights = weights * (given @ (wanted / wanted.sum() / (weights @ given)))
        weights = weights / weights.sum()
    total = float(latents.weights.sum())
    return replace(latents, weights=np.maximum(np.rint(weights * total), 1.0).astype(np.int64))


def biases_moved(
    latents: LatentMixture, network: WholeNetwork, layout: RowLayout, label: str, counts: Floats
) -> WholeNetwork:
    """Return the network with the label's biases moved so that its shares are those of the counts.

    Args:
        latents: of one component.
        network: from its latents to logits, in the layout's order.
        layout: of all columns.
        label: a category column.
        counts: noisy counts of its cells, shape (cells,) [rows].
    """
    start, stop = _entries(layout, label)
    wanted = np.maximum(counts, 1e-3 * max(float(counts.sum()), 1.0))
    logits, moved = _logits(latents, network, 0)[:, start:stop], np.zeros(stop - start)
    for _ in range(_ROUNDS):
        # Each bias moves by the logarithm of the wanted share over the present one.
        moved += np.log(wanted / wanted.sum() / _chances(logits + moved))
    last = network.layers[-1]
    biases = last.biases.copy()
    # A constant added to all logits changes no chance, so the mean is taken off.
    biases[start:stop] += to_steps(np.clip(moved - moved.mean(), -_FARTHEST, _FARTHEST), bits=2 * BITS)
    return WholeNetwork((*network.layers[:-1], WholeLayer(last.weights, biases)))


def _entries(layout: RowLayout, label: str) -> tuple[int, int]:
    head = next(head for head in layout.heads if head.column == label)
    return head.start, head.stop


def _logits(latents: LatentMixture, network: WholeNetwork, component: int) -> Floats:
    allowed = np.arange(latents.weights.size) == component
    words = words_of(_SEED, component, (1 + latents.size, _DRAWN))
    return network(latents.sample(words, allowed)[1]) / ONE


def _chances(logits: Floats) -> Floats:
    """Return the label's mean chances."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    # Above 0: quotients and logarithms stay finite.
    return np.asarray((raised / raised.sum(axis=1, keepdims=True)).mean(axis=0)) + 1e-9
