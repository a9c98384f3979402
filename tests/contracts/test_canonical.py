"""The readable form of JSON is that of Python's own encoder, for every value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.canonical import canonical_json, readable_json

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.lists(st.lists(inner, max_size=3)),
        st.dictionaries(st.text(), inner),
        st.dictionaries(st.integers(), inner),
    ),
    max_leaves=40,
)


def by_python(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


@pytest.mark.long
@given(VALUES)
def test_the_readable_form_is_pythons_own(value: Any):
    """Property: the same bytes as `json.dumps` with indents, whatever is nested in what."""
    assert readable_json(value) == by_python(value)
    assert json.loads(readable_json(value)) == json.loads(canonical_json(value))


def test_texts_that_look_like_separators_stay_texts():
    """A text with brackets, zero bytes and line ends inside a list of lists is written as it is."""
    value = {"a": [["]\0[", "\n"], ["],\n["]], "b": [[1, 2], [3]], "c": [[], [1]], "d": {}}
    assert readable_json(value) == by_python(value)


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], [[1.0, float("nan")], [2.0]]])
def test_what_json_cannot_hold_is_refused(value: Any):
    """A NaN or an infinity is refused wherever it stands."""
    with pytest.raises(ValueError, match="JSON"):
        readable_json(value)
