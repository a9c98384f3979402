"""The other programs that publish keys nobody declared, and that count people or different values by cell.

`--peers DIR` holds one virtual environment a peer, installed from `benchmarks/peers/<name>_statistics.txt`. Answers
are kept in a folder, so that an interrupted benchmark goes on where it was. All get the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, run
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

SCRIPTS: Final = Path(__file__).parent / "peers"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class People:
    """Rows of people: each has a key, or a cell, and a value.

    Args:
        name: of the kept file.
        person: whose row it is, shape (rows,).
        key: its key, from 0, same shape.
        value: its value, same shape.
        rows_per_person: the most rows of a person.
        cells: declared keys, all below this; 0 where nobody declares them.
        delta: of every question.
    """

    name: str
    person: NDArray[np.int64]
    key: NDArray[np.int64]
    value: NDArray[np.int64]
    rows_per_person: int
    cells: int
    delta: float

    def write(self, folder: Path) -> Path:
        """Write the rows as Parquet, once."""
        path = folder / f"{self.name}.parquet"
        if not path.exists():
            pl.DataFrame({"person": self.person, "key": self.key, "value": self.value}).write_parquet(path)
        return path


@dataclass(frozen=True)
class Question:
    """What one peer is asked.

    Args:
        peer: the peer, as its makers write it.
        mode: of `benchmarks.peers.rows_of_people`.
        repeats: how often.
    """

    peer: str
    mode: str
    repeats: int

    @property
    def key(self) -> str:
        """Of its environment and its script."""
        return self.peer.split()[0].lower()


@dataclass(frozen=True)
class Answers:
    """What a peer said.

    Args:
        question: what it was asked.
        report: seconds and versions.
        noisy: shape (repeats, numbers).
    """

    question: Question
    report: Mapping[str, Any]
    noisy: Floats


def answers(people: People, questions: Sequence[Question], *, epsilon: str, peers: Path, kept: Path) -> list[Answers]:
    """Ask the peers that are installed; say which are not."""
    kept.mkdir(parents=True, exist_ok=True)
    data, found = people.write(kept.resolve()), []
    for question in questions:
        python = peers / question.key / "bin" / "python"
        if python.is_file():
            found.append(_asked(question, python, people, data, epsilon))
        else:
            print(f"no {question.peer}: give --peers DIR with DIR/{question.key}, an environment")
    return found


def _asked(question: Question, python: Path, people: People, data: Path, epsilon: str) -> Answers:
    """Ask one peer; what is kept already is taken as it is."""
    report = data.with_name(f"{data.stem}.{question.key}.{question.mode}.{epsilon}.json")
    if not report.exists():
        print(f"asking {question.peer} for {question.mode} of {people.name}", flush=True)
        asked = {"data": str(data), "mode": question.mode, "epsilon": float(epsilon), "delta": people.delta}
        asked |= {"rows_per_person": people.rows_per_person, "cells": people.cells, "repeats": question.repeats}
        command = [str(python), str(SCRIPTS / f"{question.key}_distinct.py")]
        with report.with_suffix(".log").open("w") as log:
            done = run(command, input=json.dumps(asked), stdout=PIPE, stderr=log, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{question.peer} failed; see {log.name}")
        report.write_text(done.stdout.strip().splitlines()[-1])
    told = json.loads(report.read_text())
    return Answers(question, told, np.array(told.pop("answers"), dtype=np.float64))
