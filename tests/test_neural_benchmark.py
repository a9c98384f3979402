"""The neural benchmark's own parts: bins, folds, and a generator run and scored from beginning to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks._neural_data import credit, pictures
from benchmarks._neural_fit import Kept, Method
from benchmarks._neural_rows import Asked, tables
from benchmarks._neural_tables import Category, Number, Table, equal_bins, folds_of, whole_bins


@pytest.mark.parametrize("column", [whole_bins([0, 1, 5, 20, 99]), equal_bins(-1, 1, 16, whole=False)])
def test_a_made_up_number_lies_in_its_bin(column: Number) -> None:
    """Encoding a number that was drawn from a bin gives that bin again; what lies outside is clipped."""
    codes = np.repeat(np.arange(column.size), 200)
    scaled = column.features(codes, np.random.default_rng(1))[:, 0].astype(np.float64)
    low, high = column.lows[0], column.highs[-1]
    drawn = low + scaled * (high - low)
    exact = np.rint(drawn) if column.whole else drawn
    assert ((exact >= column.lows[codes] - 1e-6) & (exact <= column.highs[codes] + 1e-6)).all()
    assert np.mean(column.codes(exact) == codes) > 0.99
    assert (column.codes(np.array([low - 9, high + 9])) == [0, column.size - 1]).all()


def test_folds_share_no_row_and_leave_none_out() -> None:
    """Each row is tested once, and never by a generator that has seen it."""
    parts = folds_of(101, 3)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(101))
    assert all(not set(train) & set(test) and len(train) + len(test) == 101 for train, test in parts)


@pytest.mark.long
def test_a_generator_is_fitted_to_training_rows_and_scored_on_the_others(tmp_path: Path) -> None:
    """On a table whose number tells the label, rows made at a large epsilon teach what real ones do; kept is kept."""
    asked = Asked(Kept(tmp_path), 2, ("real", "mst"))
    first = tables(asked, lambda bins: _table())
    found = {row.what: row.measured for row in first}
    real, made = found["small, real, AUROC"], found["small, mst, AUROC"]
    assert real is not None
    assert made is not None
    assert real > 0.9
    assert made > 0.8
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [row.measured for row in tables(asked, lambda bins: _table())] == [row.measured for row in first]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


@pytest.mark.long
def test_without_noise_the_same_generator_does_at_least_as_well(tmp_path: Path) -> None:
    """PGM at an epsilon at which P3GM's plan is all but noise; rows of it say that they have no privacy."""
    rows = tables(Asked(Kept(tmp_path), 2, ("pgm",)), lambda bins: _table())
    found = {row.what: row for row in rows}["small, pgm, AUROC"]
    assert found.measured is not None
    assert found.measured > 0.85
    assert found.settings["epsilon"] is None


def test_what_is_kept_depends_on_the_options(tmp_path: Path) -> None:
    """Rows of one option are not taken for those of another."""
    kept, table = Kept(tmp_path), _table().some(np.arange(300))
    for clip in (0.5, 1.0):
        options = {"label": "label", "rows_about": 300, "labels": "components", "decoder": "linear", "clip": clip}
        kept.made(Method("p3gm", options), table, "all", seed=1)
    assert len(list(tmp_path.glob("*.npz"))) == 2


def _table() -> Table:
    generator = np.random.default_rng(3)
    label = generator.integers(0, 2, 1600)
    number = np.clip(generator.normal(20 + 30 * label, 12), 0, 99)
    columns = {"number": whole_bins([*range(0, 100, 4), 99]), "label": Category(("no", "yes"))}
    return Table("small", columns, {"number": np.rint(number), "label": label}, "label")


def test_credit_and_pictures_are_read_as_they_are_handed_out(tmp_path: Path) -> None:
    """Kaggle's file has quoted names and a quoted class; pictures stand in four arrays, as Fashion-MNIST's do."""
    names = ["Time", *(f"V{place}" for place in range(1, 29)), "Amount", "Class"]
    lines = [",".join(f'"{name}"' for name in names)]
    lines += [",".join([*(f"{row}.5" for _ in names[1:]), f'"{row % 2}"']) for row in range(4)]
    (tmp_path / "creditcard.csv").write_text("\n".join(lines) + "\n")
    table = credit(tmp_path / "creditcard.csv", bins=8)
    assert table.labels().tolist() == [0, 1, 0, 1]
    assert table.codes().shape == (4, 30)
    shapes = {"x_train": (6, 28, 28), "y_train": (6,), "x_test": (2, 28, 28), "y_test": (2,)}
    arrays = {name: np.arange(np.prod(shape)).reshape(shape) % 10 for name, shape in shapes.items()}
    np.savez(tmp_path / "few.npz", **{name: array.astype(np.uint8) for name, array in arrays.items()})
    train, test = pictures(tmp_path / "few.npz", "few")
    assert (len(train), len(test), train.codes().shape[1]) == (6, 2, 28 * 28 + 1)
    features, labels = train.made_up(train.codes(), seed=0)
    assert np.array_equal(features, train.features())
    assert np.array_equal(labels, train.labels())
