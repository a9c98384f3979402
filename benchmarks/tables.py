"""The negative ℓ2 paper's tables 1-4 beside ours: same data, same noise draws for every method.

    python -m benchmarks.tables [--mesh japan2020_mesh500m_pop.parquet] [--draws 100] [--mesh-draws 5]

The national mesh may also be named by SUDARE_BENCHMARK_MESH; without it, table 4 is left out. The paper's methods run
on its own convention, continuous Laplace noise of scale 1/ε and the exact total, which no release of ours uses
(DESIGN: where the papers must not be followed); ours run on exact discrete noise of the same scale, same total.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from benchmarks import _sparse, _tables_times
from benchmarks._tables_data import national_mesh, simulated_mesh
from benchmarks._tables_errors import Paper, our_rows, paper_rows
from benchmarks.results import machine, write

TABLES_1_AND_2: Final[dict[float, Paper]] = {
    0.1: {"Proposed": (4.3133, 4.82), "Simplex": (4.8221, 6.54), "NNL": (6.4286, 8.82), "LM": (25.2317, 46.69)},
    1.0: {"Proposed": (0.5141, 5.63), "Simplex": (0.5538, 6.76), "NNL": (0.6103, 7.23), "LM": (4.6061, 32.41)},
    10.0: {"Proposed": (0.0319, 3.39), "Simplex": (0.0341, 3.40), "NNL": (0.0324, 3.39), "LM": (0.5069, 7.44)},
}
TABLE_4: Final[dict[float, Paper]] = {0.1: {"Proposed": (None, 5.30), "Simplex": (None, 5.96)}}
_OUR_MESH_EPSILONS: Final = (0.1, 1.0, 10.0)


def main() -> None:
    """Measure everything and write results/tables.json."""
    asked = _arguments()
    base = machine("numpy", "cryptography")
    rows = _tables_times.rows(asked.mesh, base) + _sparse.rows(asked.mesh)
    small = simulated_mesh(64)
    for epsilon, paper in TABLES_1_AND_2.items():
        title = f"64 x 64, epsilon {epsilon:g}"
        rows += paper_rows(title, small, epsilon, paper, asked.draws, base)
        rows += our_rows(title, small, epsilon, paper, asked.draws, base)
    if asked.mesh is None:
        print("table 4 is left out: no --mesh and no SUDARE_BENCHMARK_MESH")
    else:
        mesh = national_mesh(asked.mesh)
        for epsilon in _OUR_MESH_EPSILONS:
            title, paper = f"national mesh, epsilon {epsilon:g}", TABLE_4.get(epsilon, {"Proposed": (None, None)})
            if epsilon in TABLE_4:
                rows += paper_rows(title, mesh, epsilon, paper, asked.mesh_draws, base)
            rows += our_rows(title, mesh, epsilon, paper, asked.mesh_draws, base)
    write("tables", rows)


def _arguments() -> argparse.Namespace:
    """Read where the data are and how many draws are wanted."""
    parser = argparse.ArgumentParser(description="the negative l2 paper's tables beside ours")
    named = os.environ.get("SUDARE_BENCHMARK_MESH")
    parser.add_argument("--mesh", type=Path, default=Path(named) if named else None)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--mesh-draws", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
