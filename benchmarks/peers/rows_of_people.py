"""What every peer's script for keys and distinct counts does around the peer: read the question, ask, report.

Standard input: JSON {"data": Parquet of person, key and value, "mode", "epsilon", "delta", "rows_per_person",
"cells", "repeats"}. The last line of standard output: JSON {"seconds", "versions", "answers"}, one list of numbers a
repeat. A mode is

- `keys`: how many keys are published, where nobody declares them and nothing else is asked,
- `keys_counts`: the same, where each published key has a noisy count,
- `units` or `values`: the noisy number of people, or of different values, of each cell in their order.

A person has at most `rows_per_person` rows and is added or removed whole; epsilon and delta are the whole query's.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version


@dataclass(frozen=True)
class Question:
    """What is asked.

    Args:
        data: the Parquet file.
        mode: see the module.
        epsilon: of the query.
        delta: of the query; 0 where keys are declared.
        rows_per_person: the most rows of a person.
        cells: the declared keys, 0 to cells - 1; 0 where nobody declares them.
        repeats: how often it is asked.
    """

    data: str
    mode: str
    epsilon: float
    delta: float
    rows_per_person: int
    cells: int
    repeats: int


def main(ask: Callable[[Question], list[list[float]]], *packages: str) -> None:
    """Ask the question of standard input and report."""
    question = Question(**json.load(sys.stdin))
    begun = time.perf_counter()
    warnings.simplefilter("ignore")
    with redirect_stdout(sys.stderr):
        answers = ask(question)
    seconds = round(time.perf_counter() - begun, 1)
    versions = {package: version(package) for package in packages}
    print(json.dumps({"seconds": seconds, "versions": versions, "answers": answers}))
