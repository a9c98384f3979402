"""The other programs, each in an environment of its own, and our own generators, run the same way.

`--peers DIR` holds one virtual environment a peer: mbi, dpmm, datasynthesizer, smartnoise, prv. What was measured is
kept in a folder, so that an interrupted benchmark goes on where it was, and one peer can be measured on another day.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE, run
from typing import Any, Final

from benchmarks._synthetic_data import Categorical, read_codes
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import compare
from tasks.evaluation.scores import accuracies

SCRIPTS: Final = Path(__file__).parent / "peers"
INSTALLED: Final = {
    "mbi": "mbi==2.0.0 jax[cpu]==0.10.2 pandas pyarrow, and the folder mechanisms of its repository",
    "dpmm": "dpmm==0.1.9 pyarrow<20",
    "datasynthesizer": "DataSynthesizer==0.1.13 pyarrow",
    "smartnoise": "smartnoise-synth==1.0.8 pyarrow",
    "prv": "prv-accountant==0.2.0",
}


@dataclass(frozen=True)
class Peer:
    """Another program.

    Args:
        name: of its environment and of its script.
        python: the environment's interpreter.
    """

    name: str
    python: Path

    def compose(self, steps: Sequence[Any], delta: float) -> list[list[float]]:
        """Ask prv_accountant for ε of growing lists: lower bound, estimate, upper bound."""
        asked = json.dumps({"delta": delta, "steps": list(steps)})
        command = [str(self.python), str(SCRIPTS / f"run_{self.name}.py")]
        done = run(command, input=asked, stdout=PIPE, text=True, check=True)
        found: list[list[float]] = json.loads(done.stdout)
        return found


@dataclass(frozen=True)
class Made:
    """Made-up rows, and what making them took.

    Args:
        name: of the run.
        rows: the rows.
        report: seconds, cpu_seconds, peak_gigabytes, versions; of ours also draws and steps.
    """

    name: str
    rows: EncodedRows
    report: Mapping[str, Any]


def peers(folder: Path | None) -> dict[str, Peer]:
    """Return the peers that are installed; say which are not, and how to install them."""
    found = {}
    for name, packages in INSTALLED.items():
        python = (folder / name / "bin" / "python") if folder is not None else Path(os.devnull)
        if folder is not None and python.is_file():
            found[name] = Peer(name, python)
        else:
            print(f"no peer {name}: give --peers DIR with DIR/{name} an environment of {packages}")
    return found


class Runs:
    """Runs programs and remembers what they made.

    Args:
        kept: where runs are kept.
    """

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        kept.mkdir(parents=True, exist_ok=True)

    def peer(self, peer: Peer, method: str, table: Categorical, *, seed: int, epsilon: str, delta: str) -> Made:
        """Run a peer's method on a table."""
        command = [str(peer.python), str(SCRIPTS / f"run_{peer.name}.py"), "--method", method]
        name = f"{peer.name}-{method}-{table.name}-{epsilon}-{delta}-{seed}"
        return self._run(name, command, table, seed, epsilon, delta)

    def ours(
        self,
        method: str,
        table: Categorical,
        *,
        seed: int,
        epsilon: str,
        delta: str,
        adjacency: str = "add_remove",
        options: Mapping[str, Any] | None = None,
        steps: bool = False,
        numbers: Sequence[str] = (),
    ) -> Made:
        """Run one of our generators on a table.

        Columns are categories, but for those that are named as `numbers`, of one bin a code.
        """
        written = json.dumps(dict(options or {}), sort_keys=True)
        command = [sys.executable, "-m", "benchmarks._synthetic_ours", "--method", method]
        command += ["--adjacency", adjacency, "--options", written, *(["--steps"] if steps else [])]
        about = sha256(written.encode()).hexdigest()[:8] if options else "default"
        name = f"ours-{method}-{about}-{adjacency}-{table.name}-{epsilon}-{delta}-{seed}{'-steps' if steps else ''}"
        if numbers:
            command, name = [*command, "--numbers", *numbers], f"{name}-numbers"
        return self._run(name, command, table, seed, epsilon, delta)

    def scores(self, outcome: Made, table: Categorical, *, predict: bool = False) -> Mapping[str, Any]:
        """Compare made-up rows with the real ones, which are public here; what was compared is remembered."""
        kept = self._kept / f"{outcome.name}.{'predicted' if predict else 'compared'}.json"
        if not kept.exists():
            real = EncodedRows(table.columns, table.shape, table.codes)
            reached = accuracies(outcome.rows, real, target=table.target) if predict else {}
            kept.write_text(json.dumps(compare(real, outcome.rows, accuracies=reached).scores.to_json()))
        found: Mapping[str, Any] = json.loads(kept.read_text())
        return found

    def _run(self, name: str, command: list[str], table: Categorical, seed: int, epsilon: str, delta: str) -> Made:
        """Run once; what is kept already is taken as it is."""
        out, report = self._kept / f"{name}.parquet", self._kept / f"{name}.json"
        if not report.exists():
            print(f"running {name}", flush=True)
            data, domain = table.write(self._kept)
            files = ["--data", str(data), "--domain", str(domain), "--out", str(out)]
            given = ["--seed", str(seed), "--epsilon", epsilon, "--delta", delta]
            with (self._kept / f"{name}.log").open("w") as log:
                done = run([*command, *files, *given], stdout=PIPE, stderr=log, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{name} failed; see {self._kept / name}.log")
            report.write_text(done.stdout.strip().splitlines()[-1])
        codes = read_codes(out, table.columns)
        return Made(name, EncodedRows(table.columns, table.shape, codes), json.loads(report.read_text()))
