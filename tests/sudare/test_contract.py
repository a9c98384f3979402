"""A contract in Python: begun from the head of a table, saved, loaded, shown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sudare
from tests.sudare.conftest import ADULT, House


def test_a_draft_of_a_table_in_memory_is_that_of_a_file_with_its_head(house: House, tmp_path: Path) -> None:
    """Nothing of the rows is in it: the same table with other rows has the same draft."""
    file = tmp_path / "adult.parquet"
    house.rows.write_parquet(file)
    drafts = [
        sudare.Contract.draft(house.rows, table="adult").text,
        sudare.Contract.draft(house.rows.to_arrow(), table="adult").text,
        sudare.Contract.draft(house.rows.head(1), table="adult").text,
        sudare.Contract.draft(file).text,
    ]
    assert len(set(drafts)) == 1
    assert "Bachelors" not in drafts[0]
    assert 0 < sudare.Contract.draft(file).open_places < 50


def test_a_draft_takes_values_from_a_codebook_and_says_what_contradicts(tmp_path: Path) -> None:
    """Of rows that are public too; and never of others."""
    rows = pl.DataFrame({"SEX": [1, 2], "AGEP": [33, 44], "EXTRA": ["a", "b"]})
    (tmp_path / "book.csv").write_text("column,values\nSEX,1=male; 2=female\nAGEP,0..99\n")
    draft = sudare.Contract.draft(rows, tmp_path / "book.csv", table="acs")
    assert "EXTRA" in "".join(draft.contradictions)
    assert "contradictions" in repr(draft)
    assert "33" not in sudare.Contract.draft(rows, table="acs").text
    public = sudare.Contract.draft(rows, table="acs", public_because="made up for a test")
    assert public.open_places < sudare.Contract.draft(rows, table="acs").open_places


def test_a_draft_is_saved_into_a_new_file_and_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    draft = sudare.Contract.draft(pl.DataFrame({"x": [1]}), table="visits")
    assert draft.save(tmp_path / "visits.odcs.yaml").path == tmp_path / "visits.odcs.yaml"
    with pytest.raises(sudare.Refused, match="name another"):
        draft.save(tmp_path / "visits.odcs.yaml")
    with pytest.raises(sudare.ContractRefused, match="<declare>"):
        sudare.Contract.load(tmp_path / "visits.odcs.yaml")


def test_a_loaded_contract_names_its_columns_and_who_is_protected() -> None:
    contract = sudare.Contract.load(ADULT / "adult.odcs.yaml")
    assert contract.table == "adult"
    assert len(contract.columns) == 15
    drawn = contract._repr_html_()
    assert "add_remove" in drawn
    assert "native-country" in drawn


def test_what_no_draft_can_be_made_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sudare.Refused, match="no such file"):
        sudare.Contract.load(tmp_path / "nothing.yaml")
    with pytest.raises(sudare.Refused):
        sudare.Contract.draft(tmp_path / "nothing.parquet")
    with pytest.raises(sudare.Refused):
        sudare.Contract.draft([1, 2])
