"""The files of a version in the forms of exchange that its spec asks for: which there are, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from tasks.records.exchange.sdmx_tables import ReadData
from tasks.records.explanation import RecordExplanation

_FORMS: Final = {
    "sdmx": "tasks.records.exchange.sdmx:sdmx_files",
    "csvw": "tasks.records.exchange.csvw:csvw_files",
    "registry": "tasks.records.exchange.registry_entry:registry_files",
}
"""Each form with the function that yields its files."""


def exchange_files(explanation: RecordExplanation, read: ReadData) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the path of each file with its bytes, piece by piece; one is used up before the next is asked for.

    Args:
        explanation: what the record says, and with it which forms were asked for.
        read: returns the bytes of a data file of the version.
    Raises:
        OSError, ArrowException: a data file cannot be read.
    Privacy: reads published files only.
    """
    for form in explanation.record["replay"].get("exchange", ()):
        module, _, name = _FORMS[form].partition(":")
        yield from getattr(import_module(module), name)(explanation, read)


def write_exchange(explanation: RecordExplanation, folder: Path) -> None:
    """Write them all into a version's folder, where its data files are."""
    for path, pieces in exchange_files(explanation, lambda name: (folder / name).read_bytes()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.writelines(pieces)
