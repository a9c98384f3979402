"""YAML with its lines and its texts; what a number or a list may be, in words."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from contracts.errors import SpecRefused
from contracts.reading.findings import limits_in_words, without_key
from contracts.reading.yaml_lines import Document, located, nearest_file, shown
from tests.contracts.samples import write

TEXT = """\
# a comment
name: people
numbers: [1e-9, 1e309, 017, 1.0, .inf, 0x10, 1_000]
empty:
quoted: ["1", 'true', "~"]
plain: [true, False, yes, ~, null, "", 2020-01-01, -3, +4.5e3, .5]
deep:
  - first: &anchor {a: 1, b: [x, y]}
  - second: *anchor
    folded: >-
      two
      lines
"""


@pytest.fixture
def document(tmp_path: Path) -> Document:
    return located(write(tmp_path, "sample.yaml", TEXT), refusal=SpecRefused)


def test_scalars_keep_their_text(document: Document):
    """No number is touched; only an unquoted null is nothing."""
    text = document.text()
    assert text["numbers"] == ["1e-9", "1e309", "017", "1.0", ".inf", "0x10", "1_000"]
    assert (text["empty"], text["quoted"]) == (None, ["1", "true", "~"])
    assert text["plain"] == ["true", "False", "yes", None, None, "", "2020-01-01", "-3", "+4.5e3", ".5"]
    assert text["deep"][1] == {"second": {"a": "1", "b": ["x", "y"]}, "folded": "two lines"}


def test_typed_scalars_follow_the_core_schema(document: Document):
    """Unquoted numbers and booleans are such, dates and `yes` are texts, quoted scalars stay texts."""
    typed = document.typed()
    assert typed["plain"] == [True, False, "yes", None, None, "", "2020-01-01", -3, 4500.0, 0.5]
    assert typed["quoted"] == ["1", "true", "~"]


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("name",), 2),
        (("numbers", 3), 3),
        (("deep",), 7),
        (("deep", 0, "first", "b", 1), 8),
        (("deep", 1, "second", "a"), 8),
        (("deep", 1, "folded"), 10),
        (("deep", 1, "absent"), 9),
        (("absent",), 2),
        (("deep", 0, "tag", "first"), 8),
    ],
)
def test_lookup_gives_the_line_of_a_field(document: Document, at: tuple[str | int, ...], line: int):
    """A field that is absent has its parent's line; an alias has the line of what it stands for."""
    assert document.lookup(at) == line


def test_paths_are_shown_as_a_person_would_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Below the current folder the path is relative."""
    path = write(tmp_path, "a.yaml", "a: 1\n")
    assert shown(path) == str(path)
    monkeypatch.chdir(tmp_path)
    assert (shown(path), shown(Path("a.yaml"))) == ("a.yaml", "a.yaml")


@pytest.mark.parametrize("mark", ["\u202e", "\u200f", "\u2066", "\u061c"])
@pytest.mark.parametrize(
    "written", ["name: a{mark}b", "{mark}key: 1", "# a comment {mark}\nname: x", "name: [x, '{mark}']"]
)
def test_direction_marks_are_refused_wherever_they_stand(tmp_path: Path, mark: str, written: str):
    """In a value, a key, a comment, and as an escape: a reviewer would read another file than the program."""
    with pytest.raises(SpecRefused) as refused:
        located(write(tmp_path, "sample.yaml", f"first: 1\n{written.format(mark=mark)}\n"), refusal=SpecRefused)
    [finding] = refused.value.findings
    assert f"U+{ord(mark):04X}" in finding.found
    assert finding.where.endswith(":2")
    escaped = f'first: 1\nname: "a\\u{ord(mark):04x}b"\n'
    with pytest.raises(SpecRefused, match=f"U\\+{ord(mark):04X}"):
        located(write(tmp_path, "escaped.yaml", escaped), refusal=SpecRefused)


def chained(levels: int) -> str:
    """A list in a list in a list, each an alias of the one above, so that the text itself is flat."""
    inner = [f"level{i}: &at{i} [*at{i - 1}]" for i in range(1, levels)]
    return "\n".join(["level0: &at0 [1]", *inner]) + "\n"


def test_a_chain_of_aliases_is_as_deep_as_what_it_stands_for(tmp_path: Path):
    """49 lists below the top are 50 levels, and are read; one more is refused at its line, and 1,500 are as well."""
    read = located(write(tmp_path, "deepest.yaml", chained(49)), refusal=SpecRefused).text()
    tree, levels = read["level48"], 0
    while isinstance(tree, list):
        [tree], levels = tree, levels + 1
    assert (tree, levels) == ("1", 49)
    for beyond in (50, 1500):
        with pytest.raises(SpecRefused) as refused:
            located(write(tmp_path, "beyond.yaml", chained(beyond)), refusal=SpecRefused)
        [finding] = refused.value.findings
        assert (finding.field, finding.found) == ("nesting", "more than 50 levels")
        assert finding.where.endswith(":50")


def test_only_files_with_a_close_name_are_suggested(tmp_path: Path):
    """A suffix makes no two names alike, and neither a pipe nor a folder is what a path means."""
    (tmp_path / "visits.yaml").write_text("a: 1")
    (tmp_path / "beds").mkdir()
    os.mkfifo(tmp_path / "fifo.yaml")
    for typed in ("visit.yaml", "visits.yml", "visits"):
        assert nearest_file(tmp_path / typed) == f"write 'visits.yaml' instead of {typed!r}"
    for typed in ("nope.yaml", "fif.yaml", "bed", "rows.yaml"):
        assert nearest_file(tmp_path / typed) == "check the path"


@pytest.mark.parametrize("name", ["pipe.yaml", "/dev/zero", "/dev/null"])
def test_a_pipe_or_a_device_is_no_document_and_is_not_waited_for(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(SpecRefused) as refused:
        located(tmp_path / name, refusal=SpecRefused)
    [finding] = refused.value.findings
    assert (finding.field, finding.found) == ("file", "no regular file")


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
def test_limits_are_told_in_words(given: dict[str, Any], words: str | None):
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({"most": 1, **given})
    (item,) = caught.value.errors()
    field = Asked.model_fields[str(item["loc"][0])]
    assert limits_in_words(item["type"], item.get("ctx", {}), field) == words


def test_without_the_field_the_limit_that_was_broken_is_told():
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
def test_what_a_key_stands_for_that_is_dropped_is_told(name: str, words: str):
    assert without_key(Asked.model_fields[name]) == words
