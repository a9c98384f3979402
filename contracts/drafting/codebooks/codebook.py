"""Reading a codebook in whichever of the usual forms it is; a form that was told and is another is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.drafting.codebooks.column_list import column_list
from contracts.drafting.codebooks.ddi import ddi_codebook, read_xml
from contracts.drafting.codebooks.entries import Codebook
from contracts.drafting.codebooks.json_forms import json_codebook, json_form, read_json
from contracts.drafting.codebooks.statistical_files import READERS, statistical_codebook
from contracts.drafting.sketch import refuse_draft
from contracts.reading.scalars import nearest, word_list
from contracts.reading.yaml_lines import shown

FORMS: Final = ("table-schema", "ddi", "sdnist", "data-dictionary", "list", "spss", "stata")
LARGEST: Final = 256 * 2**20
_SUFFIXES: Final = (".json", ".xml", ".csv", ".tsv", ".txt", *READERS)


def read_codebook(path: Path, form: str | None = None) -> Codebook:
    """Read a codebook.

    Args:
        path: a JSON, XML, CSV, SPSS or Stata file.
        form: one of `FORMS`, where a person said which; the file tells without it.
    Returns:
        Codebook: its columns; at least one, each once.
    Raises:
        DraftRefused: it cannot be read, is of another form than told, describes no column, or one twice.
    """
    where, suffix = shown(path), path.suffix.lower()
    if form is not None and form not in FORMS:
        refuse_draft("--form", "form", repr(form), word_list(FORMS), nearest(form, FORMS) or "leave it out")
    if suffix not in _SUFFIXES:
        refuse_draft(
            where, "codebook", f"the suffix of {path.name!r}", word_list(_SUFFIXES), "export it as one of these"
        )
    codebook = _read(path, suffix)
    if form is not None and form != codebook.form:
        found = f"a codebook of the form {codebook.form!r}"
        remedy = f"write --form {codebook.form}, leave --form out, or name the other file"
        refuse_draft(where, "codebook", found, f"the form {form!r}, as --form says", remedy)
    _check_names(codebook, where)
    return codebook


def _read(path: Path, suffix: str) -> Codebook:
    if suffix in READERS:
        return statistical_codebook(path)
    content = _bytes(path)
    if suffix == ".xml":
        return ddi_codebook(path, read_xml(path, content))
    text = _text(path, content)
    if suffix != ".json":
        return column_list(path, text)
    source = read_json(path, text)
    known = json_form(source.tree)
    if known is None:
        found = "JSON in none of the known forms"
        allowed = "a Table Schema, an SDNist schema, or columns with description and values"
        refuse_draft(
            shown(path), "codebook", found, allowed, "write {COLUMN: {description: ..., values: {CODE: LABEL}}}"
        )
    return json_codebook(source, known)


def _bytes(path: Path) -> bytes:
    """Read the whole file, unless it is larger than any codebook."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= LARGEST else None
        found = f"{size:,} bytes"
    except OSError as error:
        content, found = None, (error.strerror or "a file that cannot be read").lower()
    if content is None:
        refuse_draft(shown(path), "codebook", found, f"a file of at most {LARGEST:,} bytes", "check the path")
    return content


def _text(path: Path, content: bytes) -> str:
    """Read UTF-8, with or without a byte order mark."""
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
