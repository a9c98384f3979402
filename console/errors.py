"""How an error reads: on the terminal, as JSON, and as an exit code."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from console.error_pages import code_of
from console.options import workspace_at
from console.render import seen_by_a_person, terminal
from contracts.errors import Finding, Refused, SudareError
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.run_folder import UnexpectedError

INTERRUPTED = 130
_AROUND: Final = 4
"""Lines of a terminal that the prompt, the code of an error and its notes need."""
_ALIKE, _PLACES = 12, 3
"""More findings than the first that say the same are told by so many of their places."""


class Interrupted(SudareError):
    """A person stopped the command."""

    exit_code = INTERRUPTED


class UsageRefused(Refused):
    """The command line cannot be understood.

    Args:
        command: the command that was typed, as far as it was understood.
        found: what it could not understand.
        allowed: what it could.
        mended: what to write instead, if that is known.
    """

    def __init__(self, command: str, found: str, allowed: str = "what its help lists", mended: str = "") -> None:
        remedy = f"{mended}; or see {command} --help" if mended else f"see {command} --help"
        super().__init__([Finding(command, "command line", found, allowed, remedy)])


def require_regular(path: Path, command: str) -> None:
    """Refuse a path to a pipe or a device: it would be waited for, or read without end."""
    with suppress(OSError, ValueError):  # what else is wrong with a path, the command says
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageRefused(command, f"no regular file: {path}", "a file or a folder", "name a file")


class VerificationFailed(Refused):
    """A published version does not hold what it claims, or some of it could not be checked."""

    exit_code = 5


class VersionTakenBack(VerificationFailed):
    """A published version holds, and its publisher withdrew it since."""

    exit_code = 6


def present(error: SudareError, *, as_json: bool) -> int:
    """Show an error (JSON on standard output, words on standard error) and return its exit code."""
    if as_json:
        sys.stdout.write(json.dumps({"error": as_object(error)}, indent=2, ensure_ascii=False) + "\n")
    else:
        _print_words(error)
    return error.exit_code


def as_object(error: SudareError) -> dict[str, Any]:
    """Return an error as a JSON object."""
    findings = [vars(finding) for finding in findings_of(error)]
    return {
        "kind": type(error).__name__,
        "exit_code": error.exit_code,
        "message": str(error),
        "findings": findings,
        **({"notes": list(notes)} if (notes := getattr(error, "__notes__", ())) else {}),
    }


def findings_of(error: SudareError) -> tuple[Finding, ...]:
    """Return the findings that an error is made of; empty for one that is a sentence."""
    return error.findings if isinstance(error, Refused) else ()


def log_for_bugs(arguments: Sequence[str]) -> Path:
    """Return the private log for a bug outside a run: in the workspace of the command, else a file of its own."""
    named = [after for option, after in pairwise(arguments) if option == "--workspace"]
    try:
        return workspace_at(Path(named[-1]) if named else None).private / "error.private.log"
    except WorkspaceRefused:
        descriptor, name = tempfile.mkstemp(prefix="sudare-error-", suffix=".private.log")
        os.close(descriptor)
        return Path(name)


def _print_words(error: SudareError) -> None:
    console = terminal(errors=True)
    findings = findings_of(error)
    if not findings:
        console.print(Text("error: ", style="bold red") + Text(str(error), style="default"))
    print_findings(console, findings)
    for note in getattr(error, "__notes__", ()):
        console.print(Text(note))
    if not isinstance(error, UsageRefused | Interrupted | UnexpectedError):  # these say all that there is to say
        console.print(Text(f"what it means: sudare explain {code_of(type(error))}", style="dim"))


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print findings; what is alike in everything but its place is said once, with its first places.

    On a terminal no more than fits its height, and how many more there are; a file or a pipe gets all.
    """
    blocks = list(_blocks(findings))
    lines = [sum(1 + len(line) // console.width for line in block.plain.splitlines()) for block, _ in blocks]
    room = console.height - _AROUND if seen_by_a_person(console) else sum(lines)
    shown = next((place for place in range(1, len(blocks)) if sum(lines[: place + 1]) > room), len(blocks))
    for block, _ in blocks[:shown]:
        console.print(block)
    if left := sum(number for _, number in blocks[shown:]):
        console.print(Text(f"and {left:,} more: mend these first, or add --json, which lists all", style="green"))


def _blocks(findings: Sequence[Finding]) -> Iterator[tuple[Text, int]]:
    """Yield what is printed at once, and of how many findings: those in a row that share what to do."""
    for remedy, alike in groupby(findings, key=lambda finding: finding.remedy):
        shared, block = tuple(alike), Text()
        same = {(finding.found, finding.allowed) for finding in shared}
        apart = shared if len(same) > 1 or len(shared) <= _ALIKE else shared[:_PLACES]
        for place, finding in enumerate(apart):
            block.append("\n" if place else "").append(f"{finding.where}: ", "bold").append(finding.field, "bold red")
            if apart is shared or place == len(apart) - 1:
                more = f"\nand {len(shared) - len(apart):,} more like these" if apart is not shared else ""
                block.append(f"{more}\n    found:   {finding.found}\n    allowed: {finding.allowed}")
        if remedy:  # once for findings in a row that share it
            whose = f"for these {len(shared):,}: " if len(shared) > 1 else ""
            block.append(f"\n    do:      {whose}{remedy}", "green")
        yield block, len(shared)
