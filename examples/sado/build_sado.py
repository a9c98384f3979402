"""Build people.parquet: one row for each inhabitant of Sado in Japan's census of 2020 on the 500 m mesh.

    python examples/sado/build_sado.py MESH

MESH is a Parquet or CSV file of the census's half mesh with the columns `key_code` (nine digits) and `population`, as
e-Stat publishes it (2020 Population Census, 500 m mesh, total population) for the first meshes 5638 and 5738.
A person is a square of 15 seconds of latitude by 22.5 seconds of longitude and nothing else.
The counts were published, so no row says more of anybody than the census did.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

SOUTH, WEST = 9073, 6113
"""The square in the south-west corner of the contract's bounds: 240ths of a degree, and 160ths beyond 100 degrees."""
CELLS = (128, 64)
"""Squares northwards and eastwards."""


def square(key_code: int) -> tuple[int, int]:
    """Return the row (240ths of a degree) and column (160ths of a degree beyond 100) of a half mesh code.

    Source: JIS X 0410; two digits each of 2/3 degrees and degrees, one each of eighths, of tenths, and a quarter.
    """
    digits = [int(digit) for digit in f"{key_code:09d}"]
    quarter = digits[8] - 1
    row = (10 * digits[0] + digits[1]) * 160 + digits[4] * 20 + digits[6] * 2 + quarter // 2
    column = (10 * digits[2] + digits[3]) * 160 + digits[5] * 20 + digits[7] * 2 + quarter % 2
    return row, column


def build(mesh: Path, people: Path) -> None:
    """Write one row a person, in the order of the squares."""
    read = pl.read_csv if mesh.suffix == ".csv" else pl.read_parquet
    rows = []
    for key_code, population in read(mesh).select("key_code", "population").iter_rows():
        row, column = square(key_code)
        place = (row - SOUTH, column - WEST)
        if 0 <= place[0] < CELLS[0] and 0 <= place[1] < CELLS[1]:
            rows += [place] * population
    table = pl.DataFrame(sorted(rows), schema={"north": pl.UInt8, "east": pl.UInt8}, orient="row")
    table.write_parquet(people, compression="zstd")


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(__file__).parent / "people.parquet")
