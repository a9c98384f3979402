"""Errors on a public stand-in, as people type it: what they come to, and which rows are refused."""

from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

BECAUSE = ("--public-because", "an older extract that was published in 1992")


@pytest.fixture
def older(place: Place, tmp_path: Path) -> Path:
    """Other rows of the same columns: every second one of the example."""
    rows = pq.read_table(place.adult / "adult.parquet")
    path = tmp_path / "older.parquet"
    pq.write_table(rows.take(list(range(0, rows.num_rows, 2))), path)
    return path


@pytest.mark.long
@pytest.mark.stat
def test_errors_of_a_stand_in_are_those_of_the_noise_and_nothing_is_charged(place: Place, typed: Typed, older: Path):
    """Unrefined, the mean squared error is the variance of the noise, within a factor of 3.5.

    n is 300 squared Laplace errors at least. The mean lies below 1/3.5 with a probability of at most
    0.87^300 < 1e-18 (Chernoff), and above 3.5 with less than that of one error of 40 standard deviations.
    """
    spec = place.spec("stand-in", ("method: simplex, integers: true", "method: none"))
    with closing(place.workspace.open_ledger()) as ledger:
        before = [state.remaining for state in ledger.accounts()], len(ledger.charges())
    said = typed("plan", str(spec), "--surrogate", str(older), *BECAUSE, "--json", at=place.workspace)
    assert said.code == 0, said.err
    told = said.json["surrogate"]
    assert told["because"] == BECAUSE[1]
    expected = {each["key"].removeprefix("table:"): each["expected_error"] for each in said.json["draws"]}
    cells = sum(each["cells"] for each in told["errors"])
    off = sum(each["cells"] * (each["rmse"] / expected[each["table"]]) ** 2 for each in told["errors"]) / cells
    assert cells * told["releases"] >= 300
    assert 1 / 3.5 < off < 3.5
    assert {each["table"] for each in told["errors"]} >= {"age", "education_x_income"}
    with closing(place.workspace.open_ledger()) as ledger:
        assert ([state.remaining for state in ledger.accounts()], len(ledger.charges())) == before


def test_confidential_rows_are_no_stand_in(place: Place, typed: Typed, older: Path):
    """A file that the ledger has bound, and a stand-in without a reason or without a file."""
    spec = place.spec("confidential")
    bound = typed("plan", str(spec), "--surrogate", str(place.adult / "adult.parquet"), *BECAUSE, at=place.workspace)
    bound.assert_ended(2, "the stand-in: file", "a source that the ledger has bound to people")
    assert "no reason" in typed("plan", str(spec), "--surrogate", str(older), at=place.workspace).err
    assert "no --surrogate" in typed("plan", str(spec), *BECAUSE, at=place.workspace).err


@pytest.mark.long
def test_charged_rows_are_no_stand_in_of_an_edited_spec(place: Place, typed: Typed, tmp_path: Path):
    """A copy under another name is known by its rows, also where the spec has another epsilon."""
    release_plainly(place.spec("charged", ("epsilon: 1.0", "epsilon: 0.3")), place.workspace.root)
    copy = tmp_path / "copy.parquet"
    pq.write_table(pq.read_table(place.adult / "adult.parquet"), copy, compression="gzip")  # other bytes
    edited = place.spec("edited", ("epsilon: 1.0", "epsilon: 0.2"))
    said = typed("plan", str(edited), "--surrogate", str(copy), *BECAUSE, at=place.workspace)
    said.assert_ended(2, "the stand-in: rows", "rows that a release was charged for")


def test_a_product_without_tables_has_no_such_errors(place: Place, typed: Typed, older: Path):
    said = typed(
        "plan", str(place.adult / "statistics.yaml"), "--surrogate", str(older), *BECAUSE, at=place.workspace
    )
    assert said.code == 2
    assert "kind statistics" in said.err
