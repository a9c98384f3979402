"""`sudare contract`: drafts, advice, comparisons and the registry, as they are typed."""

import re
from pathlib import Path

import pytest

from contracts.reading.placeholders import PLACEHOLDER
from tests.console.conftest import ADULT, Place, Typed
from tests.contracts.drafting.test_drafting import DBT
from tests.contracts.samples import CONTRACT, replaced, write


def test_a_draft_is_printed_or_written_and_never_over_somebodys_work(tmp_path: Path, typed: Typed):
    """What is printed is the draft alone, so that it can be piped; `lint` then names every open place."""
    model = str(write(tmp_path, "schema.yml", DBT))
    said = typed("contract", "draft", "--from", model, "--table", "orders")
    assert said.code == 0
    assert said.out.startswith("# Draft of a contract")
    target = tmp_path / "orders.odcs.yaml"
    words = ("contract", "draft", "--from", model, "--table", "orders", "--to", str(target))
    assert "25 places" in typed(*words).out
    assert target.read_text() == said.out
    again = typed(*words, "--json")
    assert (again.code, again.json["error"]["kind"]) == (2, "WouldOverwrite")
    as_json = typed("contract", "draft", "--from", model, "--table", "orders", "--json").json
    assert (as_json["draft"], as_json["to_declare"], as_json["file"]) == (said.out, 25, None)
    lint = typed("contract", "lint", str(target), "--json")
    assert lint.code == 2
    assert len(lint.json["error"]["findings"]) == 25


def test_a_draft_of_the_example_is_refused_and_names_the_parquet_columns(tmp_path: Path, typed: Typed):
    """The draft is made of names and types; it holds no category of the table."""
    said = typed("contract", "draft", "--from", str(ADULT / "adult.parquet"))
    assert "\n  hours-per-week: <declare>   # whole numbers" in said.out
    assert "Private" not in said.out
    assert typed("contract", "lint", str(write(tmp_path, "a.yaml", said.out))).code == 2


def test_a_draft_from_a_header_and_a_codebook_says_what_contradicts(tmp_path: Path, typed: Typed):
    """On the error stream and as JSON, with places; the draft goes to the file or the terminal all the same."""
    rows = str(write(tmp_path, "rows.csv", "age,sexx\n1,2\n"))
    book = str(write(tmp_path, "book.csv", "column,values\nage,0..99\nsex,1=male; 2=female\n"))
    said = typed("contract", "draft", "--from", rows, "--codebook", book)
    assert said.code == 0
    assert "\n  age: 0..99 by <declare>\n" in said.out
    assert "column 'sexx'" in said.err
    assert "do:      if 'sex' is meant, write 'sexx' in book.csv" in said.err
    told = typed("contract", "draft", "--from", rows, "--codebook", book, "--json").json
    assert [each["field"] for each in told["contradictions"]] == ["column 'sexx'"]
    assert told["to_declare"] == 7
    assert told["columns"] == [
        {"name": "age", "kind": "integer", "declared": "0..99", "where": f"{book}:2"},
        {"name": "sexx", "kind": "open", "declared": "", "where": f"{rows}:1"},
    ]
    assert re.search(r"^age +integer +0\.\.99 +\S+book\.csv:2", said.err, re.MULTILINE)
    other = typed("contract", "draft", "--from", rows, "--codebook", book, "--form", "ddi")
    assert (other.code, "a codebook of the form 'list'" in other.err) == (2, True)
    long = typed("contract", "draft", "--from", rows, "--codebook", book, "--long").out
    assert "              bounds: [0, 99]\n" in long
    nothing = typed("contract", "draft")
    assert (nothing.code, "neither a file nor a codebook" in nothing.err) == (2, True)
    public = typed("contract", "draft", "--from", rows, "--public-because", "made up for this test")
    assert "\n  sexx: [2]\n" in public.out


def test_a_draft_of_nothing_exits_2(tmp_path: Path, typed: Typed):
    said = typed("contract", "draft", "--from", str(tmp_path / "gone.parquet"))
    assert (said.code, "not a Parquet file" in said.err) == (2, True)
    unwritable = typed(
        "contract", "draft", "--from", str(ADULT / "adult.parquet"), "--to", str(tmp_path / "no" / "a")
    )
    assert (unwritable.code, "No such file" in unwritable.err) == (2, True)


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 2)])
def test_warnings_say_what_why_and_what_to_do(tmp_path: Path, typed: Typed, words: tuple[str, ...], code: int):
    """The sample has a gate, a wide bin, a cut bin and a cut month; `--strict` makes mistakes of them."""
    file = str(write(tmp_path, "people.odcs.yaml", CONTRACT))
    said = typed("contract", "lint", file, *words)
    assert said.code == code
    assert "people 1.0.0: it holds" in said.out
    assert said.out.count("why:") == said.out.count("do:") == 4 + 2  # and two suggestions
    told = typed("contract", "lint", file, *words, "--json").json["warnings"]
    assert [each["rule"] for each in told] == ["gate", "wide-bin", "cut-bin", "cut-bin"]
    assert all(each["where"].startswith(file) for each in told)


def test_a_contract_without_warnings_is_strict_too(typed: Typed):
    said = typed("contract", "lint", str(ADULT / "adult.odcs.yaml"), "--strict")
    assert (said.code, "none" in said.out) == (0, True)


def test_lint_looks_at_the_select_of_a_spec_too(tmp_path: Path, typed: Typed):
    """What a select compares columns with is published; the literal itself is not shown."""
    spec = write(tmp_path, "a.yaml", "source:\n  path: a.csv\n  select: SELECT * FROM source WHERE race <> 'Inuit'\n")
    words = ("contract", "lint", str(ADULT / "adult.odcs.yaml"), "--spec", str(spec))
    said = typed(*words)
    said.assert_printed("a.yaml:3", "source.select (select)")
    assert "Inuit" not in said.out
    [warned] = typed(*words, "--json").json["warnings"]
    assert warned["rule"] == "select"
    assert typed(*words, "--strict").code == 2


def test_lint_asks_for_curator_and_contact_until_spec_and_workspace_declare_them(
    place: Place, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """A suggestion: it exits 0, with `--strict` too; the spec and the workspace at hand each silence one."""
    file = str(ADULT / "adult.odcs.yaml")
    monkeypatch.chdir(tmp_path)
    alone = typed("contract", "lint", file, "--strict")
    assert alone.code == 0
    assert "curator (curator)" in alone.out
    assert "[publisher] in sudare.toml, or contact: statistics@example.org below about: of the spec" in " ".join(
        alone.out.split()
    )
    spec = write(tmp_path, "a.yaml", "source: {path: a.csv}\nabout: {curator: Office of Statistics}\n")
    words = ("contract", "lint", file, "--spec", str(spec), "--json")
    assert [each["rule"] for each in typed(*words).json["suggestions"]] == ["contact"]
    settings = place.workspace.root / "sudare.toml"
    settings.write_text(settings.read_text().replace("# contact =", "contact ="))
    monkeypatch.chdir(place.workspace.root)
    assert typed(*words).json["suggestions"] == []


def test_a_missing_null_policy_is_told_how_to_be_written(tmp_path: Path, typed: Typed):
    """It is a mistake, not a warning: what a missing value becomes is never guessed."""
    text = replaced(CONTRACT, (", nulls: {policy: map, to: F}", ""))
    said = typed("contract", "lint", str(write(tmp_path, "people.odcs.yaml", text)))
    assert said.code == 2
    assert "add `nulls: {policy: category}` to count missing values in a cell of their own" in said.err
    assert PLACEHOLDER not in said.err


def test_two_contracts_are_compared_in_words_and_as_json(tmp_path: Path, typed: Typed):
    """What changed and for whom; `--check` exits 2 if the version does not announce it."""
    old = str(write(tmp_path, "old.yaml", CONTRACT))
    new = str(write(tmp_path, "new.yaml", replaced(CONTRACT, ("[F, M]", "[F, M, X]"), ("1.0.0", "1.1.0"))))
    typed("contract", "diff", old, new).assert_printed("1.0.0 → 1.1.0", "breaking for the account", "a higher MAJOR")
    told = typed("contract", "diff", old, new, "--json").json
    assert (told["breaking"], told["breaking_for_account"], told["announced"]) == (True, True, False)
    assert told["changes"][0]["field"] == "columns.sex.values"
    assert typed("contract", "diff", old, new, "--check").code == 2
    assert typed("contract", "diff", old, old, "--check").code == 0
    assert "they mean the same" in typed("contract", "diff", old, old).out
    same_version = str(write(tmp_path, "same.yaml", replaced(CONTRACT, ("purpose: tests", "purpose: x"))))
    assert "a version of its own" in typed("contract", "diff", old, same_version).out
    assert typed("contract", "diff", old, str(tmp_path / "gone.yaml")).code == 2


def test_a_registry_of_a_workspace_or_of_any_folder(place: Place, tmp_path: Path, typed: Typed):
    """Register, list, history; once more changes nothing; a breaking change without a new MAJOR exits 2."""
    file = write(tmp_path, "people.odcs.yaml", CONTRACT)
    assert "Nothing is registered yet" in typed("contract", "list", at=place.workspace).out
    assert "is registered" in typed("contract", "register", str(file), at=place.workspace).out
    assert typed("contract", "register", str(file), "--json", at=place.workspace).json["repeated"] is True
    assert (place.workspace.root / "contracts" / "people" / "1.0.0" / "contract.odcs.yaml").is_file()
    changed = replaced(CONTRACT, ("[F, M]", "[F, M, X]"), ("1.0.0", "1.1.0"))
    refused = typed("contract", "register", str(write(tmp_path, "b.yaml", changed)), at=place.workspace)
    assert (refused.code, "raise MAJOR" in refused.err) == (2, True)
    major = write(tmp_path, "c.yaml", changed.replace("1.1.0", "2.0.0"))
    assert typed("contract", "register", str(major), at=place.workspace).code == 0
    listed = typed("contract", "list", "--json", at=place.workspace).json["contracts"]
    assert [(each["contract"], each["version"]) for each in listed] == [("people", "2.0.0")]
    assert "breaking for the account" in typed("contract", "history", "people", at=place.workspace).out
    unknown = typed("contract", "history", "peple", at=place.workspace)
    assert (unknown.code, "write 'people'" in unknown.err) == (2, True)
    elsewhere = ("--registry", str(tmp_path / "kept"))
    assert typed("contract", "register", str(file), *elsewhere).code == 0
    assert "people" in typed("contract", "list", *elsewhere).out
