"""A file is taken for exactly ours only if every byte of it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.records.files.tidy_tables import Tidy
from tasks.verification.data_files.rewriting import exact_values

MARKS = {"sudare_release": "wards"}
LABELS = {"ward": ("north", "south", "(null)"), "sex": ("F", "M")}
CLIQUE = ("ward", "sex")


@dataclass(frozen=True)
class Axis:
    """The labels of a column."""

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.labels)


class Cells:
    """The cells of two columns."""

    def column(self, name: str) -> Axis:
        return Axis(LABELS[name])

    def shape(self, clique: Any) -> tuple[int, ...]:
        return tuple(len(LABELS[name]) for name in clique)

    def cells(self, clique: Any) -> int:
        return int(np.prod(self.shape(clique)))


NOISY = np.array([[4, -1], [0, 7], [2, 3]])


def written(folder: Path, values: Any = NOISY) -> Path:
    tidy = Tidy(Cells(), CLIQUE, {"noisy": np.asarray(values)})  # type: ignore[arg-type]
    tidy.write(folder, "measurements/a.parquet", draw="a", marks=MARKS)
    return folder / "measurements" / "a.parquet"


def found(path: Path) -> Any:
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    terms: dict[str, Any] = {"cells": Cells(), "clique": CLIQUE, "values": {"noisy": "int64"}, "marks": MARKS}
    return exact_values(data, sha256=digest, **terms)


def test_a_file_of_ours_gives_its_values(tmp_path: Path) -> None:
    """The digest of what would be written is that of what was written, and the values come back."""
    path = written(tmp_path)
    values = found(path)
    assert values is not None
    assert values["noisy"].tolist() == NOISY.reshape(-1).tolist()
    tidy = Tidy(Cells(), CLIQUE, {"noisy": NOISY})  # type: ignore[arg-type]
    assert tidy.digest(MARKS) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert tidy.digest({}) != tidy.digest(MARKS)


def _again(path: Path, change: Callable[[Any], Any], **options: Any) -> None:
    pq.write_table(change(pq.read_table(path)), path, **options)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: _again(path, lambda table: table, compression="snappy"),
        lambda path: _again(path, lambda table: table.replace_schema_metadata({"sudare_release": "other"})),
        lambda path: _again(path, lambda table: table.slice(0, 5)),
        lambda path: _again(path, lambda table: table.take([1, 0, 2, 3, 4, 5])),
        lambda path: _again(path, lambda table: table.rename_columns(["ward", "sex", "count"])),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    ],
    ids=["compression", "marks", "rows", "order", "names", "cut", "longer"],
)
def test_any_other_file_is_looked_at_in_another_way(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Another byte anywhere, and it is no file of ours: None, and no error."""
    path = written(tmp_path)
    change(path)
    assert found(path) is None
