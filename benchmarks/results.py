"""Rows that every benchmark writes: what was measured, beside the paper's, the peer's and the target's number."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "results"
PICTURES: Final = Path(__file__).parents[1] / "docs" / "images"
Setting = str | int | float | bool | None | list["Setting"] | dict[str, "Setting"]


@dataclass(frozen=True)
class Row:
    """One measured number.

    Args:
        what: what was measured, in words.
        measured: the number; None where it could not be measured, and `settings` say why.
        unit: its unit.
        target: the number that was aimed at, or None.
        holds: whether the target is met; None where there is none.
        paper: what the paper reports, or None.
        peer: what another program reached here, or None.
        settings: everything needed to measure it again; `machine()` belongs here.
    """

    what: str
    measured: float | None
    unit: str
    target: float | str | None = None
    holds: bool | None = None
    paper: float | str | None = None
    peer: float | str | None = None
    settings: dict[str, Setting] = field(default_factory=dict)


def machine(*packages: str) -> dict[str, Setting]:
    """Return this machine's size and load, and the versions of Python and of the named packages."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions: dict[str, Setting] = {"python": platform.python_version()}
    versions.update({package: installed(package) for package in packages})
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 1),
        "versions": versions,
    }


def installed(package: str) -> str:
    """Return the version of an installed package, or say that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def write(name: str, rows: Sequence[Row]) -> Path:
    """Print the rows as a table and write them to results/<name>.json."""
    print(_table(rows))
    return _written(name, _as_json(rows))


def write_again(name: str, rows: Sequence[Row]) -> Path:
    """Print the rows and write them to results/<name>.json, where they replace those of the same words."""
    print(_table(rows))
    path, new = FOLDER / f"{name}.json", _as_json(rows)
    left = {row["what"]: [each for each in new if each["what"] == row["what"]] for row in new}
    replaced = set(left)
    written: list[dict[str, Any]] = []
    for old in json.loads(path.read_text(encoding="utf-8")) if path.exists() else ():
        written += left.pop(old["what"], []) if old["what"] in replaced else [old]
    return _written(name, written + [each for rows_of_one in left.values() for each in rows_of_one])


def _as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    order = ("what", "paper", "peer", "target", "measured", "unit", "holds", "settings")
    return [{key: asdict(row)[key] for key in order} for row in rows]


def _written(name: str, rows: Sequence[dict[str, Any]]) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _table(rows: Sequence[Row]) -> str:
    """Lay the rows out in columns, without their settings."""
    head = ("what", "paper", "peer", "target", "measured", "unit", "holds")
    lines = [head, *(tuple(_text(getattr(row, key)) for key in head) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _text(value: float | str | bool | None) -> str:
    """Show a number with four digits, a truth as yes or no, and nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
