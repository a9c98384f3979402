"""Events: validated when made, the same after a trip through JSON, refused when not known."""

import dataclasses
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    UnsupportedEvent,
    ZeroConcentrated,
    event_from_json,
)

parameters = st.fractions(min_value=Fraction(1, 10**9), max_value=10**3)
moves = st.lists(st.integers(min_value=-9, max_value=9).filter(lambda move: move != 0), min_size=1, max_size=3).map(
    tuple
)
events = st.one_of(
    st.builds(DiscreteLaplace, parameters, moves),
    st.builds(DiscreteGaussian, parameters, moves),
    st.builds(Pure, parameters),
    st.builds(ZeroConcentrated, parameters),
    st.builds(Gaussian, st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)),
    st.builds(ExponentialMechanism, parameters),
    st.builds(
        PoissonSampledGaussian,
        st.fractions(min_value=Fraction(1, 10), max_value=10**4),
        st.fractions(min_value=Fraction(1, 10**9), max_value=1),
        st.integers(min_value=1, max_value=10**9),
    ),
)
SAMPLED = {
    "kind": "poisson_sampled_gaussian",
    "noise_multiplier": "11/10",
    "sampling_probability": "1/100",
    "steps": 1000,
}
LAPLACE = {"kind": "discrete_laplace", "inverse_scale": "1/2", "moves": [1]}


@settings(deadline=None)
@given(events)
def test_an_event_survives_json(event: PrivacyEvent):
    """Written to text and read back it is equal: nothing goes through a float."""
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


def test_an_event_is_written_with_its_kind_first():
    """The layout is what a stranger reads."""
    assert DiscreteLaplace(Fraction(1, 2), (1,)).to_json() == LAPLACE
    assert PoissonSampledGaussian(Fraction(11, 10), Fraction(1, 100), 1000).to_json() == SAMPLED
    assert list(Pure(Fraction(3)).to_json().items()) == [("kind", "pure"), ("epsilon", "3")]


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "mystery", "epsilon": "1"},
        {"epsilon": "1"},
        {"kind": None, "epsilon": "1"},
        {"kind": ["pure"], "epsilon": "1"},
        {"kind": "pure"},
        {"kind": "pure", "epsilon": "1", "delta": "0"},
        {"kind": "pure", "epsilon": 1},
        {"kind": "pure", "epsilon": "1.5"},
        {"kind": "pure", "epsilon": "1/0"},
        {"kind": "pure", "epsilon": "-1"},
        {"kind": "pure", "epsilon": "nan"},
        {"kind": "pure", "epsilon": "9" * 100},
        {**LAPLACE, "moves": "1"},
        {**LAPLACE, "moves": 1},
        {"kind": "gaussian", "noise_multiplier": 1},
        {"kind": "gaussian", "noise_multiplier": "1", "moves": [1]},
        {"kind": "gaussian", "sigma_squared": "1"},
        {"kind": "exponential_mechanism", "epsilon": "0.5"},
        {"kind": "exponential_mechanism", "rho": "1"},
        {key: value for key, value in SAMPLED.items() if key != "steps"},
        {**SAMPLED, "delta": "0"},
        {**SAMPLED, "steps": "1000"},
        {**SAMPLED, "steps": 1000.0},
        {**SAMPLED, "steps": True},
        {**SAMPLED, "steps": None},
        {**SAMPLED, "sampling_probability": 0.01},
        {**SAMPLED, "noise_multiplier": [1]},
        [LAPLACE],
        None,
    ],
    ids=str,
)
def test_json_of_another_form_is_refused(data: Any):
    """An unknown kind, a missing or extra field, a number that is not a rational's text."""
    with pytest.raises(UnsupportedEvent, match="allowed"):
        event_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "pure", "epsilon": "0"},
        {"kind": "pure", "epsilon": "1000001"},
        {**LAPLACE, "inverse_scale": "1/" + "9" * 30},
        {**LAPLACE, "moves": []},
        {**LAPLACE, "moves": [0]},
        {**LAPLACE, "moves": [1.0]},
        {**LAPLACE, "moves": [True]},
        {**LAPLACE, "moves": [10**10]},
        {"kind": "gaussian", "noise_multiplier": "0"},
        {"kind": "gaussian", "noise_multiplier": "1/10000000"},
        {"kind": "gaussian", "noise_multiplier": "1" + "0" * 16},
        {"kind": "exponential_mechanism", "epsilon": "0"},
        {"kind": "exponential_mechanism", "epsilon": "1000001"},
        {**SAMPLED, "noise_multiplier": "99/1000"},
        {**SAMPLED, "noise_multiplier": "1" + "0" * 10},
        {**SAMPLED, "sampling_probability": "0"},
        {**SAMPLED, "sampling_probability": "101/100"},
        {**SAMPLED, "sampling_probability": "1/1" + "0" * 13},
        {**SAMPLED, "steps": 0},
        {**SAMPLED, "steps": -1},
        {**SAMPLED, "steps": 10**9 + 1},
    ],
    ids=str,
)
def test_json_with_an_amount_out_of_range_is_refused(data: Any):
    """Zero, too large, no moves, a move that moves nothing."""
    with pytest.raises(AmountRefused, match="allowed"):
        event_from_json(data)


@pytest.mark.parametrize("value", [0.5, 1, True, "1/2", Fraction(0), Fraction(-1)], ids=str)
def test_a_parameter_is_a_positive_fraction(value: Any):
    """A float or an int in a parameter's place is refused, as are zero and less."""
    for make in (lambda: DiscreteLaplace(value, (1,)), lambda: DiscreteGaussian(value, (1,)), lambda: Pure(value)):
        with pytest.raises(AmountRefused):
            make()
    for kind in (ZeroConcentrated, Gaussian, ExponentialMechanism):
        with pytest.raises(AmountRefused):
            kind(value)
    for arguments in ((value, Fraction(1, 2), 1), (Fraction(1), value, 1)):
        if value != Fraction(1, 2):
            with pytest.raises(AmountRefused):
                PoissonSampledGaussian(*arguments)


@pytest.mark.parametrize("steps", [0, -1, True, 1.0, "1", None, Fraction(1), 10**9 + 1], ids=str)
def test_steps_are_a_positive_int(steps: Any):
    """A float's or a fraction's number of steps is refused."""
    with pytest.raises(AmountRefused, match="steps is"):
        PoissonSampledGaussian(Fraction(1), Fraction(1, 2), steps)


def test_each_event_names_the_adjacencies_it_is_valid_under():
    """Sampling by chance is accounted under add_remove alone; the moves of the others carry the adjacency."""
    assert PoissonSampledGaussian.adjacencies == {"add_remove"}
    for kind in (DiscreteLaplace, DiscreteGaussian, Pure, ZeroConcentrated, Gaussian, ExponentialMechanism):
        assert kind.adjacencies == {"add_remove", "replace_one"}


def test_moves_are_a_tuple():
    """A list could change after the event was charged."""
    with pytest.raises(AmountRefused):
        DiscreteLaplace(Fraction(1), [1])  # type: ignore[arg-type]


def test_an_event_cannot_be_changed():
    """What was charged is what was drawn."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pure(Fraction(1)).epsilon = Fraction(2)  # type: ignore[misc]
