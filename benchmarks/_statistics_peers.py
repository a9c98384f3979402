"""The other programs that publish noisy counts, sums and means, each in an environment of its own.

`--peers DIR` holds one virtual environment a peer, installed from `benchmarks/peers/<name>_statistics.txt`. Answers
are kept in a folder, so that an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE, run
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._statistics_data import Measured

SCRIPTS: Final = Path(__file__).parent / "peers"
MODES: Final = ("sum", "mean", "together")
DERIVED: Final = "derived"
Noisy = Mapping[str, NDArray[np.float64]]
"""Statistic -> shape (repeats, cells)."""


@dataclass(frozen=True)
class Peer:
    """Another program.

    Args:
        name: as its makers write it.
        key: of its environment and its script.
        repeats: how often it is asked; those that take longer are asked less often, 50 times at least.
        modes: what it can be asked for.
        about: what the names of the tables begin with that it is asked about.
    """

    name: str
    key: str
    repeats: int
    modes: tuple[str, ...]
    about: str = ""


# Tumult takes five minutes a table and more on two cores, nearly all of it for the means.
PEERS: Final = (
    Peer("OpenDP", "opendp", 200, (*MODES, DERIVED)),
    Peer("SmartNoise SQL", "smartnoise", 200, MODES),
    Peer("PipelineDP", "pipelinedp", 50, (*MODES, "variance")),
    Peer("Tumult Analytics", "tumult", 50, ("sum", "mean", DERIVED), about="Adult"),
)


@dataclass(frozen=True)
class Answers:
    """What a peer said of one table.

    Args:
        peer: the peer.
        report: seconds and versions.
        noisy: mode/epsilon/statistic -> shape (repeats, cells).
    """

    peer: Peer
    report: Mapping[str, Any]
    noisy: Noisy

    def of(self, mode: str, epsilon: str, statistic: str) -> dict[str, NDArray[np.float64]]:
        """Return a statistic by the way it was asked for: as the peer does it, and where it can, as a ratio."""
        named = {mode: self.peer.name}
        if mode == "together":
            named[DERIVED] = f"{self.peer.name}, mean as the ratio of sum and count"
        keys = {name: f"{asked}/{epsilon}/{statistic}" for asked, name in named.items()}
        return {name: self.noisy[key] for name, key in keys.items() if key in self.noisy}


def answers(
    table: Measured,
    epsilons: Sequence[str],
    *,
    peers: Path | None,
    kept: Path,
    only: Sequence[str] = (),
    modes: tuple[str, ...] | None = None,
) -> list[Answers]:
    """Ask all peers that are installed about a table, in all their modes or in some; say which are not."""
    found = []
    kept.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if (only and peer.key not in only) or not table.name.startswith(peer.about):
            continue
        python = (peers or Path()) / peer.key / "bin" / "python"
        if peers is not None and python.is_file():
            wanted = peer if modes is None else replace(peer, modes=modes)
            found.append(asked(wanted, python, table, epsilons, kept.resolve()))
        else:
            print(f"no {peer.name}: give --peers DIR with DIR/{peer.key} an environment of {_requirements(peer)}")
    return found


def _requirements(peer: Peer) -> str:
    """Return what is installed for a peer."""
    return " ".join((SCRIPTS / f"{peer.key}_statistics.txt").read_text(encoding="utf-8").split())


def asked(peer: Peer, python: Path, table: Measured, epsilons: Sequence[str], kept: Path) -> Answers:
    """Ask once; what is kept already is taken as it is."""
    data = table.write(kept)
    out = kept / f"{data.stem}.{peer.key}.npz"
    report = out.with_suffix(".json")
    if not report.exists():
        print(f"asking {peer.name} about {table.name}", flush=True)
        question = {
            "data": str(data),
            "cells": table.cells,
            "low": table.low,
            "high": table.high,
            "questions": [(mode, epsilon) for mode in peer.modes for epsilon in epsilons],
            "repeats": peer.repeats,
            "out": str(out),
        }
        command = [str(python), str(SCRIPTS / f"{peer.key}_statistics.py")]
        with out.with_suffix(".log").open("w") as log:
            done = run(command, input=json.dumps(question), stdout=PIPE, stderr=log, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{peer.name} failed; see {log.name}")
        report.write_text(done.stdout.strip().splitlines()[-1])
    with np.load(out) as noisy:
        return Answers(peer, json.loads(report.read_text()), dict(noisy))
