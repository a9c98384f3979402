"""Contribution bounding: k rows a unit, uniform, independent across units, blind to everybody else."""

import hashlib
import hmac

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from contracts.errors import GateBroken, SudareError
from tasks.storage.snapshot.snapshot import bound_contributions, order_units

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
FALSE_ALARM = 1e-9
PAIRS = {pair: number for number, pair in enumerate((a, b) for a in range(5) for b in range(a + 1, 5))}


def unexpected(error: duckdb.Error) -> SudareError:
    return SudareError(type(error).__name__)


def bound(rows: str, *, limit: int, key: bytes = KEY) -> list[tuple[object, int]]:
    """Bound the rows of a query with the columns person and value; return what is left, in order."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE raw AS {rows}")
        bound_contributions(
            connection,
            table="raw",
            unit="person",
            named="person",
            max_rows_per_unit=limit,
            key=key,
            where="people.csv",
            explain=unexpected,
        )
        return connection.execute("SELECT person, value FROM raw").fetchall()


def crowd(units: int, *, order: str = "r, u") -> str:
    """Units with five rows each; `value` is the place of the row among those of its unit."""
    return f"SELECT 'u' || u AS person, r AS value FROM range({units}) a(u), range(5) b(r) ORDER BY {order}"


def chosen_pairs(units: int) -> NDArray[np.int64]:
    """Number the pair of rows that each unit keeps when it may keep two of its five."""
    places: dict[int, list[int]] = {}
    for person, value in bound(crowd(units), limit=2):
        places.setdefault(int(str(person)[1:]), []).append(value)
    return np.array([PAIRS[tuple(places[unit])] for unit in range(units)])


def p_value(counts: NDArray[np.int64]) -> float:
    """Chi-square of counts that should all be alike."""
    expected = counts.sum() / counts.size
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


@pytest.fixture(scope="module")
def pairs() -> NDArray[np.int64]:
    return chosen_pairs(40_000)


@pytest.mark.long
@pytest.mark.stat
def test_each_subset_of_a_units_rows_is_equally_likely(pairs: NDArray[np.int64]):
    """Chi-square over the 10 pairs, n = 40,000 units; false-alarm rate 1e-9 over the choice of the key."""
    assert p_value(np.bincount(pairs, minlength=10)) > FALSE_ALARM


@pytest.mark.stat
def test_units_choose_independently_of_each_other(pairs: NDArray[np.int64]):
    """Chi-square over the pairs of two neighbours, 100 cells, n = 20,000; false-alarm rate 1e-9 over the key."""
    assert p_value(np.bincount(10 * pairs[::2] + pairs[1::2], minlength=100)) > FALSE_ALARM


@pytest.mark.stat
def test_the_statistics_notice_a_biased_choice_and_a_shared_one(pairs: NDArray[np.int64]):
    """n = 40,000 and 20,000, threshold 1e-9. One pair a quarter more likely is missed with probability below 1e-12
    (noncentral chi-square, 9 degrees of freedom, noncentrality 214); a choice shared by neighbours, never."""
    weights = np.full(10, 0.1)
    weights[0] = 0.125
    biased = np.random.default_rng(1).choice(10, size=40_000, p=weights / weights.sum())
    assert p_value(np.bincount(biased, minlength=10)) < FALSE_ALARM
    assert p_value(np.bincount(11 * pairs[::2], minlength=100)) < FALSE_ALARM


def test_deleting_one_units_rows_leaves_every_other_choice_as_it_was():
    everybody = bound(crowd(500), limit=2)
    for gone in ("u0", "u250", "u499"):
        without = bound(f"SELECT * FROM ({crowd(500)}) WHERE person <> '{gone}'", limit=2)
        assert without == [row for row in everybody if row[0] != gone]


def test_rows_of_others_in_between_change_no_choice():
    """The same rows of each unit are chosen however the units' rows are interleaved in the file."""
    assert sorted(bound(crowd(500), limit=2)) == sorted(bound(crowd(500, order="u, r"), limit=2))


def test_the_rows_that_stay_are_those_with_the_smallest_draws():
    """A second derivation of the choice, with Python's hashlib and hmac."""
    outer, inner = (
        hmac.digest(KEY, f"sudare snapshot: contribution bounding: {part}".encode(), "sha256").hex().encode()
        for part in ("outer", "inner")
    )

    def draw(person: str, ordinal: int) -> str:
        inside = hashlib.sha256(inner + f"{ordinal}:{person}".encode()).hexdigest()
        return hashlib.sha256(outer + inside.encode()).hexdigest()

    expected = []
    for person in ("u0", "u1", "u2"):
        smallest = sorted(range(1, 6), key=lambda ordinal: draw(person, ordinal))[:2]
        expected += [(person, ordinal - 1) for ordinal in sorted(smallest)]
    assert bound(crowd(3, order="u, r"), limit=2) == expected


def test_the_choice_follows_the_key():
    assert bound(crowd(50), limit=2) == bound(crowd(50), limit=2)
    assert bound(crowd(50), limit=2) != bound(crowd(50), limit=2, key=OTHER_KEY)


def test_units_within_the_bound_keep_all_their_rows_in_order():
    rows = "SELECT 'u' || i % 7 AS person, i AS value FROM range(70) t(i)"
    assert [value for _, value in bound(rows, limit=10)] == list(range(70))


def test_ids_of_other_types_are_bounded_too():
    rows = "SELECT i % 2 AS person, i AS value FROM range(10) t(i)"
    kept = bound(rows, limit=3)
    assert sorted(person for person, _ in kept) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("nobody", ["NULL", "''", "'  '"])
def test_a_row_without_an_id_breaks_the_gate(nobody: str):
    with pytest.raises(GateBroken) as raised:
        bound(f"SELECT 'u1' AS person, 7771 AS value UNION ALL SELECT {nobody}, 7772", limit=2)
    message = str(raised.value)
    assert "people.csv: column 'person'" in message
    assert "an id in every row" in message
    assert "777" not in message
    assert raised.value.exit_code == 3


def ordered(rows: str, *, limit: int = 5, key: bytes = KEY) -> list[tuple[object, int, int]]:
    """Bound the rows of a query as above and put each unit's into order; return them with their places, in order."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE raw AS {rows}")
        terms = {"table": "raw", "unit": "person", "named": "person", "key": key, "explain": unexpected}
        bound_contributions(connection, max_rows_per_unit=limit, where="people.csv", **terms)  # type: ignore[arg-type]
        relation = order_units(connection, **terms)  # type: ignore[arg-type]
        found = connection.execute(f"SELECT * FROM {relation}").fetchall()
        assert [row[:2] for row in found] == connection.execute("SELECT person, value FROM raw").fetchall()
    return found


def test_every_unit_has_places_from_one_on_beside_its_own_rows():
    """After some rows of each unit were dropped: the relation has the rows of `raw` in their order."""
    places: dict[object, list[int]] = {}
    for person, _, place in ordered(crowd(3000), limit=4):
        places.setdefault(person, []).append(place)
    assert len(places) == 3000
    assert all(sorted(each) == [1, 2, 3, 4] for each in places.values())


def test_no_value_and_no_other_unit_moves_a_row():
    """Neither other values nor the absence of a unit, nor how units are interleaved."""
    everybody = ordered(crowd(500), limit=4)
    other = [(person, -value, place) for person, value, place in everybody]
    assert ordered(f"SELECT person, -value AS value FROM ({crowd(500)})", limit=4) == other
    without = ordered(f"SELECT * FROM ({crowd(500)}) WHERE person <> 'u250'", limit=4)
    assert without == [row for row in everybody if row[0] != "u250"]
    assert sorted(ordered(crowd(500, order="u, r"), limit=4)) == sorted(everybody)
    assert ordered(crowd(500), limit=4, key=OTHER_KEY) != everybody


@pytest.mark.long
@pytest.mark.stat
def test_each_order_is_equally_likely_whichever_rows_were_kept(pairs: NDArray[np.int64]):
    """Chi-square over 10 kept pairs in 2 orders, n = 40,000 units; false-alarm rate 1e-9 over the choice of the key.
    An order that is that of the choice's own draws, or of the source, has one of each pair's two orders alone."""
    first = np.full(40_000, -1)
    for person, value, place in ordered(crowd(40_000), limit=2):
        if place == 1:
            first[int(str(person)[1:])] = value
    lower = np.array([pair[0] for pair in PAIRS])[pairs]
    assert p_value(np.bincount(2 * pairs + (first == lower), minlength=20)) > FALSE_ALARM
    assert p_value(np.bincount(2 * pairs, minlength=20)) < FALSE_ALARM
