"""Contract and spec in their folder: two tabs meet there, and nothing outside of it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.studio.files import FileChanged, FileRefused, FileText, SpecFolder


@pytest.fixture
def folder(tmp_path: Path) -> SpecFolder:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.yaml").write_text("release: out\n")
    return SpecFolder(tmp_path / "in")


def test_the_second_of_two_tabs_is_told_and_nothing_is_lost(folder: SpecFolder) -> None:
    """Both have read the same text; the one that writes later gets the other's text, and may then write over it."""
    path = folder.file("a.yaml")
    path.write_text("release: a\n")
    first, second = folder.read("a.yaml"), folder.read("a.yaml")
    folder.write(FileText(path, "release: first\n", first.digest))
    with pytest.raises(FileChanged) as changed:
        folder.write(FileText(path, "release: second\n", second.digest))
    assert changed.value.text == "release: first\n"
    assert path.read_text() == "release: first\n"
    folder.write(FileText(path, "release: second\n", changed.value.digest))
    assert path.read_text() == "release: second\n"


def test_a_text_that_stands_there_already_is_no_conflict(folder: SpecFolder) -> None:
    path = folder.file("a.yaml")
    digest = folder.write(FileText(path, "release: a\n"))
    assert folder.write(FileText(path, "release: a\n", "old")) == digest


@pytest.mark.parametrize(
    "name", ["../out.yaml", "/etc/passwd", "a.txt", "", "x\0.yaml", "sub/../../out.yaml", "link.yaml"]
)
def test_no_name_leads_out_of_the_folder(folder: SpecFolder, name: str) -> None:
    (folder.path / "link.yaml").symlink_to(folder.path.parent / "out.yaml")
    with pytest.raises(FileRefused):
        folder.read(name)


def test_what_is_no_text_is_refused_in_words(folder: SpecFolder) -> None:
    folder.file("a.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(FileRefused, match="UTF-8"):
        folder.read("a.yaml")
    folder.file("b.yaml").write_bytes(b"a" * 2_000_001)
    with pytest.raises(FileRefused, match="larger"):
        folder.read("b.yaml")


def test_a_folder_that_cannot_be_written_is_named(folder: SpecFolder) -> None:
    """A folder in the place of the file that is written aside stops the write as a full or read-only disk does."""
    (folder.path / ".a.yaml.partial").mkdir()
    with pytest.raises(FileRefused, match="can be written"):
        folder.write(FileText(folder.file("a.yaml"), "release: a\n"))
    assert not folder.file("a.yaml").exists()


def test_specs_and_tables_are_listed_by_name(folder: SpecFolder) -> None:
    (folder.path / "a.yaml").write_text("# x\nrelease: a\n")
    (folder.path / "b.yaml").write_text("id: b\ncolumns: {}\n")
    (folder.path / "t.csv").mkdir()
    assert folder.specs() == ["a.yaml"]
    assert folder.tables() == ["t.csv"]
