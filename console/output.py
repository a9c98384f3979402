"""How an error reads: on the terminal, as JSON, and as an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from contracts.errors import Finding, Refused, SudareError
from contracts.plug_ins import OF_EXTENSIONS
from tasks.storage import progress
from tasks.storage.progress import Bar
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.run_folder import UnexpectedError
from tasks.storage.workspace.settings import Workspace

if TYPE_CHECKING:
    from privacy.ledger.ledger import Ledger


# --- What a command answers.


PIPE_WIDTH = 240
Payload = dict[str, Any]


def answer(payload: Payload, people: Callable[[Console], None], *, as_json: bool) -> None:
    """Print the answer of a command on standard output.

    Args:
        payload: the JSON object of `--json`.
        people: prints the same for a person.
        as_json: which of the two is wanted.
    """
    if as_json:
        print(json.dumps(payload, indent=2, ensure_ascii=False), flush=True)  # a server goes on, and is waited for
    else:
        people(terminal())


def terminal(*, errors: bool = False) -> Console:
    """Return a console that prints texts as they are; what goes to a file or a pipe is not wrapped."""
    console = Console(highlight=False, markup=False, soft_wrap=True, stderr=errors)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def seen_by_a_person(console: Console) -> bool:
    """Say whether what is printed goes to a terminal: by the file alone.

    Rich's own `is_terminal` believes FORCE_COLOR and TTY_COMPATIBLE, which jobs set whose output goes to a log.
    """
    return bool(console.file.isatty())


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> Table:
    """Return a plain table; the columns named in `numbers` are right-aligned."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        drawn.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=heading in numbers)
    for row in rows:
        drawn.add_row(*row)
    return drawn


def print_facts(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print name–value lines; a value of several lines is indented under its name."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        first, *others = value.splitlines() or [""]
        console.print(f"{name:<{width}}  {first}")
        for other in others:
            console.print(" " * (width + 1), other)


# --- Progress on the terminal.


WORDS = {
    "warm": "loading Great Expectations",
    "look": "how the rows fit the contract",
    "prefect": "waiting for Prefect, which keeps the record of runs",
    "prefect database": "creating Prefect's database (once in a workspace)",
}
SHORT_SECONDS = 1.0
_shown: list[Progress] = []
SURE_SECONDS = 3.0


class TimeLeftColumn(ProgressColumn):
    """Says about how long a step still takes, once it has run for some seconds and knows how far it is."""

    def render(self, task: Task) -> Text:
        """Estimate from the share that is done."""
        elapsed, share = task.elapsed or 0.0, task.percentage / 100
        if task.total is None or elapsed < SURE_SECONDS or not 0 < share < 1:
            return Text("")
        left = timedelta(seconds=round(elapsed * (1 - share) / share))
        return Text(f"about {left} left", style="dim")


class _RichBar:
    """One step's bar."""

    def __init__(self, drawn: Progress, task: TaskID) -> None:
        self.drawn = drawn
        self.task = task
        self.began = time.monotonic()
        self.held: bool | None = None

    def advance(self, fraction: float, doing: str = "") -> None:
        """Move the bar to `fraction` (0 to 1), and say what is being done."""
        self.drawn.update(self.task, total=1.0, completed=fraction, doing=doing and f"{doing} ")

    def outcome(self, passed: bool) -> None:
        """Keep whether all that the step checks held."""
        self.held = passed


class RichReporter:
    """Draws the steps with Rich.

    Args:
        drawn: the live display.
    """

    def __init__(self, drawn: Progress) -> None:
        self._drawn = drawn
        self._running: dict[str, _RichBar] = {}
        self._told: set[str] = set()

    def begin(self, name: str) -> Bar:
        """Start a step and return its bar; it pulses until the step says how far it is."""
        bar = _RichBar(self._drawn, self._drawn.add_task(WORDS.get(name, name), total=None, doing=""))
        self._running[name] = bar
        return bar

    def end(self, name: str, *, ok: bool) -> None:
        """Replace the bar by a line; a step that is done again in an instant gets none."""
        bar = self._running.pop(name)
        self._drawn.remove_task(bar.task)
        seconds = time.monotonic() - bar.began
        if name in self._told and seconds < SHORT_SECONDS:
            return
        self._told.add(name)
        mark = self._mark(bar) if ok else "[red]✗[/]"
        self._drawn.console.print(f"{mark} {WORDS.get(name, name)} [dim]{seconds:.1f} s[/]", highlight=False)

    def _mark(self, bar: _RichBar) -> str:
        """Mark a step that ended; what it found of the rows is for a person's eyes, never for a file or a pipe."""
        if bar.held is None:
            return "[green]✓[/]"
        if not seen_by_a_person(self._drawn.console):
            return "·"
        return "[green]✓[/]" if bar.held else "[yellow]![/]"


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of the steps inside the block."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[doing]}[/]"),
        TimeLeftColumn(),
    )
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as drawn:
        progress.watch(RichReporter(drawn))
        _shown.append(drawn)
        try:
            yield
        finally:
            _shown.pop()
            progress.watch(None)


@contextmanager
def paused() -> Iterator[None]:
    """Stop drawing inside the block, for a question on the terminal."""
    drawn = _shown[-1] if _shown else None
    if drawn is None or drawn.disable:
        yield
        return
    drawn.stop()
    try:
        yield
    finally:
        drawn.start()


# --- The options that every command has.


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Also show losses in the account's own units, in which they add up.")
]
At = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="The workspace; found from this folder upwards without it."),
]
Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec (YAML).")]


def workspace_at(folder: Path | None) -> Workspace:
    """Open the workspace that was named, or the nearest one."""
    return Workspace.open(folder) if folder is not None else Workspace.find(Path.cwd())


@contextmanager
def ledger_at(folder: Path | None, *, create: bool = False) -> Iterator[Ledger]:
    """Open the ledger of the workspace that was named, or of the nearest one, inside the block."""
    ledger = workspace_at(folder).open_ledger(create=create)
    try:
        yield ledger
    finally:
        ledger.close()


# --- What each kind of error means, what it cost, and what to do.


_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_SECTION: Final = re.compile(r"^###? ([a-z-]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def code_of(error: type[SudareError]) -> str:
    """Return the code of a kind of error."""
    return _WORDS.sub("-", error.__name__).lower()


@cache
def error_pages() -> dict[str, str]:
    """Return what the manual says of each kind of error, by its code; Markdown."""
    extensions = sorted({name for names in OF_EXTENSIONS.values() for name in names.values() if find_spec(name)})
    places = [files("console") / "error_pages.md", *(files(name) / "README.md" for name in extensions)]
    sections = (section for place in places for section in _SECTION.findall(place.read_text(encoding="utf-8")))
    return {code: body.strip() for code, body in sections}


def spelled_code(written: str) -> str:
    """Return a code as the manual spells it, of one that was copied from JSON too: `BudgetExceeded`."""
    return _WORDS.sub("-", written.strip()).lower()


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
