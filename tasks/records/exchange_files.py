"""The files of a version in the forms of exchange that its spec asks for: which there are, and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from contracts.plug_ins import absent_extension
from contracts.release.exchange_forms import GROUP, form_files
from tasks.records.record import RecordExplanation


def exchange_files(
    explanation: RecordExplanation, read: Callable[[str], bytes]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the path of each file with its bytes, piece by piece; one is used up before the next is asked for.

    Forms that are not installed here are left out: `absent_forms`.

    Args:
        explanation: what the record says, and with it which forms were asked for.
        read: returns the bytes of a data file of the version.
    Raises:
        OSError, ArrowException: a data file cannot be read.
        PlugInAway: what is registered for a form cannot be loaded.
    Privacy: reads published files only.
    """
    for form in explanation.record["replay"].get("exchange", ()):
        made = form_files(form)
        if made is not None:
            yield from made.files(explanation, read)


def absent_forms(explanation: RecordExplanation) -> dict[str, str]:
    """Return the forms that a version has and that are not installed here, with the extension that each needs."""
    asked = ((form, absent_extension(GROUP, form)) for form in explanation.record["replay"].get("exchange", ()))
    return {form: extension for form, extension in asked if extension is not None}


def write_exchange(explanation: RecordExplanation, folder: Path) -> None:
    """Write them all into a version's folder, where its data files are."""
    for path, pieces in exchange_files(explanation, lambda name: (folder / name).read_bytes()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.writelines(pieces)
