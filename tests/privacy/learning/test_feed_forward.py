"""The three approaches' network: gradients against torch, and ranges against every corner and many rows."""

import itertools

import numpy as np
import torch

from privacy.learning.feed_forward import (
    _forward,
    as_layers,
    as_vector,
    batch_deltas,
    count_of,
    delta_ranges,
    initial_vector,
    train_plainly,
)

WIDTHS = (5, 4, 3, 2)


def network(seed: int, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, count_of(WIDTHS))


def made_up(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((rows, WIDTHS[0])), np.eye(WIDTHS[-1])[rng.integers(0, WIDTHS[-1], rows)]


def test_summed_changes_are_the_gradient_of_the_cross_entropy():
    """Another implementation, automatic differentiation, of equations 2 to 4, 16 to 19."""
    vector, (rows, targets) = network(3), made_up(20)
    parameters = torch.tensor(vector, requires_grad=True)
    values, start = torch.tensor(rows), 0
    for place, (inputs, outputs) in enumerate(itertools.pairwise(WIDTHS)):
        stop = start + inputs * outputs
        values = values @ parameters[start:stop].reshape(outputs, inputs).T + parameters[stop : stop + outputs]
        values = torch.relu(values) if place < len(WIDTHS) - 2 else values
        start = stop + outputs
    loss = torch.nn.functional.cross_entropy(values, torch.tensor(targets), reduction="sum")
    loss.backward()
    assert parameters.grad is not None
    assert np.allclose(batch_deltas(as_layers(vector, WIDTHS), rows, targets), parameters.grad.numpy(), atol=1e-12)
    assert np.allclose(_forward(as_layers(vector, WIDTHS), rows)[-1], torch.softmax(values, 1).detach().numpy())


def test_no_row_leaves_the_ranges():
    """Equations 20 to 26, on 40 networks: every corner of [0, 1]^5 and 200 rows inside, with every target."""
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=WIDTHS[0])))
    inside, _ = made_up(200)
    for seed in range(40):
        layers = as_layers(network(seed, spread=2.0), WIDTHS)
        low, high = delta_ranges(layers)
        assert (low <= 0).all()
        assert (high >= 0).all()
        for row in np.concatenate([corners, inside]):
            for target in np.eye(WIDTHS[-1]):
                delta = batch_deltas(layers, row[None], target[None])
                assert (delta >= low - 1e-9).all()
                assert (delta <= high + 1e-9).all()


def test_equation_21_as_printed_would_let_a_range_turn_round():
    """A layer whose largest input is negative gives 0: with max x in its place the next range is upside down."""
    layers = as_layers(np.zeros(count_of(WIDTHS)), WIDTHS)
    layers[0][1][:] = -1.0
    layers[1][0][:] = 1.0
    low, high = (as_layers(each, WIDTHS) for each in delta_ranges(layers))
    assert (high[1][0] == 0).all()
    printed = layers[0][1] + np.maximum(layers[0][0], 0).sum(axis=1)
    assert (printed < 0).all()
    assert (high[2][0] >= low[2][0]).all()


def test_training_learns_and_begins_where_its_seed_says():
    rng = np.random.default_rng(4)
    rows = rng.random((600, 5))
    targets = np.eye(2)[(rows[:, 0] + rows[:, 1] > 1).astype(int)]
    start = initial_vector(WIDTHS, 7)
    assert (start == initial_vector(WIDTHS, 7)).all()
    assert not (start == initial_vector(WIDTHS, 8)).all()
    asked = {"epochs": 60, "batch": 20, "learning_rate": 0.5, "regulariser": 0.001, "seed": 1}
    trained = train_plainly(start, WIDTHS, rows, targets, **asked)  # type: ignore[arg-type]
    again = train_plainly(start, WIDTHS, rows, targets, **asked)  # type: ignore[arg-type]
    assert (trained == again).all()
    right = _forward(as_layers(trained, WIDTHS), rows)[-1].argmax(1) == targets.argmax(1)
    assert right.mean() > 0.93
    assert (as_vector(as_layers(trained, WIDTHS)) == trained).all()
