"""How an error reads: on the terminal, as JSON, and as an exit code."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from rich.text import Text

from console.error_pages import code_of
from console.options import workspace_at
from console.render import terminal
from contracts.errors import Finding, Refused, SudareError
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.run_folder import UnexpectedError

INTERRUPTED = 130


class Interrupted(SudareError):
    """A person stopped the command."""

    exit_code = INTERRUPTED


class UsageRefused(Refused):
    """The command line cannot be understood.

    Args:
        command: the command that was typed, as far as it was understood.
        found: what it could not understand.
        allowed: what it could.
    """

    def __init__(self, command: str, found: str, allowed: str = "what its help lists") -> None:
        super().__init__([Finding(command, "command line", found, allowed, f"see {command} --help")])


class VerificationFailed(Refused):
    """A published version does not hold what it claims, or some of it could not be checked."""

    exit_code = 5


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
    for remedy, alike in groupby(findings, key=lambda finding: finding.remedy):
        shared = tuple(alike)
        for finding in shared:
            console.print(Text(f"{finding.where}: ", style="bold") + Text(finding.field, style="bold red"))
            console.print(Text(f"    found:   {finding.found}"))
            console.print(Text(f"    allowed: {finding.allowed}"))
        if remedy:  # once for findings in a row that share it
            whose = f"for these {len(shared)}: " if len(shared) > 1 else ""
            console.print(Text(f"    do:      {whose}{remedy}", style="green"))
    for note in getattr(error, "__notes__", ()):
        console.print(Text(note))
    if not isinstance(error, UsageRefused | Interrupted | UnexpectedError):  # these say all that there is to say
        console.print(Text(f"what it means: sudare explain {code_of(type(error))}", style="dim"))
