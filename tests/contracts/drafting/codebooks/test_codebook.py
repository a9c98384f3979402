"""A codebook as a list of columns: what is taken over, what contradicts itself, and what is refused."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from contracts import plug_ins
from contracts.drafting.codebooks.codebook import GROUP, read_codebook, registered_suffixes
from contracts.drafting.codebooks.entries import sketch_of_entry
from contracts.drafting.sketch import ColumnSketch, DraftRefused
from contracts.errors import Finding
from tasks.draft import draft_contract
from tests.contracts.samples import write

LIST = """\
column,values,description,type
sex,"1=male; 2=female",Sex,
age,0..99,Age in years,
size,0 to 2.5,,number
ward,surgery; emergency,"Where,
somebody lay",
free,,Remarks,text
"""


def _sketches(folder: Path, name: str, text: str) -> dict[str, ColumnSketch]:
    book = read_codebook(write(folder, name, text))
    return {entry.name: sketch_of_entry(entry, book.file)[0] for entry in book.entries}


def _refused(path: Path, form: str | None = None) -> Finding:
    with pytest.raises(DraftRefused) as refused:
        read_codebook(path, form)
    (finding,) = refused.value.findings
    assert finding.where.startswith(str(path))
    assert finding.allowed
    assert finding.remedy
    return finding


def test_a_list_of_columns(tmp_path: Path):
    """With a header of known words, or without one: then the second column is told by what it holds."""
    columns = _sketches(tmp_path, "list.csv", LIST)
    assert columns["sex"].labels == {"1": "male", "2": "female"}
    assert (columns["age"].bounds, columns["age"].where.rpartition(":")[2]) == (("0", "99"), "3")
    assert (columns["size"].logical_type, columns["size"].bounds) == ("number", ("0", "2.5"))
    assert (columns["ward"].values, columns["ward"].description) == (("surgery", "emergency"), "Where, somebody lay")
    assert columns["free"].where.endswith(":7")
    plain = _sketches(tmp_path, "plain.csv", "sex;Sex of the person\nage;Age in years\n")
    assert [column.description for column in plain.values()] == ["Sex of the person", "Age in years"]
    coded = _sketches(tmp_path, "coded.csv", "sex,1=male|2=female\nage,0..99\n")
    assert (coded["sex"].labels, coded["age"].bounds) == ({"1": "male", "2": "female"}, ("0", "99"))


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("9..0,", "a range from 9 to 0"),
        ("1; two,integer", "the code 'two' in a column of type integer"),
        ("0..1,boolean", "a range in a column of type boolean"),
        ("1=a; 1=b,", "the code '1' is 'a' and 'b'"),
    ],
)
def test_an_entry_that_contradicts_itself_is_left_open_and_told(tmp_path: Path, entry: str, found: str):
    """File and line, what was found and what to do; nothing of the domain is taken over."""
    path = write(tmp_path, "book.csv", f"column,values,type\na,x,\nb,{entry}\n")
    drafted = draft_contract(None, path)
    (finding,) = drafted.findings
    assert found in finding.found
    assert (finding.field, finding.where) == ("column 'b'", f"{path}:3")
    assert finding.remedy
    assert "\n  b: <declare>" in drafted.text
    assert f"# Contradiction: {finding.found}" in drafted.text


def test_labels_that_are_alike_or_other_codes_stay_apart(tmp_path: Path):
    """Two codes of one label are two cells; a label that is another code would be read as that one."""
    columns = _sketches(tmp_path, "b.csv", "column,values\na,8=other; 9=other\nb,1=2; 2=x\n")
    assert columns["a"].labels == {"8": "other (8)", "9": "other (9)"}
    assert (columns["b"].labels, columns["b"].values) == ({}, ("1", "2"))


@pytest.mark.parametrize(
    ("name", "content", "form", "line", "found"),
    [
        ("a.docx", "x", None, 0, "the suffix of 'a.docx'"),
        ("a.csv", "only\nnames\n", None, 1, "one column"),
        ("a.csv", "", None, 1, "nothing"),
        ("a.csv", b"a,gr\xf6\xdfe\n", None, 1, "the byte 0xf6"),
        ("a.csv", LIST, "ddi", 0, "a codebook of the form 'list'"),
        ("a.csv", "column,values\nb,\nB,\n", None, 3, "'B' again"),
    ],
)
def test_what_is_no_list_or_another_form_than_expected(
    tmp_path: Path, name: str, content: str | bytes, form: str | None, line: int, found: str
):
    """One finding, with the line where there is one."""
    finding = _refused(write(tmp_path, name, content), form)
    assert found in finding.found
    assert finding.where.endswith(f":{line}") if line else not finding.where.rpartition(":")[2].isdigit()


@pytest.mark.parametrize("suffix", [".json", ".xml", ".sav", ".zsav", ".por", ".dta"])
def test_a_form_of_an_absent_extension_is_refused_by_the_extension_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
):
    """As a codebook and as what a draft begins with; the suffix stays known."""
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    path = write(tmp_path, f"book{suffix}", "{}")
    assert "needs the extension sudare_codebooks, which is not installed" in _refused(path).found
    with pytest.raises(DraftRefused, match="sudare_codebooks"):
        draft_contract(path)
    assert suffix in registered_suffixes()


def test_a_reader_that_is_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where it is registered, and what should be there."""
    point = EntryPoint("json", "pathlib:Path", GROUP)
    monkeypatch.setattr(plug_ins, "registered", lambda group: (point,))
    finding = _refused(write(tmp_path, "book.json", "{}"))
    assert (finding.found, finding.allowed) == ("a reader registered as 'pathlib:Path'", "a CodebookReader")


@pytest.mark.parametrize("written", ["1930-01-01..2010-12-31", "1930-01-01 to 2010-12-31"])
@pytest.mark.parametrize("kind", ["", "string", "date"])
def test_a_range_of_days_is_drafted_as_dates_whose_periods_are_open(tmp_path: Path, written: str, kind: str):
    """Not as one category that no row has."""
    path = write(tmp_path, "book.csv", f"column,values,type\nborn,{written},{kind}\n")
    [entry] = read_codebook(path).entries
    sketch, findings = sketch_of_entry(entry, "book.csv")
    assert findings == ()
    assert (sketch.logical_type, sketch.values) == ("date", ())
    assert sketch.bounds == ("1930-01-01", "2010-12-31")
    assert "born: 1930-01-01..2010-12-31 by <declare>" in draft_contract(None, path).text
    [entry] = read_codebook(write(tmp_path, "bare.csv", f"born,{written}\n")).entries
    assert (entry.low, entry.high, entry.codes) == ("1930-01-01", "2010-12-31", ())


@pytest.mark.parametrize("written", ["2010-12-31..1930-01-01", "1930-01-01..2010-13-31"])
def test_a_range_of_days_that_is_none_is_a_contradiction(tmp_path: Path, written: str):
    [entry] = read_codebook(write(tmp_path, "book.csv", f"column,values\nborn,{written}\n")).entries
    sketch, [finding] = sketch_of_entry(entry, "book.csv")
    assert "two days" in finding.allowed
    assert sketch.bounds is None


def test_a_range_that_is_written_otherwise_is_left_open_with_a_hint(tmp_path: Path):
    [entry] = read_codebook(write(tmp_path, "book.csv", "column,values\nborn,May 1930..May 2010\n")).entries
    sketch, findings = sketch_of_entry(entry, "book.csv")
    assert (sketch.values, sketch.bounds, findings) == ((), None, ())
    assert "YYYY-MM-DD" in " ".join(sketch.hints)
