"""A finished run on small pictures: a shape a label, read from Parquet by the real ingest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tests.tasks.intake import KEY
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import KEYED_HASH, property_yaml

HEIGHT, WIDTH = 5, 4
SHAPES = ("bar", "box", "dot")
PICTURE = property_yaml(
    "picture",
    "array",
    f"{{kind: image, height: {HEIGHT}, width: {WIDTH}, levels: 16, nulls: {{policy: map, to: 2}}, "
    "provenance: {kind: declared}}",
)
SHAPE = property_yaml(
    "shape",
    "string",
    f"{{kind: categories, values: [{', '.join(SHAPES)}], nulls: {{policy: map, to: dot}}, "
    "provenance: {kind: declared}}",
)


def drawn(rows: int, seed: int = 3) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw pictures, shape (rows, HEIGHT * WIDTH), and the number of each one's shape."""
    random = np.random.default_rng(seed)
    forms = np.zeros((3, HEIGHT, WIDTH))
    forms[0, :, 1] = 13
    forms[1, 1:4, 1:3] = 11
    forms[2, 2, 2] = 15
    which = random.integers(0, 3, rows)
    noisy = forms[which] + random.normal(0, 1, (rows, HEIGHT, WIDTH))
    return np.clip(np.rint(noisy), 0, 15).astype(np.uint8).reshape(rows, -1), which


def as_table(levels: NDArray[np.uint8], which: NDArray[np.int64], *, fixed: bool = True) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(levels.reshape(-1)), levels.shape[1])
    kind = lists if fixed else lists.cast(pa.list_(pa.uint8()))
    return pa.table({"picture": kind, "shape": pa.array([SHAPES[each] for each in which])})


@dataclass
class PictureScenario(SyntheticScenario):
    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove}"
    product: str = (
        "{kind: synthetic, generator: class_pictures, options: {label: shape, dimensions: 8, frequencies: 12}}"
    )
    formats: str = "[parquet]"
    release: str = "shapes"
    properties: str = PICTURE + SHAPE

    def snapshot(self, folder: Path, contract: Contract, lattices: Sequence[ValueLattice] = ()) -> PrivateTable:
        pq.write_table(as_table(*drawn(self.rows)), folder / "stays.parquet")
        source = Source(path=folder / "stays.parquet")
        made = ingest(source, contract, folder=folder / "ingest", key=KEY, memory_limit="256MB")
        return PrivateTable(made.path, KEYED_HASH, contract.digest, "stays.parquet")


@dataclass
class TwoPictureScenario(PictureScenario):
    """Two pictures a row, the second of the same form upside down."""

    properties: str = PICTURE + PICTURE.replace("picture", "back", 1) + SHAPE

    def snapshot(self, folder: Path, contract: Contract, lattices: Sequence[ValueLattice] = ()) -> PrivateTable:
        levels, which = drawn(self.rows)
        table = as_table(levels, which)
        table = table.append_column("back", as_table(levels[:, ::-1], which)["picture"])
        pq.write_table(table, folder / "stays.parquet")
        made = ingest(
            Source(path=folder / "stays.parquet"), contract, folder=folder / "ingest", key=KEY, memory_limit="256MB"
        )
        return PrivateTable(made.path, KEYED_HASH, contract.digest, "stays.parquet")
