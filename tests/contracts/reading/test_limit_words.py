"""What a number or a list may be, in words; pydantic's own never show."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from contracts.reading.findings import limits_in_words, without_key


class Asked(BaseModel):
    rounds: int | None = Field(default=None, ge=1, le=100_000)
    share: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    limit: float | None = Field(default=None, gt=0)
    init: bool = True
    names: tuple[str, ...] = Field(default=("a",), min_length=1, max_length=2)
    any_number: int = 0
    most: int = Field(ge=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rounds": 0}, "a whole number from 1 to 100,000, or nothing"),
        ({"rounds": "2.5"}, "a whole number from 1 to 100,000, or nothing"),
        ({"share": 1}, "a number above 0 and below 1"),
        ({"share": "nan"}, "a number above 0 and below 1"),
        ({"limit": "-1"}, "a number above 0, or nothing"),
        ({"init": "maybe"}, "true or false"),
        ({"names": ()}, "a list of at least 1"),
        ({"names": ("a", "b", "c")}, "a list of at most 2"),
        ({"any_number": "x"}, "a whole number"),
        ({"names": 3}, None),
    ],
)
def test_limits_are_told_in_words(given: dict[str, Any], words: str | None) -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({"most": 1, **given})
    (item,) = caught.value.errors()
    field = Asked.model_fields[str(item["loc"][0])]
    assert limits_in_words(item["type"], item.get("ctx", {}), field) == words


def test_without_the_field_the_limit_that_was_broken_is_told() -> None:
    assert limits_in_words("greater_than", {"gt": 0.0}, None) == "a number above 0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("share", "correct it, or drop it for 0.5"),
        ("init", "correct it, or drop it for true"),
        ("limit", "correct it, or drop it"),
        ("names", ""),
        ("most", ""),
    ],
)
def test_what_a_key_stands_for_that_is_dropped_is_told(name: str, words: str) -> None:
    assert without_key(Asked.model_fields[name]) == words
