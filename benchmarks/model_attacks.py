"""Attacks on released classifiers, shown: a person's other value (Adult), and what a class looks like (MNIST).

    python -m benchmarks.model_attacks --data DIR [--parts attribute,inversion]

`--data DIR` holds adult/ and mnist/. Both data sets are public; on confidential rows such scores are private. What is
attacked is trained without privacy until it knows its rows, and by DP-SGD at epsilon 1. Results: model_attacks.json
and model_attacks.svg; what they show, and what not, is docs/evaluate.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks._attribute_attack import attribute
from benchmarks._inversion_attack import inversion
from benchmarks.results import FOLDER, Row, write

PARTS: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {"attribute": attribute, "inversion": inversion}


def main() -> None:
    """Make the attacks that are asked for, and write their rows beside those of the other part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args()
    made = {part: list(PARTS[part](given.data)) for part in given.parts.split(",")}
    file = FOLDER / "model_attacks.json"
    before = [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
    kept = {part: [row for row in before if row.what.startswith(part)] for part in PARTS}
    write("model_attacks", [row for part in PARTS for row in made.get(part, kept[part])])


if __name__ == "__main__":
    main()
