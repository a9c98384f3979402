"""Reading a codebook: a list of columns in CSV here, and other forms by readers that extensions register.

A reader is registered in the group `sudare.codebooks`, by the suffix of its files without the point. Several may
have one suffix: the first that finds its own form in the file reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.drafting.codebooks.entries import Codebook, column_list
from contracts.drafting.sketch import refuse_draft
from contracts.plug_ins import PlugInAway, RegisteredName, absent_extension, find_all, names
from contracts.reading.scalars import word_list
from contracts.reading.yaml_lines import shown

GROUP: Final = "sudare.codebooks"
LARGEST: Final = 256 * 2**20
_LISTS: Final = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class CodebookReader:
    """What reads the codebooks of a suffix.

    Args:
        read: reads a file; it returns None for a file in none of its forms, and refuses one that is broken.
        allowed: its forms, in words.
        remedy: what to do with a file in none of them.
    """

    read: Callable[[Path], Codebook | None]
    allowed: str
    remedy: str


def registered_suffixes() -> tuple[str, ...]:
    """Return the suffixes of codebooks that extensions read, whether they are installed or not."""
    return tuple(f".{name}" for name in names(GROUP))


def read_codebook(path: Path, form: str | None = None) -> Codebook:
    """Read a codebook.

    Args:
        path: a list of columns in CSV, or a file with one of `registered_suffixes`.
        form: the form that a person expects.
    Returns:
        Codebook: its columns; at least one, each once.
    Raises:
        DraftRefused: it cannot be read, is in another form than expected, describes no column, or one twice.
    """
    where, suffix = shown(path), path.suffix.lower()
    codebook = column_list(path, read_text(path)) if suffix in _LISTS else _registered_form(path, suffix)
    if form is not None and form != codebook.form:
        found = f"a codebook of the form {codebook.form!r}"
        remedy = f"write --form {codebook.form}, leave --form out, or name the other file"
        refuse_draft(where, "codebook", found, f"the form {form!r}, as --form says", remedy)
    _check_names(codebook, where)
    return codebook


def _registered_form(path: Path, suffix: str) -> Codebook:
    """Read a file by the first reader of its suffix that finds its own form in it."""
    where, name = shown(path), suffix.removeprefix(".")
    allowed, remedies = [], []
    for registered in find_all(GROUP, name):
        reader = _load_reader(registered, path)
        if (codebook := reader.read(path)) is not None:
            return codebook
        allowed.append(reader.allowed)
        remedies.append(reader.remedy)
    if allowed:
        found = f"a file {suffix} in none of the known forms"
        refuse_draft(where, "codebook", found, " or ".join(allowed), "; or ".join(remedies))
    extension = absent_extension(GROUP, name)
    if extension is not None:
        found = f"a file {suffix}, which needs the extension {extension}, which is not installed"
        remedy = f"install Sudare with {extension}, or export the codebook as a list of columns in CSV"
        refuse_draft(where, "codebook", found, word_list(_LISTS), remedy)
    suffixes = (*_LISTS, *registered_suffixes())
    refuse_draft(where, "codebook", f"the suffix of {path.name!r}", word_list(suffixes), "export it as one of these")


def _load_reader(registered: RegisteredName, path: Path) -> CodebookReader:
    try:
        reader: CodebookReader = registered.load(CodebookReader)
    except PlugInAway as error:
        refuse_draft(shown(path), "codebook", f"a reader {error.found}", error.allowed, error.remedy)
    return reader


def read_bytes(path: Path) -> bytes:
    """Read the whole file, unless it is larger than any codebook.

    Raises:
        DraftRefused: it is larger, or cannot be read.
    """
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= LARGEST else None
        found = f"{size:,} bytes"
    except OSError as error:
        content, found = None, (error.strerror or "a file that cannot be read").lower()
    if content is None:
        refuse_draft(shown(path), "codebook", found, f"a file of at most {LARGEST:,} bytes", "check the path")
    return content


def read_text(path: Path) -> str:
    """Read UTF-8, with or without a byte order mark.

    Raises:
        DraftRefused: it is something else, or `read_bytes` refuses it.
    """
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, found = content[: error.start].count(b"\n") + 1, f"the byte 0x{content[error.start]:02x}"
    refuse_draft(f"{shown(path)}:{line}", "encoding", found, "UTF-8 text", "save the file as UTF-8")


def _check_names(codebook: Codebook, where: str) -> None:
    """Refuse a codebook without columns, or with one twice."""
    if not codebook.entries:
        refuse_draft(where, "codebook", "no column", "at least one column", "check which file it is")
    first: dict[str, str] = {}
    for entry in codebook.entries:
        folded = entry.name.casefold()
        if folded in first:
            found = f"{entry.name!r} again (first at {first[folded]})"
            refuse_draft(entry.where, "codebook", found, "each column once", "drop one of the two")
        first[folded] = entry.where
