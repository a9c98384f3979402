"""A nation made up at full size: places, people spread as on the 500 m mesh of Japan, contract and spec."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

LEVELS: Final = ("nation", "region", "city", "area", "block")
SIZES: Final = (1, 47, 1_900, 200_000, 600_000)
SHAPE: Final = (2, 2, 18)
CELLS: Final = 72
PIECE: Final = 20_000
SHARES: Final = "{nation: 1, region: 1, city: 1, area: 27, block: 70}"
CONTRACT: Final = """\
id: nation
version: 1.0.0
unit: {{kind: row, scope: block}}
adjacency: replace_one
invariants: [{{kind: total, value: {total}, reference: "made up for a benchmark"}}]
defaults: {{provenance: declared}}
columns:
  block: {{range: 0..{last} by 1, nulls: {{to: 0}}}}
  sex: {{values: [F, M], nulls: {{to: F}}}}
  citizen: {{values: ["no", "yes"], nulls: {{to: "yes"}}}}
  age: {{range: 0..89 by 5, nulls: {{to: 0}}}}
"""
SPEC: Final = """\
release: nation
contract: nation.contract.yaml
source: {{path: people.parquet}}
charge: {{account: nation-2025, epsilon: 3, delta: 1e-10}}
product:
  kind: spine
  spine: {{column: block, file: places.csv, levels: [nation, region, city, area, block]}}
  tables:
    - {{columns: [sex, citizen, age], name: detail, weight: 8, levels: {shares}}}
    - {{columns: [sex], levels: {shares}}}
    - {{columns: [age], levels: {shares}}}
  invariants: {{region: {{column: residents, reference: "made up for a benchmark"}}}}
publish: {{to: releases/}}
"""


def people_by_block(mesh: Path, random: np.random.Generator, blocks: int) -> NDArray[np.int64]:
    """Return how many people live in each block: populated cells of the mesh along a curve, the largest ones halved.

    Args:
        mesh: the mesh, with the columns row, col and population.
        random: halves cells.
        blocks: how many blocks; the first ones along the curve where there are fewer than cells.
    """
    table = pl.read_parquet(mesh)
    row, column = table["row"].to_numpy(), table["col"].to_numpy()
    people = table["population"].to_numpy().astype(np.int64)
    people = people[np.argsort(_interleaved(row - row.min()) | (_interleaved(column - column.min()) << np.uint64(1)))]
    if blocks <= people.size:
        return people[:blocks]
    halved = np.ones(people.size, dtype=np.int64)
    halved[np.argsort(-people, kind="stable")[: blocks - people.size]] = 2
    cell = np.repeat(np.arange(people.size), halved)
    first = np.diff(cell, prepend=-1) > 0
    half = random.binomial(people, 0.5)
    return np.where(halved[cell] == 1, people[cell], np.where(first, half[cell], people[cell] - half[cell]))


def _interleaved(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Put a zero between all bits of numbers below 2^32, so that two of them make the number on a Z-shaped curve."""
    found = numbers.astype(np.uint64)
    for shift, mask in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F)):
        found = (found | (found << np.uint64(shift))) & np.uint64(mask)
    for shift, mask in ((2, 0x3333333333333333), (1, 0x5555555555555555)):
        found = (found | (found << np.uint64(shift))) & np.uint64(mask)
    return found


def parents_of(sizes: tuple[int, ...], random: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
    """Cut each level into as many runs as the level above has places, at random."""
    found = []
    for above, below in pairwise(sizes):
        steps = np.zeros(below, dtype=np.int64)
        steps[random.choice(np.arange(1, below), above - 1, replace=False)] = 1
        found.append(np.cumsum(steps))
    return tuple(found)


def cells_of(people: NDArray[np.int64], random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the counts of blocks by sex, citizenship and age, piece by piece; each block has shares of its own."""
    age = random.dirichlet(np.full(SHAPE[-1], 30.0))
    usual = np.multiply.outer(np.multiply.outer([0.513, 0.487], [0.025, 0.975]), age).reshape(-1)
    for low in range(0, people.size, PIECE):
        here = people[low : low + PIECE]
        shares = usual * random.gamma(5.0, 0.2, (here.size, CELLS))
        yield random.multinomial(here, shares / shares.sum(axis=1, keepdims=True))


def write_nation(folder: Path, mesh: Path, sizes: tuple[int, ...] = SIZES, *, rows: bool = True) -> None:
    """Write places, contract, spec, a row a person, and the exact counts for who compares (exact.npy).

    Without `rows` only the people of the first blocks have rows, and the exact counts stand for the others.
    """
    random = np.random.default_rng(22)
    people = people_by_block(mesh, random, sizes[-1])
    parents = parents_of(sizes, random)
    write_places(folder / "places.csv", people, parents)
    (folder / "nation.contract.yaml").write_text(CONTRACT.format(total=people.sum(), last=sizes[-1] - 1))
    (folder / "spec.yaml").write_text(SPEC.format(shares=SHARES))
    exact = np.lib.format.open_memmap(folder / "exact.npy", "w+", np.int32, (sizes[-1], CELLS))
    texts = [pa.array(labels) for labels in (["F", "M"], ["no", "yes"])]
    with pq.ParquetWriter(folder / "people.parquet", _schema(), compression="zstd") as writer:
        for number, counts in enumerate(cells_of(people, random)):
            low = number * PIECE
            exact[low : low + counts.shape[0]] = counts
            if number and not rows:
                continue
            cell = np.repeat(np.arange(counts.size), counts.reshape(-1))
            block, rest = low + cell // CELLS, cell % CELLS
            codes = (rest // 36, rest // 18 % 2)
            labels = [
                pa.DictionaryArray.from_arrays(pa.array(c, pa.int8()), t) for c, t in zip(codes, texts, strict=True)
            ]
            columns = [pa.array(block, pa.int32()), *labels, pa.array(rest % 18 * 5, pa.int8())]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_schema()))
    exact.flush()
    np.savez(folder / "parents.npz", *parents)


def _schema() -> pa.Schema:
    text = pa.dictionary(pa.int8(), pa.string())
    return pa.schema([("block", pa.int32()), ("sex", text), ("citizen", text), ("age", pa.int8())])


def write_places(path: Path, people: NDArray[np.int64], parents: tuple[NDArray[np.int64], ...]) -> None:
    """Write the tree; blocks are named by their numbers, larger places after their level."""
    region = people
    for parent in parents[:0:-1]:
        region = np.bincount(parent, weights=region).astype(np.int64)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("place", "parent", "level", "residents"))
        lines.writerow(("N0", "", LEVELS[0], ""))
        for level, parent in enumerate(parents, start=1):
            own = "" if level == len(parents) else f"{LEVELS[level][0]}"
            above = "N" if level == 1 else LEVELS[level - 1][0]
            totals = region.tolist() if level == 1 else [""] * parent.size
            names = (
                (f"{own}{n}", f"{above}{p}", LEVELS[level], t)
                for n, (p, t) in enumerate(zip(parent, totals, strict=True))
            )
            lines.writerows(names)
