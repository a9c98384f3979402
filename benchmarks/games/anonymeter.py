"""The three attacks of anonymeter, in an environment of its own: `pip install anonymeter==1.1.0` in a fresh one."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.games.surrogate import (
    COLUMNS,
    COPIES,
    DELTA,
    EPSILON,
    PEOPLE,
    SECRET,
    Rows,
    copied,
    surrogate,
    synthesizer,
)

SCRIPT: Final = Path(__file__).parents[1] / "peers" / "anonymeter_attacks.py"
ATTACKS: Final = 300
LEAST: Final = 0.05
"""A risk is one where its 95 % interval begins above it."""


def attacked(python: Path, name: str = "mst") -> list[dict[str, Any]]:
    """Attack a shipped generator and the one that copies, in another interpreter.

    Args:
        python: an interpreter that has anonymeter.
        name: the generator.
    """
    table = surrogate()
    make = synthesizer(name, table.domain)
    shipped, twin = (_run(python, table.members, each(table.members, 1), table.others) for each in (make, copied))
    packages = shipped["versions"]
    return [
        {
            "attack": f"anonymeter_{attack}",
            "what": f"anonymeter {packages['anonymeter']}: {attack.replace('_', ' ')}",
            "mechanism": f"generator {name}, {PEOPLE} rows of UCI Adult",
            "claimed_epsilon": float(EPSILON),
            "delta": float(DELTA),
            **risk,
            "least": LEAST,
            "holds": risk["low"] <= LEAST,
            "negative_control": {
                "what": COPIES,
                **twin["attacks"][attack],
                "caught": twin["attacks"][attack]["low"] > LEAST,
            },
        }
        for attack, risk in shipped["attacks"].items()
    ]


def _run(python: Path, seen: Rows, made: Rows, control: Rows) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        paths = []
        for name, rows in (("seen", seen), ("made", made), ("control", control)):
            path = Path(folder) / f"{name}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                writer.writerows([f"v{code}" for code in row] for row in rows.tolist())
            paths += [f"--{name}", str(path)]
        command = [str(python), str(SCRIPT), *paths, "--secret", COLUMNS[SECRET], "--attacks", str(ATTACKS)]
        try:
            done = subprocess.run([*command, "--seed", "1"], stdout=subprocess.PIPE, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            need = "give --anonymeter-python an interpreter where `pip install anonymeter==1.1.0` was done"
            raise SystemExit(f"anonymeter did not run under {python} ({type(error).__name__}): {need}") from error
    told: dict[str, Any] = json.loads(done.stdout)
    return told
