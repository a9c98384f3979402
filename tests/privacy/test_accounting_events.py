"""Events: validated when made, the same after a trip through JSON, refused when not known."""

from __future__ import annotations

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
    Event,
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
)
LAPLACE = {"kind": "discrete_laplace", "inverse_scale": "1/2", "moves": [1]}


@settings(deadline=None)
@given(events)
def test_an_event_survives_json(event: Event) -> None:
    """Written to text and read back it is equal: nothing goes through a float."""
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


def test_an_event_is_written_with_its_kind_first() -> None:
    """The layout is what a stranger reads."""
    assert DiscreteLaplace(Fraction(1, 2), (1,)).to_json() == LAPLACE
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
        [LAPLACE],
        None,
    ],
    ids=str,
)
def test_json_of_another_form_is_refused(data: Any) -> None:
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
    ],
    ids=str,
)
def test_json_with_an_amount_out_of_range_is_refused(data: Any) -> None:
    """Zero, too large, no moves, a move that moves nothing."""
    with pytest.raises(AmountRefused, match="allowed"):
        event_from_json(data)


@pytest.mark.parametrize("value", [0.5, 1, True, "1/2", Fraction(0), Fraction(-1)], ids=str)
def test_a_parameter_is_a_positive_fraction(value: Any) -> None:
    """A float or an int in a parameter's place is refused, as are zero and less."""
    for make in (lambda: DiscreteLaplace(value, (1,)), lambda: DiscreteGaussian(value, (1,)), lambda: Pure(value)):
        with pytest.raises(AmountRefused):
            make()
    with pytest.raises(AmountRefused):
        ZeroConcentrated(value)


def test_moves_are_a_tuple() -> None:
    """A list could change after the event was charged."""
    with pytest.raises(AmountRefused):
        DiscreteLaplace(Fraction(1), [1])  # type: ignore[arg-type]


def test_an_event_cannot_be_changed() -> None:
    """What was charged is what was drawn."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pure(Fraction(1)).epsilon = Fraction(2)  # type: ignore[misc]
