"""The other programs that publish noisy quantiles, each in an environment of its own.

`--peers DIR` holds one virtual environment a peer, installed from `benchmarks/peers/<name>_statistics.txt`. Answers
are kept in a folder, so that an interrupted benchmark goes on where it was. SmartNoise SQL 1.0.10 has no quantiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, run
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._statistics_data import Measured

SCRIPTS: Final = Path(__file__).parent / "peers"
MODES: Final = ("three", "alone-q50")


@dataclass(frozen=True)
class Peer:
    """Another program.

    Args:
        name: as its makers write it.
        key: of its environment and its script.
        repeats: how often it is asked.
        ways: the ways in which it can be asked, beside the mode.
    """

    name: str
    key: str
    repeats: int
    ways: tuple[str, ...] = ("",)


PEERS: Final = (Peer("OpenDP", "opendp", 60, (" fine", " even")), Peer("PipelineDP", "pipelinedp", 60))


@dataclass(frozen=True)
class Answers:
    """What a peer said of one table.

    Args:
        peer: the peer.
        report: seconds and versions.
        noisy: mode/epsilon/quantile -> float64, shape (repeats, cells).
    """

    peer: Peer
    report: Mapping[str, Any]
    noisy: Mapping[str, NDArray[np.float64]]

    def of(self, mode: str, epsilon: str, quantile: str) -> dict[str, NDArray[np.float64]]:
        """Return a quantile by the way it was asked for."""
        keys = {f"{self.peer.name}{way}": f"{mode}{way}/{epsilon}/{quantile}" for way in self.peer.ways}
        return {name: self.noisy[key] for name, key in keys.items() if key in self.noisy}


def answers(table: Measured, epsilons: Sequence[str], *, peers: Path, kept: Path) -> list[Answers]:
    """Ask all peers about a table; what is kept already is taken as it is."""
    kept.mkdir(parents=True, exist_ok=True)
    return [_asked(peer, table, epsilons, peers, kept.resolve()) for peer in PEERS]


def _asked(peer: Peer, table: Measured, epsilons: Sequence[str], peers: Path, kept: Path) -> Answers:
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
            "questions": [(mode + way, epsilon) for mode in MODES for way in peer.ways for epsilon in epsilons],
            "repeats": peer.repeats,
            "out": str(out),
        }
        command = [str(peers / peer.key / "bin" / "python"), str(SCRIPTS / f"{peer.key}_quantiles.py")]
        with out.with_suffix(".log").open("w") as log:
            done = run(command, input=json.dumps(question), stdout=PIPE, stderr=log, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{peer.name} failed; see {log.name}")
        report.write_text(done.stdout.strip().splitlines()[-1])
    with np.load(out) as noisy:
        return Answers(peer, json.loads(report.read_text()), dict(noisy))
