"""A trained decoder in whole numbers, and several as one network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from privacy.arrays import Floats
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.generator import SynthesisTask
from privacy.learning.lattice import LatticePoints
from privacy.learning.layout import RowLayout
from privacy.learning.outputs import Windows, output_columns
from privacy.learning.trained import Trained
from privacy.learning.whole_network import LARGEST_ACTIVATION, ONE, LatentMixture, WholeNetwork, whole_layers

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
