"""Contract and spec in their folder: two tabs meet there, and nothing outside of it is written."""

import os
import stat
from pathlib import Path

import pytest

from sudare_web.studio.files import FileChanged, FileRefused, FileText, SpecFolder, digest_of


@pytest.fixture
def folder(tmp_path: Path) -> SpecFolder:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.yaml").write_text("release: out\n")
    return SpecFolder(tmp_path / "in")


def test_the_second_of_two_tabs_is_told_and_nothing_is_lost(folder: SpecFolder):
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


def test_a_text_that_stands_there_already_is_no_conflict(folder: SpecFolder):
    path = folder.file("a.yaml")
    digest = folder.write(FileText(path, "release: a\n"))
    assert folder.write(FileText(path, "release: a\n", "old")) == digest


@pytest.mark.parametrize(
    "name", ["../out.yaml", "/etc/passwd", "a.txt", "", "x\0.yaml", "sub/../../out.yaml", "link.yaml"]
)
def test_no_name_leads_out_of_the_folder(folder: SpecFolder, name: str):
    (folder.path / "link.yaml").symlink_to(folder.path.parent / "out.yaml")
    with pytest.raises(FileRefused):
        folder.read(name)


def test_what_is_no_text_is_refused_in_words(folder: SpecFolder):
    folder.file("a.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(FileRefused, match="UTF-8"):
        folder.read("a.yaml")
    folder.file("b.yaml").write_bytes(b"a" * 2_000_001)
    with pytest.raises(FileRefused, match="larger"):
        folder.read("b.yaml")


def test_a_folder_that_cannot_be_written_is_named(folder: SpecFolder):
    """A folder that is not there stops the write as a full or read-only disk does."""
    with pytest.raises(FileRefused, match="can be written"):
        folder.write(FileText(folder.file("nowhere/a.yaml"), "release: a\n"))


def test_no_link_is_written_through(folder: SpecFolder):
    """A link under the name of a file that is written aside, or under its own: what it leads to stays as it was."""
    outside = folder.path.parent / "out.yaml"
    for name in (".a.yaml.partial", ".partial"):
        (folder.path / name).symlink_to(outside)
    folder.write(FileText(folder.file("a.yaml"), "release: a\n"))
    assert not folder.file("a.yaml").is_symlink()
    (folder.path / "b.yaml").symlink_to(folder.path / "a.yaml")
    with pytest.raises(FileRefused, match="a link"):
        folder.write(FileText(folder.file("b.yaml"), "release: b\n", digest_of("release: a\n")))
    assert folder.file("a.yaml").read_text() == "release: a\n"
    assert outside.read_text() == "release: out\n"
    assert {each.name for each in folder.path.iterdir()} == {".a.yaml.partial", ".partial", "a.yaml", "b.yaml"}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_keeps_its_mode(folder: SpecFolder, mode: int):
    """A new one has that of any new file."""
    path = folder.file("a.yaml")
    path.write_text("release: a\n")
    path.chmod(mode)
    folder.write(FileText(path, "release: b\n", digest_of("release: a\n")))
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (mode, "release: b\n")
    (folder.path / "usual").touch()
    folder.write(FileText(folder.file("new.yaml"), "release: c\n"))
    assert folder.file("new.yaml").stat().st_mode == (folder.path / "usual").stat().st_mode


def test_two_texts_are_written_both_or_neither(folder: SpecFolder):
    """Whichever of them is refused: for what the file holds, for its folder, for its letters, or as the same file."""
    first = FileText(folder.file("a.yaml"), "release: a\n")
    folder.file("c.yaml").write_text("release: theirs\n")
    with pytest.raises(FileChanged) as changed:
        folder.write(first, FileText(folder.file("c.yaml"), "release: c\n", "0"))
    assert (changed.value.place, changed.value.text) == (1, "release: theirs\n")
    for other in (
        FileText(folder.file("nowhere/b.yaml"), "release: b\n"),
        FileText(folder.file("b.yaml"), "release: \ud800\n"),
        FileText(folder.file("a.yaml"), "release: b\n"),
    ):
        with pytest.raises(FileRefused):
            folder.write(first, other)
    assert [each.name for each in folder.path.iterdir()] == ["c.yaml"]
    names = folder.write(first, FileText(folder.file("b.yaml"), "release: b\n"))
    assert names == [digest_of("release: a\n"), digest_of("release: b\n")]


@pytest.mark.timeout(120)
def test_only_regular_files_are_opened(folder: SpecFolder):
    """Not listed: a pipe without a writer, a device without end, a folder, a large file, a name that is no text."""
    (folder.path / "a.yaml").write_text("release: a\n")
    os.mkfifo(folder.path / "pipe.yaml")
    (folder.path / "zero.yaml").symlink_to("/dev/zero")
    (folder.path / "link.yaml").symlink_to(folder.path / "a.yaml")
    (folder.path / "circle.yaml").symlink_to(folder.path / "circle.yaml")
    (folder.path / "folder.yaml").mkdir()
    with (folder.path / "huge.yaml").open("wb") as file:
        file.write(b"release: huge\n")
        file.truncate(1 << 40)
    for name in (b"\xff.yaml", b"\xff.csv"):
        (folder.path / os.fsdecode(name)).write_text("release: b\n")
    assert folder.specs() == ["a.yaml"]
    assert folder.tables() == []
    for name in ("pipe.yaml", "zero.yaml", "link.yaml", "circle.yaml", "folder.yaml", "huge.yaml", "\udcff.yaml"):
        with pytest.raises(FileRefused):
            folder.read(name)


def test_specs_and_tables_are_listed_by_name(folder: SpecFolder):
    (folder.path / "a.yaml").write_text("# x\nrelease: a\n")
    (folder.path / "b.yaml").write_text("id: b\ncolumns: {}\n")
    (folder.path / "t.csv").mkdir()
    assert folder.specs() == ["a.yaml"]
    assert folder.tables() == ["t.csv"]
