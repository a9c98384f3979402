"""The published model: whole numbers that give the same rows everywhere, read back with care."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from privacy.generators.rows import FORBIDDEN, PublishedModel, read_model
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel

DOMAIN = CellDomain(("a", "b", "c"), (2, 3, 4))


def model(rows: int = 1000) -> PublishedModel:
    generator = np.random.default_rng(5)
    one, other = generator.normal(size=(2, 3)), generator.normal(size=(3, 4))
    other[1, 2:] = -np.inf
    return PublishedModel.of(GraphicalModel(DOMAIN, (("a", "b"), ("b", "c")), (one, other), 7.0), rows)


def test_rounding_keeps_probabilities_and_structural_zeros() -> None:
    generator = np.random.default_rng(5)
    one, other = generator.normal(size=(2, 3)), generator.normal(size=(3, 4))
    other[1, 2:] = -np.inf
    exact = GraphicalModel(DOMAIN, (("a", "b"), ("b", "c")), (one, other), 1000.0)
    for clique in (("a",), ("c", "a"), ("b", "c"), ("a", "b", "c")):
        np.testing.assert_allclose(model().marginal(clique), exact.marginal(clique), rtol=1e-5, atol=1e-9)
    assert model().marginal(("b", "c"))[1, 2:].sum() == 0


def test_a_model_that_is_read_back_draws_the_same_bytes() -> None:
    made = model()
    values, arrays = made.to_arrays()
    copied = {name: np.array(each.tolist(), dtype=np.int64).reshape(each.shape) for name, each in arrays.items()}
    again = read_model(made.kind, json.loads(json.dumps(values)), copied)
    assert again.rows == 1000
    one, other = made.sample(500, seed=2**127), again.sample(500, seed=2**127)
    assert one.dtype == np.int32
    assert one.tobytes() == other.tobytes()
    assert one.tobytes() != made.sample(500, seed=1).tobytes()


def test_rows_can_be_drawn_under_a_condition() -> None:
    made = model().sample(200, seed=1, where={"b": [1], "a": [0, 1]})
    assert set(made[:, 1]) == {1}
    assert made[:, 2].max() < 2
    with pytest.raises(NothingPossible):
        model().sample(10, seed=1, where={"b": [1], "c": [3]})


def changed(**replaced: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    values, arrays = model().to_arrays()
    for name, value in replaced.items():
        if name.startswith("potential"):
            arrays[name.replace("_", "-")] = value
        else:
            values[name] = value
    return values, arrays


@pytest.mark.parametrize(
    "replaced",
    [
        {"rows": -1},
        {"rows": True},
        {"rows": 2**31},
        {"rows": "7"},
        {"domain": {"columns": ["a", "b"], "shape": [2, 3]}},
        {"domain": {"columns": ["a", "b", "c"], "shape": [2, 3, 5]}},
        {"domain": {"columns": ["a", "b", "c"], "shape": [2, 3, -4]}},
        {"domain": {"columns": ["a", "b", "c"], "shape": [2, 3, 4.0]}},
        {"domain": {"columns": ["a", "b", 3], "shape": [2, 3, 4]}},
        {"domain": None},
        {"cliques": [["a", "b"], ["a", "b"]]},
        {"cliques": [["b", "a"], ["b", "c"]]},
        {"cliques": [["a", "b"]]},
        {"cliques": [["a", "b"], ["b", "d"]]},
        {"steps": 2**21},
        {"more": 1},
        {"potential_0002": np.zeros(2, dtype=np.int64)},
        {"potential_0000": np.ones((2, 3), dtype=np.int64)},
        {"potential_0000": np.zeros((3, 2), dtype=np.int64)},
        {"potential_0000": np.zeros((2, 3))},
        {"potential_0000": np.full((2, 3), -(2**41))},
        {"potential_0000": np.full((2, 3), FORBIDDEN)},
    ],
)
def test_what_is_no_model_is_refused(replaced: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_model(PublishedModel.kind, *changed(**replaced))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="graphical_model"):
        read_model("network", *model().to_arrays())
