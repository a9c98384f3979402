"""What a command answers: one JSON object, or Rich output for a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

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
        sys.stdout.write(json.dumps(payload, indent=2, ensure_ascii=False) + "\n")
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
