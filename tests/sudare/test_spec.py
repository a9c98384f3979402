"""Contracts and specs in Python are those of files: the same keys, the same digest, the same refusals."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import sudare
from contracts.release.spec import load_spec
from sudare.spec import planned_file, run_file, spec_of
from tests.sudare.conftest import ADULT, TABLES, House

PRODUCT = {"kind": "statistics", "mechanism": "laplace", "tables": TABLES}
KEYS: dict[str, Any] = {
    "release": "by-sex",
    "contract": ADULT / "adult.odcs.yaml",
    "charge": {"account": "adults", "epsilon": Decimal("0.1"), "delta": 1e-9},
    "product": PRODUCT,
}


def test_a_file_that_is_loaded_and_written_again_is_the_same_spec(tmp_path: Path):
    """But for its paths, which are absolute; numbers keep their digits."""
    for path in sorted(ADULT.glob("*.yaml")):
        if path.name.endswith(".odcs.yaml") or path.name == "model.yaml":
            continue
        again = tmp_path / path.name
        again.write_text(sudare.Spec.load(path).to_yaml())
        one, other = (load_spec(each).model_dump(exclude={"path", "written_paths"}) for each in (path, again))
        assert one == other


def test_numbers_of_python_arrive_as_they_are_written(tmp_path: Path):
    """0.1 is a tenth and 1e-9 a billionth, from a float, a Decimal or a text."""
    for epsilon, delta in ((0.1, 1e-9), (Decimal("0.1"), Decimal("1e-9")), ("0.1", "1e-9")):
        spec = sudare.Spec(**KEYS | {"charge": {"account": "adults", "epsilon": epsilon, "delta": delta}})
        with planned_file(spec, tmp_path / "adult.parquet") as file:
            charge = load_spec(file).charge
        assert (charge.epsilon, charge.delta) == (Decimal("0.1"), Decimal("1e-9"))


def test_the_file_of_a_run_is_named_by_its_content_and_written_once(tmp_path: Path):
    """Two specs of one release are two files: no run reads the other's."""
    rows = tmp_path / ".sudare" / "sources" / "adult.parquet"
    first = run_file(sudare.Spec(**KEYS), rows, tmp_path)
    assert run_file(sudare.Spec(**KEYS), rows, tmp_path) == first
    other = run_file(sudare.Spec(**KEYS | {"charge": {**KEYS["charge"], "epsilon": 2}}), rows, tmp_path)
    assert {first, other} == set((tmp_path / "specs").iterdir())
    written = yaml.safe_load(first.read_text())
    assert written["source"]["path"] == "../.sudare/sources/adult.parquet"
    assert not Path(written["contract"]).is_absolute()
    assert load_spec(first).source.path.resolve() == rows  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"relese": 1}, "relese", "write 'release' instead of 'relese'"),
        (
            {"charge": {"acount": "a", "epsilon": 1, "delta": 0}},
            "charge.acount",
            "write 'account' instead of 'acount'",
        ),
        ({"product": {**PRODUCT, "mechanism": "laplce"}}, "product.mechanism", "write 'laplace' instead of 'laplce'"),
        (
            {"product": {**PRODUCT, "tables": [{"by": ["sx"], "of": ["count"]}]}},
            "product.tables[0].by[0]",
            "write 'sex' instead of 'sx'",
        ),
        ({"product": {**PRODUCT, "tables": pl.DataFrame()}}, "product.tables", "give rows to run(spec, source=...)"),
    ],
)
def test_a_typing_error_is_told_at_its_place_in_the_object(
    changes: dict[str, Any], field: str, remedy: str, house: House
):
    """Field and remedy are those of the file's refusal; the place is the object, without a line."""
    with pytest.raises(sudare.SpecRefused) as refused:
        house.ws.plan(KEYS | changes)
    told = {finding.field: finding for finding in refused.value.findings}
    assert told[field].where == "Spec('by-sex')"
    assert told[field].remedy == remedy


def test_the_findings_are_word_for_word_those_of_the_file(house: House, tmp_path: Path):
    """Several at once: what was found, what is allowed, what to do."""
    wrong = KEYS | {"charge": {"account": "", "epsilon": -1, "delta": 2}, "product": {"kind": "table"}}
    path = tmp_path / "spec.yaml"
    path.write_text(sudare.Spec(**wrong | {"source": {"path": "adult.parquet"}}).to_yaml())
    with pytest.raises(sudare.SpecRefused) as by_file:
        load_spec(path)
    with pytest.raises(sudare.SpecRefused) as by_object:
        house.ws.plan(wrong)
    parts = [
        [(each.field, each.found, each.allowed, each.remedy) for each in refused.value.findings]
        for refused in (by_file, by_object)
    ]
    assert len(parts[0]) > 3
    assert parts[0] == parts[1]


def test_what_is_no_spec_is_refused():
    with pytest.raises(sudare.SpecRefused, match="an object of type int"):
        spec_of(5)  # type: ignore[arg-type]
    with pytest.raises(sudare.SpecRefused, match="no such file"):
        spec_of("nothing.yaml")
    with pytest.raises(sudare.SpecRefused, match=r"save it: \.save"):
        sudare.Spec(**KEYS | {"contract": sudare.Contract.draft(pl.DataFrame({"x": [1]}))})


def test_a_draft_of_a_table_in_memory_is_that_of_a_file_with_its_head(house: House, tmp_path: Path):
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


def test_a_draft_takes_values_from_a_codebook_and_says_what_contradicts(tmp_path: Path):
    """Of rows that are public too; and never of others."""
    rows = pl.DataFrame({"SEX": [1, 2], "AGEP": [33, 44], "EXTRA": ["a", "b"]})
    (tmp_path / "book.csv").write_text("column,values\nSEX,1=male; 2=female\nAGEP,0..99\n")
    draft = sudare.Contract.draft(rows, tmp_path / "book.csv", table="acs")
    assert "EXTRA" in "".join(draft.contradictions)
    assert "contradictions" in repr(draft)
    assert "33" not in sudare.Contract.draft(rows, table="acs").text
    public = sudare.Contract.draft(rows, table="acs", public_because="made up for a test")
    assert public.open_places < sudare.Contract.draft(rows, table="acs").open_places


def test_a_draft_is_saved_into_a_new_file_and_refused_until_it_is_filled_in(tmp_path: Path):
    draft = sudare.Contract.draft(pl.DataFrame({"x": [1]}), table="visits")
    assert draft.save(tmp_path / "visits.odcs.yaml").path == tmp_path / "visits.odcs.yaml"
    with pytest.raises(sudare.Refused, match="name another"):
        draft.save(tmp_path / "visits.odcs.yaml")
    with pytest.raises(sudare.ContractRefused, match="<declare>"):
        sudare.Contract.load(tmp_path / "visits.odcs.yaml")


def test_a_loaded_contract_names_its_columns_and_who_is_protected():
    contract = sudare.Contract.load(ADULT / "adult.odcs.yaml")
    assert contract.table == "adult"
    assert len(contract.columns) == 15
    drawn = contract._repr_html_()
    assert "add_remove" in drawn
    assert "native-country" in drawn


def test_what_no_draft_can_be_made_of_is_refused(tmp_path: Path):
    with pytest.raises(sudare.Refused, match="no such file"):
        sudare.Contract.load(tmp_path / "nothing.yaml")
    with pytest.raises(sudare.Refused):
        sudare.Contract.draft(tmp_path / "nothing.parquet")
    with pytest.raises(sudare.Refused):
        sudare.Contract.draft([1, 2])
