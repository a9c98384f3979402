"""The published model and its options: whole numbers that give the same rows everywhere, read back with care."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, model_validator

from privacy.generators.aim import Aim, AimOptions
from privacy.generators.auto import AutoOptions
from privacy.generators.calibration import GENERATORS, TRAINERS
from privacy.generators.generator import CandidateRefused, default_values, non_default_options, resolved_options
from privacy.generators.latent import PhasedOptions
from privacy.generators.linked_tables import LinkedTablesOptions, _generators
from privacy.generators.rows import read_model
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import FORBIDDEN, PublishedModel

DOMAIN = CellDomain(("a", "b", "c"), (2, 3, 4))


def model(rows: int = 1000) -> PublishedModel:
    generator = np.random.default_rng(5)
    one, other = generator.normal(size=(2, 3)), generator.normal(size=(3, 4))
    other[1, 2:] = -np.inf
    return PublishedModel.of(GraphicalModel(DOMAIN, (("a", "b"), ("b", "c")), (one, other), 7.0), rows)


def test_rounding_keeps_probabilities_and_structural_zeros():
    generator = np.random.default_rng(5)
    one, other = generator.normal(size=(2, 3)), generator.normal(size=(3, 4))
    other[1, 2:] = -np.inf
    exact = GraphicalModel(DOMAIN, (("a", "b"), ("b", "c")), (one, other), 1000.0)
    for clique in (("a",), ("c", "a"), ("b", "c"), ("a", "b", "c")):
        np.testing.assert_allclose(model().marginal(clique), exact.marginal(clique), rtol=1e-5, atol=1e-9)
    assert model().marginal(("b", "c"))[1, 2:].sum() == 0


def test_a_model_that_is_read_back_draws_the_same_bytes():
    made = model()
    values, arrays = made.to_arrays()
    copied = {name: np.array(each.tolist(), dtype=np.int64).reshape(each.shape) for name, each in arrays.items()}
    again = read_model(made.kind, json.loads(json.dumps(values)), copied)
    assert again.rows == 1000
    one, other = made.sample(500, seed=2**127), again.sample(500, seed=2**127)
    assert one.dtype == np.int32
    assert one.tobytes() == other.tobytes()
    assert one.tobytes() != made.sample(500, seed=1).tobytes()


def test_rows_can_be_drawn_under_a_condition():
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
def test_what_is_no_model_is_refused(replaced: dict[str, Any]):
    with pytest.raises(ValueError):  # noqa: PT011
        read_model(PublishedModel.kind, *changed(**replaced))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="graphical_model"):
        read_model("network", *model().to_arrays())


LEAST: dict[str, dict[str, Any]] = {
    "class_pictures": {"label": "ward"},
    **{name: {"rows_about": 900} for name in ("ae", "p3gm", "vae", "dp_gm", "dp_sgd", "anonymized_learning")},
    "fixed": {"cliques": [["ward"]]},
}
BUILT_IN = [(registry, name) for registry in (GENERATORS, TRAINERS) for name in registry.built_in]


@pytest.mark.parametrize(("registry", "name"), BUILT_IN, ids=[name for _, name in BUILT_IN])
def test_all_options_of_each_built_in_one_are_stated_and_read_again(registry: Any, name: str):
    """Those of generators that it hands over to, too."""
    fitter = registry.load(name)
    options = fitter.options.model_validate(LEAST.get(name, {}))
    whole = resolved_options(fitter, options)
    assert set(whole) == set(fitter.options.model_fields)
    assert resolved_options(fitter, fitter.options.model_validate(whole)) == whole
    assert set(non_default_options(fitter.options, whole)) >= set(LEAST.get(name, {}))


@pytest.mark.parametrize(
    ("registry", "name", "at", "option"),
    [
        (GENERATORS, "auto", ("aim",), "measured_share"),
        (GENERATORS, "linked_tables", ("parent_options",), "measured_share"),
        (GENERATORS, "linked_tables", ("child_options",), "degree"),
        (TRAINERS, "anonymizing_first", ("generator_options",), "max_model_megabytes"),
    ],
)
def test_options_that_are_handed_over_are_whole(registry: Any, name: str, at: tuple[Any, ...], option: str):
    fitter = registry.load(name)
    found: Any = resolved_options(fitter, fitter.options.model_validate(LEAST.get(name, {})))
    for key in at:
        found = found[key]
    assert option in found


def test_options_without_effect_are_left_out_as_they_would_be_refused():
    """A degree beside a workload; those of a training beside a decoder that none trains."""
    aim = resolved_options(Aim(), AimOptions.model_validate({"workload": [["ward"]]}))
    assert "degree" not in aim
    assert AimOptions.model_validate(aim).workload is not None
    p3gm = GENERATORS.load("p3gm")
    linear = resolved_options(p3gm, p3gm.options.model_validate({"rows_about": 900, "decoder": "linear"}))
    assert "epochs" not in linear

    class Later(PhasedOptions):
        epochs: float = 7

    assert Later.model_validate(linear).decoder == "linear"
    auto = resolved_options(GENERATORS.load("auto"), AutoOptions.model_validate({"aim": {"workload": [["ward"]]}}))
    assert "degree" not in auto["aim"]


def test_resolved_options_outlast_a_default_and_written_ones_do_not():
    class Later(AimOptions):
        measured_share: float = 0.5

    whole = resolved_options(Aim(), AimOptions())
    assert Later.model_validate(whole).measured_share == AimOptions().measured_share == 0.9
    assert Later.model_validate({}).measured_share == 0.5
    assert non_default_options(AimOptions, whole) == {}
    assert non_default_options(Later, whole) == {"measured_share": 0.9}
    assert default_values(Later)["measured_share"] == 0.5


def test_options_that_would_not_be_read_back_stay_as_they_were_written():
    """As of a package whose options exclude each other by being written."""

    class Either(BaseModel):
        one: int = 1
        other: int = 2

        @model_validator(mode="after")
        def _not_both(self) -> Either:
            if len(self.model_fields_set) > 1:
                raise ValueError("give one or other")
            return self

    class Ours:
        options = Either

    made: Any = Ours()
    assert resolved_options(made, Either(one=5)) == {"one": 5}


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"parent_options": {"noise": "laplace"}}, "noise"),
        ({"child_options": {"degre": 2}}, "degre"),
        ({"parents": "mst", "parent_options": {"degree": 2}}, "degree"),
    ],
)
def test_options_of_one_of_two_tables_are_its_generators_own(written: dict[str, Any], says: str):
    with pytest.raises(CandidateRefused, match=says):
        _generators(LinkedTablesOptions.model_validate(written))


def test_options_of_one_of_two_tables_reach_its_generator():
    (_, above), (_, below) = _generators(
        LinkedTablesOptions.model_validate({"noise": "laplace", "child_options": {"degree": 3}})
    )
    assert isinstance(above, AimOptions)
    assert isinstance(below, AimOptions)
    assert (above.degree, below.degree) == (2, 3)
    assert (above.noise, below.noise) == ("laplace", "laplace")
