"""Adult at five sites that are not alike: who has which rows, and how a trained network is tested."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_data import adult
from benchmarks._neural_tables import Table
from privacy.arrays import Unsigned
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.learners import Classifier, learner_slots
from privacy.learning.network import Adam, Relu, perceptron

SITES: Final = ("north", "east", "south", "west", "centre")
LABEL: Final = "income"
ALPHA: Final = 0.5
LEFT_OUT: Final = ("fnlwgt", "education")
"""The survey's weight says nothing of a person; education is its rank in words."""
Vector = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows for training, by site, and for testing.

    Args:
        layout: how rows lie in vectors.
        sites: codes of each site's rows.
        test: codes of the rows that no site has.
    """

    layout: RowLayout
    sites: tuple[Unsigned, ...]
    test: Unsigned

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows a site."""
        return tuple(len(codes) for codes in self.sites)


def split(data: Path, *, seed: int) -> Split:
    """Hold a fifth of the rows out, and share the others out by education and income: Dirichlet(0.5) each.

    Numbers stand in the contract's bins, one entry a bin.
    """
    table = adult(data)
    columns = [name for name in table.columns if name not in LEFT_OUT]
    layout = RowLayout(tuple(ColumnLayout(name, "category", np.eye(table.columns[name].size)) for name in columns))
    codes = np.stack([table.columns[name].codes(table.values[name]) for name in columns], axis=1).astype(np.uint16)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(codes))
    held, kept = order[: len(codes) // 5], order[len(codes) // 5 :]
    owners = owned(table.some(kept), generator)
    return Split(layout, tuple(codes[kept[owners == site]] for site in range(len(SITES))), codes[held])


def owned(table: Table, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the site of each row: shared out by education and income, Dirichlet(0.5) each."""
    groups = np.asarray(table.values["education"], dtype=np.int64) * 2 + np.asarray(table.values[LABEL], np.int64)
    owners = np.empty(len(groups), np.int64)
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        owners[places] = generator.choice(len(SITES), len(places), p=generator.dirichlet([ALPHA] * len(SITES)))
    return owners


def learner(layout: RowLayout, *, rate: float, hidden: tuple[int, ...], seed: int = 1) -> Classifier:
    """Return the network that is trained everywhere."""
    label = layout.column(LABEL)
    network = perceptron(layout.width - label.width, *hidden, outputs=label.width)
    return Classifier(network, LABEL, Adam(rate, decay="linear"), seed)


def accuracy(trained: Classifier, layout: RowLayout, parameters: Vector, codes: Unsigned) -> float:
    """Return the share of rows whose label the network tells."""
    vectors: NDArray[Any] = layout.vectors(codes)
    head = next(each for each in layout.heads if each.column == LABEL)
    values = np.delete(vectors, np.s_[head.start : head.stop], axis=1)
    slots = {slot.place: slot for slot in learner_slots(trained)}
    for place, layer in enumerate(trained.network.layers):
        if isinstance(layer, Relu):
            values = np.maximum(values, 0)
        else:
            slot = slots[place]
            weights = parameters[slot.weights].reshape(slot.layer.weight_shape)
            values = values @ weights.T + parameters[slot.biases]
    return float((values.argmax(1) == vectors[:, head.start : head.stop].argmax(1)).mean())
