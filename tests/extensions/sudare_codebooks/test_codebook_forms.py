"""Forms of codebooks: what is read of each, what is refused, and what the page of the extension says of them."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.codebooks.codebook import read_codebook
from contracts.drafting.codebooks.entries import sketch_of_entry
from contracts.drafting.sketch import ColumnSketch, DraftRefused
from contracts.errors import Finding
from sudare_codebooks import ddi, json_forms, statistical_files
from sudare_codebooks.statistical_files import entries_of_metadata
from tasks.draft import draft_contract
from tests.contracts.samples import write
from tests.source_folders import ROOT

TABLE_SCHEMA = {
    "fields": [
        {"name": "id", "type": "string", "constraints": {"unique": True}},
        {"name": "age", "type": "integer", "title": "Age", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "sex", "categories": [{"value": 1, "label": "male"}, {"value": 2, "label": "female"}]},
        {"name": "ward", "type": "string", "constraints": {"enum": ["north", "south"]}},
        {"name": "size", "type": "number", "constraints": {"minimum": 0.5, "maximum": 2.5}},
        {"name": "day", "type": "date", "format": "%d.%m.%Y"},
        {"name": "had", "type": "boolean", "trueValues": ["J"], "falseValues": ["N"]},
    ],
    "missingValues": ["", "-9"],
}  # fmt: skip
DDI = """\
<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <stdyDscr><citation><titlStmt><titl>A survey</titl></titlStmt></citation></stdyDscr>
  <dataDscr>
    <var ID="V1" name="age" dcml="0">
      <labl>Age &amp; more</labl>
      <valrng><range min="0" max="99"/></valrng>
      <invalrng><item VALUE="-9"/></invalrng>
      <varFormat type="numeric"/>
    </var>
    <var ID="V2" name="sex">
      <labl>Sex</labl>
      <valrng><range min="1" max="2"/></valrng>
      <catgry><catValu>1</catValu><labl>male <b>person</b></labl></catgry>
      <catgry><catValu>2</catValu><labl>female</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>refused</labl></catgry>
      <varFormat type="numeric"/>
    </var>
    <var ID="V3" name="note"><varFormat type="character"/></var>
    <var ID="V4" name="size" dcml="2"><valrng><range min="0.5" max="2"/></valrng><varFormat type="numeric"/></var>
  </dataDscr>
</codeBook>
"""
SDNIST = {
    "schema": {
        "AGEP": {"dtype": "int64", "min": 0, "max": 95},
        "MSP": {"dtype": "object", "has_null": True, "null_value": "N", "values": ["N", "1", "2"]},
        "DENSITY": {"dtype": "float64", "min": 16, "max": 52864},
    }
}
DICTIONARY = {
    "AGEP": {"description": "Person's age", "values": {"min": 0, "max": 99}},
    "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
    "NOC": {"description": "Children", "values": {"N": "N/A", "0": "none", "min": 1, "max": 60, "999": "unknown"}},
    "INDP": {"description": "Industry codes"},
}


def _sketches(folder: Path, name: str, content: Any) -> dict[str, ColumnSketch]:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    book = read_codebook(write(folder, name, text))
    return {entry.name: sketch_of_entry(entry, book.file)[0] for entry in book.entries}


def test_a_table_schema(tmp_path: Path):
    """Types, titles, enum, categories with labels, ranges, missing values, formats and flags."""
    columns = _sketches(tmp_path, "schema.json", TABLE_SCHEMA)
    assert "It is unique" in columns["id"].hints[0]
    age = columns["age"]
    assert (age.logical_type, age.bounds, age.missing, age.description) == ("integer", ("0", "99"), ("-9",), "Age")
    assert columns["sex"].labels == {"1": "male", "2": "female"}
    assert columns["ward"].values == ("north", "south")
    assert (columns["size"].logical_type, columns["size"].bounds) == ("number", ("0.5", "2.5"))
    assert (columns["day"].logical_type, columns["day"].form) == ("date", "%d.%m.%Y")
    assert columns["had"].labels == {"N": "false", "J": "true"}
    package = {"resources": [{"name": "people", "schema": TABLE_SCHEMA}]}
    packed = _sketches(tmp_path, "package.json", package)
    assert [(c.name, c.labels, c.bounds) for c in packed.values()] == [
        (c.name, c.labels, c.bounds) for c in columns.values()
    ]


def test_a_ddi_codebook(tmp_path: Path):
    """Labels without their markup, categories before ranges, declared missing values, places by line."""
    columns = _sketches(tmp_path, "study.xml", DDI)
    age = columns["age"]
    assert (age.description, age.bounds, age.missing, age.logical_type) == (
        "Age & more",
        ("0", "99"),
        ("-9",),
        "integer",
    )
    assert "smallest and largest value of the rows" in age.hints[0]
    assert columns["sex"].labels == {"1": "male person", "2": "female"}
    assert (columns["sex"].bounds, columns["sex"].missing) == (None, ("9",))
    assert columns["note"].logical_type == "string"
    assert columns["size"].logical_type == "number"
    assert [column.where.rpartition(":")[2] for column in columns.values()] == ["5", "11", "19", "20"]
    assert read_codebook(tmp_path / "study.xml", "ddi").title == "A survey"


def test_a_schema_of_sdnist_and_a_data_dictionary(tmp_path: Path):
    """A code that is the range's neighbour widens it; another one is missing, and both are said."""
    columns = _sketches(tmp_path, "sdnist.json", SDNIST)
    assert (columns["MSP"].values, columns["MSP"].missing) == (("1", "2"), ("N",))
    assert columns["DENSITY"].logical_type == "number"
    assert "made from the rows" in draft_contract(None, tmp_path / "sdnist.json").text
    columns = _sketches(tmp_path, "dictionary.json", DICTIONARY)
    assert (columns["NOC"].bounds, columns["NOC"].missing, columns["NOC"].width) == (("0", "60"), ("N", "999"), None)
    assert "999 (unknown) stands beside the range" in columns["NOC"].hints[-1]
    assert columns["SEX"].labels == {"1": "Male", "2": "Female"}
    listed = [{"name": name, **entry} for name, entry in DICTIONARY.items()]
    for form in (listed, {"variables": listed}, {"columns": DICTIONARY}):
        again = _sketches(tmp_path, "listed.json", form)
        assert {name: (c.values, c.bounds, c.description) for name, c in again.items()} == {
            name: (c.values, c.bounds, c.description) for name, c in columns.items()
        }


def test_labels_of_spss_and_stata(tmp_path: Path):
    """What pyreadstat's metadata hold, with doubles as codes and ranges of missing values."""
    metadata = SimpleNamespace(
        column_names=["sex", "age", "day", "town", "size"],
        column_names_to_labels={"sex": "Sex", "age": None, "day": "Day", "town": "Town", "size": "Size"},
        variable_value_labels={"sex": {1.0: "male", 2.0: "female", 9.0: "refused"}},
        missing_ranges={"sex": [{"lo": 9.0, "hi": 9.0}], "age": [{"lo": 998.0, "hi": 999.0}]},
        missing_user_values={},
        original_variable_types={"sex": "F1.0", "age": "F3.0", "day": "DATE11", "town": "A20", "size": "F8.2"},
        readstat_variable_types={
            "sex": "double",
            "age": "double",
            "day": "double",
            "town": "string",
            "size": "double",
        },
    )
    columns = {entry.name: sketch_of_entry(entry, "a.sav")[0] for entry in entries_of_metadata(metadata, "a.sav")}
    assert (columns["sex"].labels, columns["sex"].missing) == ({"1": "male", "2": "female"}, ("9",))
    assert (columns["age"].logical_type, columns["age"].missing) == ("integer", ("998", "999"))
    assert [columns[name].logical_type for name in ("day", "town", "size")] == ["date", "string", "number"]


def test_without_pyreadstat_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The extra is named; no traceback, and no other reading of the file."""
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(DraftRefused, match=r"pyreadstat is not installed(?s:.)*sudare\[labels\]"):
        draft_contract(None, write(tmp_path, "a.sav", b"$FL2"))
    with pytest.raises(DraftRefused, match="no such file"):
        draft_contract(tmp_path / "gone.dta")


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"values": {"min": 9, "max": 0}}, "a range from 9 to 0"),
        ({"values": {"min": "low", "max": 0}}, "a range from 'low' to '0'"),
        ({"type": "integer", "values": ["1", "two"]}, "the code 'two' in a column of type integer"),
        ({"type": "boolean", "values": {"min": 0, "max": 1}}, "a range in a column of type boolean"),
        ({"values": [{"value": 1, "label": "a"}, {"value": 1, "label": "b"}]}, "the code '1' is 'a' and 'b'"),
    ],
)
def test_an_entry_that_contradicts_itself_is_left_open_and_told(tmp_path: Path, entry: dict[str, Any], found: str):
    """File and line, what was found and what to do; nothing of the domain is taken over."""
    path = write(tmp_path, "book.json", json.dumps({"a": {"values": ["x"]}, "b": entry}, indent=1))
    drafted = draft_contract(None, path)
    (finding,) = drafted.findings
    assert found in finding.found
    assert (finding.field, finding.where) == ("column 'b'", f"{path}:{_line_of(path, 'b')}")
    assert finding.remedy
    assert "\n  b: <declare>" in drafted.text
    assert f"# Contradiction: {finding.found}" in drafted.text


def _line_of(path: Path, name: str) -> int:
    return next(line for line, text in enumerate(path.read_text().splitlines(), 1) if f'"{name}": {{' in text)


@pytest.mark.parametrize(
    "label",
    ["<script>alert(1)</script>", "=1+1", "@sum", "a\u202eb", "a\nb", "x" * 500, "yes", 'q"\\', "{1: [", "# no", "N"],
)
def test_labels_stay_texts_whatever_they_look_like(tmp_path: Path, label: str):
    """Markup, formulas, marks and YAML: the contract has the text, or the code where it cannot hold the text."""
    path = write(tmp_path, "book.json", json.dumps({"a": {"values": {"1": label, "2": "b"}}}))
    text = draft_contract(None, path).text
    done = text.replace("kind: <declare>, scope: <declare>", "kind: row, scope: block")
    done = done.replace("adjacency: <declare>", "adjacency: add_remove").replace(
        "nulls: <declare>", "nulls: category"
    )
    done = done.replace("kind: <declare>", "kind: public")
    column = load_contract(write(tmp_path, "c.yaml", done)).column("a")
    expected = "1" if "\u202e" in label else " ".join(label.split())
    assert column.labels == (expected, "b", "(null)")
    assert column.domain.known_texts["1"] == 0  # type: ignore[attr-defined]


def _refused(path: Path, form: str | None = None) -> Finding:
    with pytest.raises(DraftRefused) as refused:
        read_codebook(path, form)
    (finding,) = refused.value.findings
    assert finding.where.startswith(str(path))
    assert finding.allowed
    assert finding.remedy
    return finding


@pytest.mark.parametrize(
    ("name", "content", "form", "line", "found"),
    [
        ("a.json", json.dumps(DICTIONARY), "table-schema", 0, "the form 'data-dictionary'"),
        ("a.xml", DDI, "list", 0, "the form 'ddi'"),
        ("a.json", json.dumps(DICTIONARY), "dictionary", 0, "a codebook of the form 'data-dictionary'"),
        ("a.json", '{"a":\n {"b": }}', None, 2, "Expecting value"),
        ("a.json", '{"a": {}, "a": {}}', None, 0, "the key 'a' twice"),
        ("a.json", "[" * 100_000, None, 0, "nested too deeply"),
        ("a.json", "[1, 2]", None, 0, "a file .json in none of the known forms"),
        ("a.json", json.dumps([{"name": "b"}, {"name": "B"}]), None, 1, "'B' again"),
        ("a.xml", "<a><b></a>", None, 1, "mismatched tag"),
        ("a.xml", "", None, 1, "no element found"),
        ("a.xml", "<d:DDIInstance xmlns:d='ddi:instance:3_3'/>", None, 0, "a file .xml in none of the known forms"),
        ("a.xml", "<codeBook>" + "<a>" * 100 + "</a>" * 100 + "</codeBook>", None, 1, "nested too deeply"),
    ],
)
def test_what_is_no_codebook_or_another_one_than_told(
    tmp_path: Path, name: str, content: str | bytes, form: str | None, line: int, found: str
):
    """One finding, with the line where there is one."""
    finding = _refused(write(tmp_path, name, content), form)
    assert found in finding.found
    assert finding.where.endswith(f":{line}") if line else not finding.where.rpartition(":")[2].isdigit()


BOMB = '<!DOCTYPE c [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "&{before};&{before};&{before};&{before};&{before};&{before};&{before};&{before};">'
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (BOMB + "]>", "the entity 'a', declared in the file"),
        ('<!DOCTYPE c [<!ENTITY x SYSTEM "codebook.json">]>', "the entity 'x', declared in the file"),
        (
            '<!DOCTYPE c [<!ENTITY % x SYSTEM "http://localhost:1/a.dtd"> %x;]>',
            "the entity 'x', declared in the file",
        ),
        ('<!DOCTYPE c SYSTEM "http://localhost:1/a.dtd">', "the entity 'x', which the file does not declare"),
        ("", "undefined entity"),
    ],
)
def test_entities_are_neither_expanded_nor_fetched(tmp_path: Path, head: str, found: str):
    """A bomb, a file, an address, an undeclared name: refused where it stands, before anything is read for it."""
    text = f'<?xml version="1.0"?>\n{head}\n<codeBook><var name="a"><labl>&x;</labl></var></codeBook>'
    finding = _refused(write(tmp_path, "a.xml", text))
    assert found in finding.found
    assert finding.where.rpartition(":")[2] in ("2", "3")


def test_a_doctype_without_entities_is_read_and_its_address_is_not(tmp_path: Path):
    """Archives name the DTD of DDI in their files; nobody listens at that address here."""
    head, rest = DDI.split("\n", 1)
    path = write(tmp_path, "a.xml", f'{head}\n<!DOCTYPE codeBook SYSTEM "http://localhost:1/ddi.dtd">\n{rest}')
    assert len(read_codebook(path).entries) == 4


PAGE = (ROOT / "extensions" / "sudare_codebooks" / "README.md").read_text(encoding="utf-8")
ACS = ROOT / "examples" / "acs"


def test_every_form_that_the_modules_give_is_on_the_page():
    """Forms are the texts in the sources that a codebook is made with."""
    listed = re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)
    sources = "".join(Path(str(module.__file__)).read_text() for module in (ddi, json_forms, statistical_files))
    assert listed == ["table-schema", "ddi", "sdnist", "data-dictionary", "spss", "stata"]
    assert [form for form in listed if f'"{form}"' not in sources] == []


def test_the_draft_of_the_acs_leaves_as_few_places_open_as_the_page_says(tmp_path: Path):
    """The header of NIST's file and NIST's data dictionary; the finished contract has as many lines as it says."""
    names = ",".join(column.name for column in load_contract(ACS / "acs.contract.yaml").columns)
    drafted = draft_contract(write(tmp_path, "acs.csv", f"{names}\n"), ACS / "codebook.json")
    assert drafted.findings == ()
    assert f"leaves {drafted.open_places} places open" in PAGE
    assert (
        f"{len((ACS / 'acs.contract.yaml').read_text().splitlines())} lines: `examples/acs/acs.contract.yaml`"
        in " ".join(PAGE.split())
    )
    done = drafted.text.replace("kind: <declare>, scope: <declare>", "kind: row, scope: block")
    done = done.replace("adjacency: <declare>", "adjacency: add_remove").replace(
        "nulls: <declare>", "nulls: category"
    )
    done = done.replace("kind: <declare>", "kind: public").replace("by <declare>", "by 100")
    done = done.replace("INDP: <declare>", "INDP: 0..9999 by 500")
    assert len(load_contract(write(tmp_path, "acs.yaml", done)).columns) == 24
