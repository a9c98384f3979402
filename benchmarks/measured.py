"""docs/measured.md, written from the committed results: every target with what was measured, missed targets first.

python -m benchmarks.measured            write the page
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.results import FOLDER, PICTURES

PAGE: Final = PICTURES.parent / "measured.md"
MOST: Final = 8
"""Rows of one benchmark that the page shows, if no more of them miss their target."""

Result = Mapping[str, Any]
FIRST: Final = {
    "ten_million_rows": ["10 million rows: ingest, validate, three tables, publish, record", "the same: peak memory"],
    "platform": [
        "100000000 rows x 15 columns in Parquet, ten two-way tables: one run",
        "100000000 rows x 15 columns in Parquet, ten two-way tables: one run: peak memory",
    ],
    "noise": ["discrete Laplace, epsilon 1", "discrete Gaussian, sigma 1000"],
    "ledger": [
        "SQLite, 64 processes × 200 charges at once: spent over the cap",
        "PostgreSQL, 64 processes × 200 charges at once: rate",
        "SQLite: full check of 1,000,000 entries",
    ],
    "kills": ["killed at every durable instant, SQLite: something did not hold"],
    "verify_mutations": ["flip a byte: refused, naming the file"],
    "tables": ["16,777,216 cells, epsilon 0.1: tuned"],
    "synthetic": ["adult, aim-k2, add_remove, 2-way error", "adult, aim-k2, add_remove, time of a run"],
    "models": ["DP-SGD classifier at joint epsilon 1, delta 1e-5: accuracy"],
    "neural": ["mnist, p3gm, accuracy of a CNN", "adult, aim, AUROC"],
    "federation": ["across sites, epsilon 1, noise in shares for 4 survivors, 1 of them curious"],
    "site": ["an entry with its proof: 95th percentile"],
}
"""What a reader wants first, by benchmark and by the words of its rows."""

HEAD: Final = "| what | paper | peer | target | measured | holds |\n|---|---|---|---|---|---|"
TOP: Final = """# Measured

`make measured` writes this page from `benchmarks/results`; `make bench` measures again. Every number stands there
with its settings: machine, load, versions, draws. A *peer* is another program on the same machine. A target is
missed where the last column says **no**.
"""


def results(folder: Path = FOLDER) -> dict[str, list[Result]]:
    """Return the committed results by benchmark, in the order of their names."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def page(measured: Mapping[str, Sequence[Result]]) -> str:
    """Return the page: the main figures, then how many targets hold, then a section per benchmark."""
    chosen = [_linked(name, _row(measured[name], what)) for name, whats in FIRST.items() for what in whats]
    parts = [TOP, "## The main figures\n", _table(chosen), "## Targets by benchmark\n", _counts(measured)]
    for name, rows in measured.items():
        parts += [f"## {name}\n", *_section(name, rows)]
    return "\n".join(parts).rstrip() + "\n"


def _row(rows: Sequence[Result], what: str) -> Result:
    (row,) = [row for row in rows if row["what"] == what]
    return row


def _linked(name: str, row: Result) -> Result:
    return {**row, "what": f"[{name}](#{name}): {row['what']}"}


def _counts(measured: Mapping[str, Sequence[Result]]) -> str:
    lines = ["| benchmark | rows | targets | missed |", "|---|---|---|---|"]
    for name, rows in measured.items():
        aimed = _aimed(rows)
        missed = sum(not row["holds"] for row in aimed)
        lines.append(f"| [{name}](#{name}) | {len(rows)} | {len(aimed)} | {missed} |")
    return "\n".join(lines) + "\n"


def _section(name: str, rows: Sequence[Result]) -> Iterator[str]:
    yield " ".join(part for part in (_purpose(name), _machine(rows)) if part) + "\n"
    aimed = _aimed(rows)
    missed = [row for row in aimed if not row["holds"]]
    met = [row for row in aimed if row["holds"]]
    shown = missed + met[: max(0, MOST - len(missed))]
    if shown:
        yield _table(shown)
    rest = len(rows) - len(shown)
    if rest:
        met_too = f", of which {len(aimed) - len(shown)} meet a target" if len(aimed) > len(shown) else ""
        yield f"{rest} more rows{met_too}: `benchmarks/results/{name}.json`.\n"


def _aimed(rows: Sequence[Result]) -> list[Result]:
    return [row for row in rows if row["holds"] is not None]


def _purpose(name: str) -> str:
    """What a benchmark measures: the first sentence of its module."""
    (module,) = [path for path in (FOLDER.parent / f"{name}.py", FOLDER.parent / f"_{name}.py") if path.is_file()]
    documented = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return " ".join(documented.split("\n\n")[0].split())


def _machine(rows: Sequence[Result]) -> str:
    """Cores and memory of the machine, and the load that other programs made meanwhile."""
    machines = [row["settings"].get("machine", row["settings"]) for row in rows]
    known = [machine for machine in machines if machine.get("cores") is not None]
    if not known:
        return ""
    loads = [machine["load_average"] for machine in known]
    low, high = min(loads), max(loads)
    load = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{known[0]['cores']} cores, {known[0]['memory_gib']:g} GiB, load {load}."


def _table(rows: Sequence[Result]) -> str:
    return "\n".join([HEAD, *map(_line, rows)]) + "\n"


def _line(row: Result) -> str:
    holds = {True: "yes", False: "**no**", None: ""}[row["holds"]]
    unit = "×" if row["unit"] == "x" else _text(row["unit"])
    cells = [_text(row["what"]), *(_number(row[key]) for key in ("paper", "peer", "target"))]
    return "| " + " | ".join([*cells, f"{_number(row['measured'])} {unit}", holds]) + " |"


def _number(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}".replace("-", "−")
    return f"{int(value):,}".replace("-", "−") if isinstance(value, int | float) else _text(str(value))


def _text(words: str) -> str:
    return words.replace("|", "\\|").replace("100000000", "100 million").replace(" x ", " × ")


if __name__ == "__main__":
    PAGE.write_text(page(results()), encoding="utf-8")
    print(PAGE)
