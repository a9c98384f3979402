"""Labels as a spreadsheet sees them: what is neutralised, and that each label can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.contract.labels import is_formula, neutralised, restored

LABELS = st.text(alphabet="'=+-@＝1a, ", max_size=6)


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+a", "'+a"),
        ("-b", "'-b"),
        ("@c", "'@c"),
        ("=x", "'=x"),
        ("'=x", "''=x"),
        ("＝1+1", "'＝1+1"),
        ("－ab", "'－ab"),
        ("﹦1", "'﹦1"),
        ("－", "－"),
        ("'", "''"),
        ("-1", "-1"),
        ("-3,5 %", "-3,5 %"),
        ("-", "-"),
        ("a'b", "a'b"),
        ("", ""),
    ],
)
def test_formulas_and_quoted_labels_get_one_quote(label: str, cell: str) -> None:
    assert (neutralised(label), restored(cell)) == (cell, label)


@given(LABELS)
def test_no_neutralised_label_is_a_formula_and_each_is_read_back(label: str) -> None:
    """Two labels that are written alike would be read back alike."""
    cell = neutralised(label)
    assert restored(cell) == label
    assert not is_formula(cell)


@given(LABELS)
def test_a_cell_that_no_label_is_written_as_is_refused(cell: str) -> None:
    """So a quote that is missing or too many is found, and never taken for another label."""
    if cell in {neutralised(label) for label in (cell, cell[1:])}:
        assert neutralised(restored(cell)) == cell
        return
    with pytest.raises(ValueError, match="formulas: neutralised"):
        restored(cell)


@pytest.mark.parametrize(("cell", "wanted"), [("=x", '"\'=x"'), ("'a", "'a'"), ("'-1", "'-1'")])
def test_the_refusal_says_how_the_label_is_written(cell: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"where {wanted} is written"):
        restored(cell)
