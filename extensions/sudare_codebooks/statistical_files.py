"""Labels of SPSS and Stata files, by pyreadstat, which is asked for the metadata alone: no row is read.

pyreadstat is an extra: `pip install "sudare[labels]"`.

Source: https://ofajardo.github.io/pyreadstat_documentation/ (`metadataonly=True`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contracts.drafting.codebooks.codebook import CodebookReader
from contracts.drafting.codebooks.entries import Codebook, CodebookEntry
from contracts.drafting.sketch import refuse_draft
from contracts.reading.yaml_lines import shown
from sudare_codebooks.json_forms import texts_of

_READERS: Final[Mapping[str, tuple[str, str]]] = {
    ".sav": ("spss", "read_sav"),
    ".zsav": ("spss", "read_sav"),
    ".por": ("spss", "read_por"),
    ".dta": ("stata", "read_dta"),
}
_DAYS: Final = ("date", "adate", "edate", "jdate", "sdate", "datetime", "%td", "%tc", "%d")
_MOST_MISSING: Final = 20


def read_statistical_file(path: Path) -> Codebook:
    """Read names, types and labels.

    Raises:
        DraftRefused: pyreadstat is not installed, or the file is none of its kind.
    """
    form, reader = _READERS[path.suffix.lower()]
    if not path.is_file():
        refuse_draft(shown(path), "codebook", "no such file", "an SPSS or Stata file", "check the path")
    try:
        import pyreadstat
    except ImportError:
        pyreadstat = None
    if pyreadstat is None:
        remedy = 'pip install "sudare[labels]", or export the labels as a list of columns in CSV'
        refuse_draft(shown(path), "codebook", "pyreadstat is not installed", "the extra `labels`", remedy)
    try:
        declared = {"user_missing": True} if reader == "read_sav" else {}  # without it missing values are not told
        _, metadata = getattr(pyreadstat, reader)(str(path), metadataonly=True, **declared)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError, ValueError):
        metadata = None
    if metadata is None:
        refuse_draft(
            shown(path), "codebook", f"a file that cannot be read as {path.suffix}", "an SPSS or Stata file",
            "save it again, or export the labels as a list of columns in CSV",
        )  # fmt: skip
    return Codebook(path.name, form, tuple(entries_of_metadata(metadata, shown(path))), title=metadata.file_label)


def entries_of_metadata(metadata: Any, where: str) -> Iterator[CodebookEntry]:
    """Yield what pyreadstat's metadata say of each column.

    Args:
        metadata: with `column_names`, `column_names_to_labels`, `variable_value_labels`, `missing_ranges`,
            `missing_user_values`, `original_variable_types` and `readstat_variable_types`.
        where: the file.
    """
    for name in metadata.column_names:
        labels = metadata.variable_value_labels.get(name, {})
        absent = list(_missing(metadata, name))
        codes = [(text, str(label)) for code, label in labels.items() for text in texts_of([code])]
        yield CodebookEntry(
            name,
            where,
            _logical_type(metadata, name, bool(codes)),
            metadata.column_names_to_labels.get(name),
            tuple((code, label) for code, label in codes if code not in absent),
            missing=tuple(absent),
        )


def _missing(metadata: Any, name: str) -> Iterator[str]:
    """The texts of values that the file declares missing; of a range, its labelled values and its ends."""
    labelled = list(metadata.variable_value_labels.get(name, {}))
    for each in (metadata.missing_ranges or {}).get(name, []):
        low, high = each["lo"], each["hi"]
        inside = [
            low,
            high,
            *(code for code in labelled if isinstance(code, float | int) and _within(code, low, high)),
        ]
        yield from dict.fromkeys(texts_of(value for value in inside[:_MOST_MISSING] if _finite(value)))
    yield from texts_of((metadata.missing_user_values or {}).get(name, []))


def _within(code: float, low: Any, high: Any) -> bool:
    return isinstance(low, float | int) and isinstance(high, float | int) and low <= code <= high


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or abs(value) < 1e15


def _logical_type(metadata: Any, name: str, coded: bool) -> Any:
    """Say what a column holds: SPSS and Stata write whole numbers as doubles, so that numbers may be either."""
    written = str(metadata.original_variable_types.get(name, "")).lower()
    stored = str(metadata.readstat_variable_types.get(name, "")).lower()
    if coded:
        return None
    if any(written.startswith(word) for word in _DAYS):
        return "date"
    if stored == "string":
        return "string"
    if stored.startswith("int"):
        return "integer"
    whole = written.startswith("f") and written.endswith(".0")
    return "integer" if whole else "number"


READER: Final = CodebookReader(
    read_statistical_file, "an SPSS or Stata file", "export the labels as a list of columns in CSV"
)
