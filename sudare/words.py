"""Refusals in the words of Python: the findings of the command, with the place in the object and the call to make.

A finding of the command names a file and a line, and a remedy names an option. Here the place is the object that was
given, and the remedy is what to write in Python.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from contracts.errors import Finding, Refused, SudareError
from contracts.reading.yaml_lines import shown
from tasks.storage.workspace.run_folder import sheltered

ErrorT = TypeVar("ErrorT", bound=BaseException)
ResultT = TypeVar("ResultT")

_CALLS: Final = (
    (re.compile(r"add --supersede"), "call run(..., supersede=True)"),
    (re.compile(r"--supersede"), "supersede=True"),
    (re.compile(r"--accept-misfits"), "accept_misfits=True"),
    (re.compile(r"--accept-clock"), "accept_clock=True"),
    (re.compile(r"--rows\b"), "rows"),
    (re.compile(r"--where\b"), "where"),
    (re.compile(r"--from\b"), "source"),
    (re.compile(r"--key\b"), "key"),
    (re.compile(r"make one: sudare init; or say where it is: --workspace DIR"), "make one: Workspace.init(path)"),
    (re.compile(r"see sudare budget open --help"), "see help(sudare.Workspace.open_account)"),
    (re.compile(r"sudare budget open [^;,]*--help"), "ws.open_account(...)"),
    (re.compile(r"^sudare budget open$"), "open_account"),
    (re.compile(r"^command line$"), "arguments"),
    (re.compile(r"look: sudare check \S+, or the private page"), "look at the private page"),
    (re.compile(r"sudare contract lint \S+"), "sudare.Contract.load(path)"),
)
"""What a remedy says of the command line, and the same in Python."""
_OPTION: Final = re.compile(r"(?<!\S)--(?=[a-z])")
_BIND: Final = re.compile(r"bind it: sudare budget bind .*")


def in_python(error: ErrorT, places: Mapping[Path, str], bind: str = "") -> ErrorT:
    """Return an error whose findings name objects and calls in place of files, lines and options.

    Args:
        error: changed in place, where it is made of findings.
        places: what stands for each file that was made of an object.
        bind: the call that binds the source; empty where it is a file of the caller's.
    """
    if isinstance(error, Refused):
        error.findings = tuple(_translated(finding, places, bind) for finding in error.findings)
        error.args = ("\n".join(map(str, error.findings)),)
    elif isinstance(error, SudareError) and len(error.args) == 1:
        error.args = (_OPTION.sub("", str(error.args[0])),)
    notes = getattr(error, "__notes__", [])
    notes[:] = [note.replace("running the same command", "calling run again") for note in notes]
    return error


def _translated(finding: Finding, places: Mapping[Path, str], bind: str) -> Finding:
    texts = [finding.where, finding.field, finding.found, finding.allowed, finding.remedy]
    for file, place in places.items():
        for written in dict.fromkeys((str(file.resolve()), str(file), shown(file), file.name)):
            texts = [re.sub(rf"(?<![\w./-]){re.escape(written)}(:\d+)?(?![\w/])", place, text) for text in texts]
    where, field, found, allowed, remedy = texts
    if bind:
        remedy = _BIND.sub(lambda _: f"bind it: {bind}", remedy)
    for pattern, call in _CALLS:
        where, field, remedy = (pattern.sub(lambda _: call, text) for text in (where, field, remedy))  # noqa: B023
    where = "the call" if where == "the command" else where
    return replace(finding, where=where, field=field, found=found, allowed=allowed, remedy=remedy)


def call(
    action: Callable[[], ResultT],
    places: Mapping[Path, str] | None = None,
    bind: str = "",
    log: Callable[[], Path] | None = None,
) -> ResultT:
    """Do something; let refusals out in the words of Python, and nothing that a library says of a row.

    Args:
        action: what to do.
        places, bind: as for `in_python`.
        log: says which private file takes the traceback of an unexpected error; a new temporary one without it.
    Raises:
        SudareError: without the frames below, since a notebook may show the values of their variables.
    """
    refused: SudareError
    try:
        return sheltered(action, log or temporary_log)
    except SudareError as error:
        refused = error
    raise in_python(refused, places or {}, bind).with_traceback(None) from None


def temporary_log() -> Path:
    """Return a new private file outside any workspace."""
    descriptor, name = tempfile.mkstemp(prefix="sudare-error-", suffix=".private.log")
    os.close(descriptor)
    return Path(name)
