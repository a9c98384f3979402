"""The parts of the synthetic benchmarks: tables, bins, folds, and a generator scored from beginning to end."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from benchmarks._money_tables import accounts, amounts, loans
from benchmarks._neural_data import credit, pictures
from benchmarks._neural_fit import Kept, Method
from benchmarks._neural_rows import Asked, tables
from benchmarks._neural_tables import Category, Number, Table, equal_bins, folds_of, whole_bins
from benchmarks._private_evolution import noise_multiplier
from benchmarks._stress_tables import KINDS, ROWS, StressTable, causal, numbers_of, parity
from benchmarks._synthetic_frontier import BINS, COLUMNS, normals
from benchmarks._synthetic_stress import Learned
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import DiscreteGaussian
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import mutual_information
from privacy.generators.projection import entering


@pytest.mark.parametrize("column", [whole_bins([0, 1, 5, 20, 99]), equal_bins(-1, 1, 16, whole=False)])
def test_a_made_up_number_lies_in_its_bin(column: Number):
    """Encoding a number that was drawn from a bin gives that bin again; what lies outside is clipped."""
    codes = np.repeat(np.arange(column.size), 200)
    scaled = column.features(codes, np.random.default_rng(1))[:, 0].astype(np.float64)
    low, high = column.lows[0], column.highs[-1]
    drawn = low + scaled * (high - low)
    exact = np.rint(drawn) if column.whole else drawn
    assert ((exact >= column.lows[codes] - 1e-6) & (exact <= column.highs[codes] + 1e-6)).all()
    assert np.mean(column.codes(exact) == codes) > 0.99
    assert (column.codes(np.array([low - 9, high + 9])) == [0, column.size - 1]).all()


def test_folds_share_no_row_and_leave_none_out():
    """Each row is tested once, and never by a generator that has seen it."""
    parts = folds_of(101, 3)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(101))
    assert all(not set(train) & set(test) and len(train) + len(test) == 101 for train, test in parts)


@pytest.mark.long
def test_a_generator_is_fitted_to_training_rows_and_scored_on_the_others(tmp_path: Path):
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
def test_without_noise_the_same_generator_does_at_least_as_well(tmp_path: Path):
    """PGM at an epsilon at which P3GM's plan is all but noise; rows of it say that they have no privacy."""
    rows = tables(Asked(Kept(tmp_path), 2, ("pgm",)), lambda bins: _table())
    found = {row.what: row for row in rows}["small, pgm, AUROC"]
    assert found.measured is not None
    assert found.measured > 0.85
    assert found.settings["epsilon"] is None


def test_what_is_kept_depends_on_the_options(tmp_path: Path):
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


def test_credit_and_pictures_are_read_as_they_are_handed_out(tmp_path: Path):
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


def test_bins_begin_at_one_two_and_five_times_the_powers_of_ten():
    made = amounts(10, 200, zero=True)
    assert made.lows.tolist() == [0, 1, 20, 50, 100]
    assert made.highs.tolist() == [0, 19, 49, 99, 200]
    assert made.codes(np.array([0, 1, 19, 20, 199, 900])).tolist() == [0, 1, 1, 2, 4, 4]
    assert amounts(10, 200, zero=False).lows.tolist() == [0, 20, 50, 100]


@pytest.mark.parametrize(("make", "share", "uneven"), [(loans, 0.12, 5), (accounts, 0.13, 6)])
def test_tables_differ_by_seed_and_have_five_columns_of_money(make: Callable[..., Table], share: float, uneven: int):
    """Amounts are whole and none is negative; the years of `accounts` are in uneven bins too."""
    table = make(1, 4000)
    assert table.labels().mean() == pytest.approx(share, abs=0.04)
    assert (make(1, 4000).codes() == table.codes()).all()
    assert (make(2, 4000).codes() != table.codes()).any()
    layout = table.layout
    by_bins = entering(layout, "auto")
    moved = [name for name in layout.names if by_bins.column(name) is not layout.column(name)]
    assert len(moved) == uneven
    for name in moved:
        assert (np.asarray(table.values[name]) == np.floor(table.values[name])).all()
        assert np.asarray(table.values[name]).min() >= 0


def test_no_marginal_of_a_parity_tells_anything_but_the_whole():
    """Three signs: all triples of the four columns are uniform, and the four together have every second cell empty.

    35,000 rows in 8 cells of a triple: a share's deviation is 0.0018, so that 0.02 is beyond 11 of them.
    """
    codes = parity(3).binned(2).codes
    for triple in combinations(range(4), 3):
        shares = np.bincount(codes[:, triple] @ [4, 2, 1], minlength=8) / ROWS
        assert shares == pytest.approx(np.full(8, 1 / 8), abs=0.02)
    assert (np.bincount(codes @ [8, 4, 2, 1], minlength=16) == 0).sum() == 8


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_of_a_causal_model_is_balanced_and_no_column_tells_it(kind: str):
    """Half of the rows have each label; the best single column predicts it in nine of ten rows at most."""
    table = causal(kind)
    assert np.abs(table.numbers).max() <= 1
    assert table.labels.mean() == pytest.approx(0.5, abs=0.02)
    codes = table.binned(16).codes
    for column in range(codes.shape[1] - 1):
        ones = np.bincount(codes[:, column], weights=codes[:, -1], minlength=16)
        assert np.maximum(ones, np.bincount(codes[:, column], minlength=16) - ones).sum() / ROWS < 0.9


def test_numbers_are_drawn_from_the_bins_that_they_are_coded_in():
    table = parity(2)
    numbers = numbers_of(table.binned(8).codes[:, :-1], 8, seed=1)
    again = StressTable(table.name, numbers, table.labels, table.test_numbers, table.test_labels)
    assert (again.binned(8).codes == table.binned(8).codes).all()


def test_the_noise_of_votes_is_that_of_their_composition():
    """19 votes at (1, 1e-6): by loss distributions of the discrete Gaussian they cost between 0.98 and 1.02."""
    events = [DiscreteGaussian(Fraction(noise_multiplier(19, epsilon=1.0, delta=1e-6) ** 2), (1,))] * 19
    assert pld_epsilon(events, 1e-6) == pytest.approx(1.0, abs=0.02)


def test_a_figure_is_that_of_the_learner_which_does_best():
    assert Learned({"one": [0.6, 0.9], "other": [0.8, 0.8]}, [0.0, 0.0]).best == [0.8, 0.8]


def test_the_normal_columns_are_correlated_densely():
    """Most pairs of the 30 columns share over 0.02 nats; independent ones of as many rows show 0.0056 by chance."""
    table = normals()
    assert table.shape == (BINS,) * COLUMNS
    found = mutual_information(EncodedRows(table.columns, table.shape, table.codes))
    assert np.mean(found[np.triu_indices(COLUMNS, 1)] > 0.02) > 0.5
