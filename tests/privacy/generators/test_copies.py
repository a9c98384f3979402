"""Measurements drawn again around a model: the law of their noise, and that a copy is fitted as the model was."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.generators.copied_model import CopiedModel, read_copied
from privacy.generators.copies import redrawn
from privacy.generators.rows import read_model
from privacy.grant.measurement import Measurement
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import PublishedModel
from privacy.marginals.portable import PostProcessingSeed

CELLS = 200_000
DKW = 0.00732
"""At n = 200,000 the largest gap of a distribution function passes it with probability below 1e-9."""


@dataclass
class Flat:
    def marginal(self, clique: tuple[str, ...]) -> Any:
        return np.full(CELLS, 5.0)


def measured(event: Any, variance: float) -> Measurement:
    return Measurement("m", ("a",), np.zeros(CELLS, dtype=np.int64), event, variance, 1, "0" * 64)


def gap(values: np.ndarray, share_below: Any) -> float:
    ordered = np.sort(values)
    steps = np.arange(1, ordered.size + 1) / ordered.size
    return float(np.abs(steps - share_below(ordered)).max())


def normal(values: np.ndarray) -> Any:
    from scipy.stats import norm

    return norm.cdf(values, 5.0, 3.0)


def double_exponential(values: np.ndarray) -> Any:
    from scipy.stats import laplace

    return laplace.cdf(values, 5.0, 3.0 / np.sqrt(2))


@pytest.mark.stat
@pytest.mark.parametrize(
    ("event", "law", "other"),
    [
        (DiscreteGaussian.__new__(DiscreteGaussian), normal, double_exponential),
        (DiscreteLaplace.__new__(DiscreteLaplace), double_exponential, normal),
    ],
)
def test_noise_is_drawn_again_by_the_law_of_the_measurement(event: Any, law: Any, other: Any):
    """The seed is fixed, so that nothing is left to chance; the other law, and 10 % more of the right one, fail."""
    (again,) = redrawn(Flat(), [measured(event, 9.0)], PostProcessingSeed(4))  # type: ignore[arg-type]
    values = np.asarray(again.values)
    assert gap(values, law) < DKW
    assert gap(values, other) > DKW
    assert gap(5.0 + 1.1 * (values - 5.0), law) > DKW


def test_no_two_measurements_get_the_same_noise():
    """Each has a stream of its own: correlated copies would say too little of the noise."""
    event = DiscreteGaussian.__new__(DiscreteGaussian)
    one, two = redrawn(Flat(), [measured(event, 9.0)] * 2, PostProcessingSeed(4))  # type: ignore[arg-type]
    assert abs(np.corrcoef(np.asarray(one.values), np.asarray(two.values))[0, 1]) < 0.02


def model(*rows: float) -> PublishedModel:
    domain = CellDomain(("a",), (len(rows),))
    potentials = (np.log(np.asarray(rows)),)
    return PublishedModel.of(GraphicalModel(domain, (("a",),), potentials, 9.0), 9)


def test_models_of_copies_come_back_as_they_were_written():
    made = CopiedModel(model(1, 2), (model(1, 3), model(2, 3)))
    again = read_model(made.kind, *made.to_arrays())
    assert isinstance(again, CopiedModel)
    assert [copy.marginal(("a",)).tolist() for copy in again.copies] == [
        copy.marginal(("a",)).tolist() for copy in made.copies
    ]
    assert again.marginal(("a",)).tolist() == made.first.marginal(("a",)).tolist()
    assert Fraction(again.rows) == 9


def test_what_a_stranger_may_write_in_place_of_copies_is_refused():
    """One copy, models inside models, arrays of no model, another table."""
    values, arrays = CopiedModel(model(1, 2), (model(1, 3), model(2, 3))).to_arrays()
    with pytest.raises(ValueError, match="allowed: from 2 to 100"):
        CopiedModel(model(1, 2), (model(1, 3),))
    with pytest.raises(ValueError, match="a copy of other columns"):
        CopiedModel(model(1, 2), (model(1, 3), model(1, 2, 3)))
    with pytest.raises(ValueError, match="an array of no model"):
        read_copied(values, {**arrays, "copy-0003-potential-0000": arrays["potential-0000"]}, read_model)
    nested = {**values, "copies": [{"kind": "copied", "values": values}] * 2}
    with pytest.raises(ValueError, match="none has copies itself"):
        read_copied(nested, arrays, read_model)
