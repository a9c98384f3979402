"""What may not be declared public: whatever the ledger has bound to people, under whichever name it knows it."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks._periodic_place import DAYS, Periodic, make_periodic
from console.main import execute
from contracts.errors import Refused
from flows.evaluation.evaluate import file_source
from tasks.evaluation.public_rows import refuse_confidential


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Periodic:
    """Bind a file and a folder by a column of days, and a folder and a table of a database as they are."""
    made = make_periodic(tmp_path_factory.mktemp("bound"))
    for source, by in (("divided", "day"), ("whole", None), ("clinic.duckdb::visits", None)):
        words = ["budget", "bind", str(made.folder / source), "--population", "patients", "--block", DAYS]
        words += ["--workspace", str(made.workspace.root)] + (["--by", by] if by else [])
        assert execute(words) == 0
    return made


def _ask(place: Periodic, written: str) -> None:
    source = file_source(place.folder / written, option="--holdout", remedy="-")
    with closing(place.ledger()) as ledger:
        refuse_confidential(source.name, ledger.sources())


@pytest.mark.parametrize("written", ["visits.csv", "divided/2024/a.parquet", "whole/a.csv", "whole/b/../c.csv"])
def test_a_source_that_is_bound_is_not_public(place: Periodic, written: str):
    """Nor is one that is bound by a column of days, nor a file of a folder that is."""
    with pytest.raises(Refused, match="a source that the ledger has bound to people"):
        _ask(place, written)


def test_a_file_that_holds_a_bound_table_is_not_public(place: Periodic):
    with pytest.raises(Refused, match="a source that the ledger has bound to people"):
        refuse_confidential(str((place.folder / "clinic.duckdb").resolve()), [_bound(place, "clinic.duckdb")])


@pytest.mark.parametrize("written", ["visits.csv.zst", "divided.parquet", "wholesale/a.csv", "other.csv"])
def test_other_files_may_be_declared_public(place: Periodic, written: str):
    _ask(place, written)


def test_a_copy_of_a_bound_file_is_not_public_under_another_name(place: Periodic):
    """Before any release too; one more byte is another file, of which nothing is known."""
    copy = place.folder / "copy.csv"
    copy.write_bytes((place.folder / "visits.csv").read_bytes())
    with pytest.raises(Refused, match="a copy, byte for byte, of a source"):
        _ask(place, "copy.csv")
    copy.write_bytes((place.folder / "visits.csv").read_bytes() + b"\n")
    _ask(place, "copy.csv")
    copy.unlink()


@pytest.mark.parametrize("made", [shutil.copyfile, os.link])
def test_a_copy_of_a_file_in_a_bound_folder_is_not_public(place: Periodic, made: Callable[[Path, Path], object]):
    copy, bound = place.folder / "copy-of-one.csv", place.folder / "whole" / "a.csv"
    bound.parent.mkdir(exist_ok=True)
    bound.write_text("of,people\n1,2\n")
    made(bound, copy)
    with pytest.raises(Refused, match="a copy, byte for byte, of a source"):
        _ask(place, "copy-of-one.csv")
    copy.unlink()
    shutil.rmtree(bound.parent)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_file_of_a_bound_lake_is_not_public(kind: str):
    with pytest.raises(Refused, match="a source that the ledger has bound to people"):
        refuse_confidential("/lake/people/part-0.parquet", [f"{kind}:///lake/people"])
    refuse_confidential("/lake/others/part-0.parquet", [f"{kind}:///lake/people"])


def _bound(place: Periodic, part: str) -> str:
    with closing(place.ledger()) as ledger:
        return next(name for name in ledger.sources() if part in name)
