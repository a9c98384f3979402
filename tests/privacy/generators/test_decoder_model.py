"""The decoder in whole numbers: exact wherever it runs, read back as written, and true to conditions and zeros."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import kstest

from privacy.generators.decoder import DecoderModel, shares_kept, side_by_side, standard_latents, whole_decoder
from privacy.generators.rows import read_model
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.outputs import output_columns
from privacy.learning.portable_normal import normal_quantiles, normal_steps
from privacy.learning.whole_network import ONE, LatentMixture, WholeLayer, to_steps, whole_layers
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.portable import PostProcessingSeed


def layout() -> RowLayout:
    number = np.zeros((5, 2))
    number[:4, 0], number[4, 1] = [0.125, 0.375, 0.625, 0.875], 1
    return RowLayout(
        (
            ColumnLayout("size", "number", number),
            ColumnLayout("colour", "category", np.eye(3)),
            ColumnLayout("kind", "category", np.eye(2)),
            ColumnLayout("picture", "array", np.linspace(0, 1, 16)[:, None], length=6),
        )
    )


def model(*, impossible: dict[tuple[str, ...], np.ndarray] | None = None, reading: str = "logits") -> DecoderModel:
    generator = np.random.default_rng(3)
    widths = (4, 7, 2 + 3 + 6)
    layers = [(generator.normal(size=(b, a)), generator.normal(size=b)) for a, b in itertools.pairwise(widths)]
    factors = np.tril(generator.normal(size=(3, 4, 4)))
    latents = LatentMixture(np.array([5, 0, 3]), to_steps(generator.normal(size=(3, 4))), to_steps(factors))
    spreads = np.array([400, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9])
    columns = output_columns(layout())
    return DecoderModel(
        100, columns, latents, whole_layers(layers), reading, spreads, "kind", np.array([0, 1, 1]), impossible or {}
    )


def test_quantiles_are_those_of_the_normal_distribution():
    """Against scipy's, far into both tails."""
    words = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    words = np.concatenate([words, np.array([0, 1 << 11, 2**63, 2**64 - 1, 77 << 20], dtype=np.uint64)])
    below = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    found = normal_quantiles(words)
    small = below < 0.999  # scipy's argument loses digits next to 1
    assert np.abs(found - ndtri(below))[small].max() < 1e-12
    assert found[-5] == -found[-2]
    assert -8.4 < found[-5] < -8.2


@pytest.mark.stat
def test_normal_numbers_are_normal_and_a_wrong_scale_is_seen():
    """n = 200,000; a right sampler fails with probability 1e-9 (DKW: 0.00732)."""
    numbers = normal_steps(PostProcessingSeed(5).words(0, 200_000)) / 4096
    assert kstest(numbers, "norm").statistic < 0.00732
    assert kstest(numbers * 1.1, "norm").statistic > 0.00732


@given(st.integers(0, 2**32))
def test_a_layer_does_not_depend_on_the_order_of_its_sums(seed: int):
    """Inputs in another order, and in Python's whole numbers, give the same bits."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(-(2**19), 2**19, size=(3, 700))
    biases = generator.integers(-(2**30), 2**30, size=3)
    inputs = generator.integers(-(2**22), 2**22, size=(2, 700)).astype(np.float64)
    order = generator.permutation(700)
    straight = WholeLayer(weights, biases)(inputs)
    mixed = WholeLayer(weights[:, order], biases)(inputs[:, order])
    exact = [
        [
            (sum(int(w) * int(a) for w, a in zip(row, each, strict=True)) + int(bias) + 2048) >> 12
            for row, bias in zip(weights, biases, strict=True)
        ]
        for each in inputs
    ]
    assert (straight == mixed).all()
    assert (straight == np.clip(np.array(exact), -(2**22), 2**22)).all()


def test_a_layer_whose_sums_could_be_inexact_is_refused():
    with pytest.raises(ValueError, match="too large"):
        WholeLayer(np.full((1, 1024), 2**21), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("reading", ["logits", "values"])
def test_it_is_read_back_as_written_and_gives_the_same_rows(reading: str):
    written = model(reading=reading, impossible={("size", "colour"): np.zeros((5, 3), dtype=np.bool_)})
    values, arrays = written.to_arrays()
    again = read_model("decoder", json.loads(json.dumps(values)), arrays)
    rows = written.sample(10_000, seed=11)
    assert rows.shape == (10_000, 9)
    assert rows.dtype == np.int32
    assert (again.sample(10_000, seed=11) == rows).all()
    assert (written.sample(500, seed=11) == rows[:500]).all()
    assert (written.sample(500, seed=12) != rows[:500]).any()
    assert rows.min() >= 0
    assert (rows.max(axis=0) < [5, 3, 2, *[16] * 6]).all()


def test_conditions_and_zeros_hold_in_every_row():
    excluded = np.zeros((5, 3), dtype=np.bool_)
    excluded[1:3, 0] = excluded[:, 2] = True
    made = model(impossible={("size", "colour"): excluded})
    rows = made.sample(3000, seed=1, where={"kind": [1], "size": [0, 1, 4]})
    assert set(rows[:, 2]) == {1}
    assert set(rows[:, 0]) <= {0, 1, 4}
    assert not excluded[rows[:, 0], rows[:, 1]].any()


def test_the_share_of_a_component_is_its_weight():
    """Weights 5, 0, 3: the labels 0 and 1 come in 5 : 3, within five standard deviations (one in 1.7 million)."""
    share = (model().sample(40_000, seed=2)[:, 2] == 0).mean()
    assert abs(share - 5 / 8) < 5 * np.sqrt(5 / 8 * 3 / 8 / 40_000)


@pytest.mark.long
def test_what_cannot_be_met_is_refused():
    with pytest.raises(NothingPossible, match="are possible"):
        model(impossible={("colour",): np.ones(3, dtype=np.bool_)}).sample(1, seed=0)
    with pytest.raises(ValueError, match="no condition on an array"):
        model().sample(1, seed=0, where={"picture": [0]})
    with pytest.raises(ValueError, match="codes must be at least one"):
        model().sample(1, seed=0, where={"size": [5]})


def test_marginals_are_those_of_the_rows():
    made = model()
    rows = made.sample(2**16, seed=0)
    table = made.marginal(("colour", "size"))
    assert table.shape == (3, 5)
    assert table.sum() == pytest.approx(100)
    assert table[1, 2] == pytest.approx(100 * ((rows[:, 1] == 1) & (rows[:, 0] == 2)).mean())


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 3},
        {"layers": True},
        {"reading": "other"},
        {"label": "colour"},
        {"label": None},
        {"rows": -1},
        {"columns": []},
        {"impossible": [["size", "picture"]]},
    ],
)
def test_forged_values_are_refused(change: dict[str, object]):
    values, arrays = model().to_arrays()
    with pytest.raises(ValueError, match=r"."):
        read_model("decoder", {**values, **change}, arrays)


@pytest.mark.parametrize("name", ["latent-means", "weights-00", "spreads", "labels", "thresholds-00000"])
def test_forged_arrays_are_refused(name: str):
    values, arrays = model().to_arrays()
    with pytest.raises(ValueError, match=r"."):
        read_model("decoder", values, {**arrays, name: arrays[name][:-1]})
    with pytest.raises(ValueError, match=r"."):
        read_model("decoder", values, {**arrays, "more": arrays[name]})
    with pytest.raises(ValueError, match=r"."):
        read_model("decoder", values, {**arrays, name: arrays[name] + 2**60})


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
def test_networks_side_by_side_do_what_each_does_alone(sizes: tuple[int, ...]):
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


def test_weights_too_large_for_whole_numbers_are_clipped_and_noted():
    made = layers(3, 5, 4)
    made[1][0][2, 1], made[0][1][0] = 1e30, -1e30
    network, notes = whole_decoder(made)
    assert len(notes) == 1
    assert np.isfinite(network(np.full((2, 3), float(ONE)))).all()


def test_weights_are_moved_until_the_label_has_its_shares():
    """Two components that mostly say one label each; the mixture begins with equal weights."""
    layout = RowLayout((ColumnLayout("label", "category", np.eye(2)),))
    latents = LatentMixture(
        np.array([2**20, 2**20]), to_steps(np.array([[1.0], [-1.0]])), to_steps(np.full((2, 1, 1), 0.1))
    )
    network, _ = whole_decoder([(np.array([[3.0], [-3.0]]), np.zeros(2))])
    kept = shares_kept(latents, network, layout, "label", np.array([0.8, 0.2]))
    assert kept.weights / kept.weights.sum() == pytest.approx([0.8, 0.2], abs=0.01)
