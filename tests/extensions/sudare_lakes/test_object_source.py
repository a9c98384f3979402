"""Objects of a local S3 server as a source: the state that was listed, or nothing."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.errors import GateBroken, SourceUnreadable, StoreAway, StoreRefuses, SudareError
from contracts.release.source import Source
from sudare_lakes import object_store
from sudare_lakes.addresses import S3Address
from sudare_lakes.objects import last_written
from tasks.storage import progress
from tests.tasks.intake import HEADER, ROWS, SECRET, make_contract, take_in, write_csv

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer


@pytest.fixture(autouse=True)
def credentials(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")  # only the spec says which store it is
    yield
    object_server.heal()
    progress.watch(None)


def source_at(address: str, **more: str) -> Source:
    return Source.model_validate({"path": address, **more})


def csv_bytes(*rows: str) -> bytes:
    return ("\n".join((HEADER, *rows)) + "\n").encode()


def parquet_bytes(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def codes(folder: Path, source: Source) -> list[tuple[int, ...]]:
    table = take_in(source, make_contract(folder), folder)
    assert [path.name for path in table.path.parent.iterdir()] == ["snapshot.duckdb"], "copies stay nowhere"
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return connection.execute("SELECT * FROM codes").fetchall()


def refusal(folder: Path, source: Source, kind: type[SudareError] = SourceUnreadable) -> str:
    with pytest.raises(kind) as raised:
        take_in(source, make_contract(folder), folder)
    assert raised.value.__context__ is None
    assert SECRET not in str(raised.value)
    assert str(folder) not in str(raised.value)
    assert not list((folder / "run").glob("*"))
    return str(raised.value)


def test_one_object_gets_the_codes_of_the_same_file(tmp_path: Path, object_server: ObjectServer):
    bucket = object_server.bucket()
    object_server.put(f"{bucket}/town/people.csv", csv_bytes(*ROWS))
    (tmp_path / "csv").mkdir()
    found = codes(tmp_path, source_at(f"{bucket}/town/people.csv"))
    assert found == codes(tmp_path / "csv", write_csv(tmp_path, *ROWS))
    select = "SELECT age, 'F' AS sex, wage, since FROM source WHERE sex = 'M'"
    assert codes(tmp_path, source_at(f"{bucket}/town/people.csv", select=select, types={"sex": "text"})) == [
        (1, 0, 2, 0)
    ]


def test_objects_below_a_prefix_are_one_table_with_their_partitions(tmp_path: Path, object_server: ObjectServer):
    """Keys are no paths: doubled slashes and `~` lead nowhere; `..` begins with a dot and is passed over."""
    bucket, rows = object_server.bucket(), {"wage": [10.5], "since": ["2021-03-01"]}
    keys = ("~/age=34/sex=F", "b//age=17/sex=M", "b/%2e/age=5%30/sex=__HIVE_DEFAULT_PARTITION__", "../age=1/sex=F")
    for number, key in enumerate(keys):
        content = parquet_bytes(**{**rows, "wage": [10.5 + number]})
        object_server.put(f"{bucket}/people/{key}/{number}.parquet", content)
    object_server.put(f"{bucket}/people/_SUCCESS", b"")
    object_server.put(f"{bucket}/people-of-elsewhere/x.parquet", b"not ours")
    object_server.put(f"{bucket}/people/", b"")
    found = codes(tmp_path, source_at(f"{bucket}/people/", files="parquet"))
    assert sorted(found) == [(1, 1, 0, 1), (3, 0, 0, 1), (5, 2, 1, 1)]


def test_two_objects_with_the_same_bytes_are_refused(tmp_path: Path, object_server: ObjectServer):
    bucket = object_server.bucket()
    for name in ("1", "2"):
        object_server.put(f"{bucket}/people/{SECRET}{name}.csv", csv_bytes(*ROWS))
    message = refusal(tmp_path, source_at(f"{bucket}/people", files="csv"), GateBroken)
    assert f"{bucket}/people/: file 2 by name: files\n    found: the same bytes as" in message


@pytest.mark.parametrize("path", ["lake/people", "lake/people/1.parquet"])
@pytest.mark.parametrize(
    "mark", ["lake/people/_delta_log/0.json", "lake/_delta_log/0.json", "lake/people/metadata/v1.metadata.json"]
)
def test_objects_that_a_log_tells_more_of_are_no_table(
    tmp_path: Path, object_server: ObjectServer, path: str, mark: str
):
    bucket = object_server.bucket()
    object_server.put(
        f"{bucket}/lake/people/1.parquet", parquet_bytes(age=[1], sex=["F"], wage=[1.0], since=["2021-03-01"])
    )
    source = source_at(f"{bucket}/{path}", files=None if path.endswith("parquet") else "parquet")
    assert codes(tmp_path, source) == [(0, 0, 0, 1)]
    object_server.put(f"{bucket}/{mark}", b"{}")
    kind = "an Iceberg table" if "metadata" in mark else "a Delta table"
    (tmp_path / "other").mkdir()
    message = refusal(tmp_path / "other", source, SourceUnreadable)
    assert f"source.path\n    found: {kind}\n" in message


def test_what_is_wrong_with_an_object_names_its_address(tmp_path: Path, object_server: ObjectServer):
    bucket = object_server.bucket()
    source = source_at(f"{bucket}/people.csv")
    assert "found: no such object" in refusal(tmp_path, source)
    object_server.put(f"{bucket}/people.csv", csv_bytes(ROWS[0], f"{SECRET},F"))
    assert f"{bucket}/people.csv:3: row\n    found: 2 fields" in refusal(tmp_path, source, GateBroken)
    object_server.put(f"{bucket}/people.csv", csv_bytes())
    assert "found: no rows" in refusal(tmp_path, source, GateBroken)
    assert "found: no csv file" in refusal(tmp_path, source_at(f"{bucket}/nothing", files="csv"))
    assert refusal(tmp_path, source_at(f"{bucket}-of-nobody/people.csv"), SudareError)


class Once:
    """Does something when a step says for the first time that it goes on."""

    def __init__(self, action: object) -> None:
        self._action = action

    def begin(self, name: str) -> Once:
        return self

    def end(self, name: str, *, ok: bool) -> None: ...

    def advance(self, fraction: float, doing: str = "") -> None:
        action, self._action = self._action, None
        if callable(action):
            action()


@pytest.mark.parametrize("change", ["rewritten", "removed", "added"])
def test_objects_that_change_meanwhile_are_refused_and_the_next_run_reads_anew(
    tmp_path: Path, object_server: ObjectServer, change: str
):
    bucket = object_server.bucket()
    source = source_at(f"{bucket}/people", files="csv")
    for number in range(3):
        object_server.put(f"{bucket}/people/{number}.csv", csv_bytes(*ROWS[: number + 1]))
    actions = {
        "rewritten": lambda: object_server.put(f"{bucket}/people/2.csv", csv_bytes(ROWS[3], ROWS[3])),
        "removed": lambda: object_server.delete(f"{bucket}/people/2.csv"),
        "added": lambda: object_server.put(f"{bucket}/people/3.csv", csv_bytes(ROWS[3])),
    }
    progress.watch(Once(actions[change]))
    assert "that changed while it was read" in refusal(tmp_path, source)
    progress.watch(None)
    assert len(codes(tmp_path, source)) == {"rewritten": 5, "removed": 3, "added": 7}[change]


def test_a_store_that_fails_now_and_then_is_asked_again(tmp_path: Path, object_server: ObjectServer):
    bucket = object_server.bucket()
    object_server.put(f"{bucket}/people.csv", csv_bytes(*ROWS))
    object_server.heal()
    object_server.fails = lambda number: "before" if number in (1, 3) else None
    assert len(codes(tmp_path, source_at(f"{bucket}/people.csv"))) == 4


def test_a_store_that_keeps_failing_and_one_that_is_away_are_told(
    tmp_path: Path, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_store, "ATTEMPTS", 2)
    bucket = object_server.bucket()
    object_server.put(f"{bucket}/people.csv", csv_bytes(*ROWS))
    object_server.fails = lambda number: "before"
    assert "the store did not look at an object" in refusal(tmp_path, source_at(f"{bucket}/people.csv"), StoreAway)
    away = source_at("s3+http://localhost:1/bucket/people.csv")
    assert "the store did not look at an object" in refusal(tmp_path, away, StoreAway)


def test_missing_and_named_credentials(tmp_path: Path, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch):
    bucket = object_server.bucket()
    object_server.put(f"{bucket}/people.csv", csv_bytes(*ROWS))
    source = source_at(f"{bucket}/people.csv", credentials="town")
    assert "no credentials named 'town'" in refusal(tmp_path, source)
    held = f'{{"access_key_id": "test", "secret_access_key": "{SECRET}", "region": "eu-central-1"}}'
    monkeypatch.setenv("SUDARE_CREDENTIALS_TOWN", held)
    assert len(codes(tmp_path, source)) == 4
    (tmp_path / "second").mkdir()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    message = refusal(tmp_path / "second", source_at(f"{bucket}/people.csv"), StoreRefuses)
    assert "with these credentials" in message


def test_when_a_source_was_last_written_is_what_the_store_says(object_server: ObjectServer):
    """Of the newest object that counts; None before there is one. It is what `sudare watch` goes by."""
    bucket = object_server.bucket()
    whole, one = source_at(f"{bucket}/town", files="csv"), source_at(f"{bucket}/town/people.csv")
    object_server.put(f"{bucket}/town/_SUCCESS", b"")

    def found() -> list[datetime | None]:
        return [last_written(source, cast(S3Address, source.path)) for source in (whole, one)]

    assert found() == [None, None]
    object_server.put(f"{bucket}/town/people.csv", csv_bytes(*ROWS))
    at_first = found()
    assert at_first[0] == at_first[1]
    assert at_first[0] is not None
    assert abs(datetime.now(UTC) - at_first[0]) < timedelta(minutes=5)


def test_objects_are_copied_several_at_a_time(tmp_path: Path, object_server: ObjectServer):
    """Four are asked for before one of them is answered; one by one, none ever would be."""
    bucket = object_server.bucket()
    for number in range(4):
        object_server.put(f"{bucket}/people/{number}.csv", csv_bytes(f"{number},F,10.5,2021-03-01"))
    object_server.heal()
    together = threading.Barrier(4)

    def wait(number: int) -> str | None:
        method, path = object_server.requests[number - 1]
        if method == "GET" and path.endswith(".csv"):
            together.wait(timeout=60)
        return None

    object_server.fails = wait
    try:
        assert len(codes(tmp_path, source_at(f"{bucket}/people/", files="csv"))) == 4
    finally:
        object_server.heal()
