"""A trained decoder in whole numbers: what is too large, and several networks side by side."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privacy.generators.decoder import shares_kept, side_by_side, standard_latents, whole_decoder
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.whole_network import ONE, LatentMixture, to_steps
from privacy.marginals.portable import PostProcessingSeed

GENERATOR = np.random.default_rng(8)


def layers(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (GENERATOR.normal(0, 1, (outputs, inputs)), GENERATOR.normal(0, 1, outputs))
        for inputs, outputs in itertools.pairwise(sizes)
    ]


def computed(made: list[tuple[np.ndarray, np.ndarray]], values: np.ndarray) -> np.ndarray:
    for weights, biases in made[:-1]:
        values = np.maximum(values @ weights.T + biases, 0)
    return np.asarray(values @ made[-1][0].T + made[-1][1])


@pytest.mark.parametrize("sizes", [(3, 4), (3, 5, 4), (3, 5, 6, 4)])
def test_networks_side_by_side_do_what_each_does_alone(sizes: tuple[int, ...]) -> None:
    alone = [layers(*sizes) for _ in range(3)]
    network, notes = whole_decoder(side_by_side(alone))
    latents = standard_latents(np.array([2.0, 0.0, 1.0]), 3)
    words = PostProcessingSeed(1).words(0, (1 + latents.size) * 500).reshape(-1, 500)
    component, drawn = latents.sample(words, np.ones(3, dtype=np.bool_))
    assert np.bincount(component, minlength=3) == pytest.approx([333, 0, 167], abs=60)
    outputs = network(drawn) / ONE
    for number, made in enumerate(alone):
        mine = component == number
        latent = drawn[mine, number * 4 : number * 4 + 3] / ONE
        assert outputs[mine] == pytest.approx(computed(made, latent), abs=0.01)
    assert notes == ()


def test_weights_too_large_for_whole_numbers_are_clipped_and_noted() -> None:
    made = layers(3, 5, 4)
    made[1][0][2, 1], made[0][1][0] = 1e30, -1e30
    network, notes = whole_decoder(made)
    assert len(notes) == 1
    assert np.isfinite(network(np.full((2, 3), float(ONE)))).all()


def test_weights_are_moved_until_the_label_has_its_shares() -> None:
    """Two components that mostly say one label each; the mixture begins with equal weights."""
    layout = RowLayout((ColumnLayout("label", "category", np.eye(2)),))
    latents = LatentMixture(
        np.array([2**20, 2**20]), to_steps(np.array([[1.0], [-1.0]])), to_steps(np.full((2, 1, 1), 0.1))
    )
    network, _ = whole_decoder([(np.array([[3.0], [-3.0]]), np.zeros(2))])
    kept = shares_kept(latents, network, layout, "label", np.array([0.8, 0.2]))
    assert kept.weights / kept.weights.sum() == pytest.approx([0.8, 0.2], abs=0.01)
