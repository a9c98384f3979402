"""A Delta table as a source: its newest version or an earlier one, and what cannot be read of such tables."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from contracts.errors import GateBroken, Refused, SourceUnreadable
from contracts.release.address import read_address
from contracts.release.source import Source, written_source_name
from privacy.private_table import PrivateTable
from tasks.storage.sources.source import source_kind
from tests.tasks.intake import ROWS, make_contract, take_in, write_csv

SCHEMA = ("age", "sex", "wage", "since")


class DeltaTable:
    """A table as the protocol has it, written by hand: Parquet files, and a log of commits and checkpoints."""

    def __init__(self, folder: Path, *, partitioned: tuple[str, ...] = (), **about: Any) -> None:
        self.folder, self.partitioned, self.next = folder, partitioned, 0
        (folder / "_delta_log").mkdir(parents=True)
        fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in SCHEMA]
        self.about = {
            "id": "0f3c",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitioned),
            "configuration": {},
        } | about
        self.protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}

    def add(
        self, *rows: str, name: str, values: Mapping[str, str | None] | None = None, **more: Any
    ) -> dict[str, Any]:
        inside = [column for column in SCHEMA if column not in self.partitioned]
        cells = [dict(zip(SCHEMA, row.split(","), strict=True)) for row in rows]
        columns = {column: pa.array([row[column] or None for row in cells], pa.string()) for column in inside}
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        stated = {"path": quote(name), "size": path.stat().st_size, "partitionValues": dict(values or {})}
        return {"add": {**stated, "modificationTime": 0, "dataChange": True, **more}}

    def commit(self, *actions: dict[str, Any], second: int = 0) -> None:
        first = [{"protocol": self.protocol}, {"metaData": self.about}] if self.next == 0 else []
        said = {"commitInfo": {"timestamp": 1_767_225_600_000 + 1000 * second, "operation": "WRITE"}}
        lines = "\n".join(json.dumps(each) for each in [said, *first, *actions])
        (self.folder / "_delta_log" / f"{self.next:020}.json").write_text(lines)
        self.next += 1

    def checkpoint(self, *adds: dict[str, Any], forget: bool = True) -> None:
        """Write all that holds after the last commit as a checkpoint, and clean the log before it up."""
        texts = pa.map_(pa.string(), pa.string())
        kinds = {
            "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
            "metaData": pa.struct(
                [
                    ("id", pa.string()),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", texts),
                ]
            ),
            "add": pa.struct([("path", pa.string()), ("size", pa.int64()), ("partitionValues", texts)]),
        }
        rows = [{"protocol": self.protocol}, {"metaData": self.about}, *adds]
        columns = {kind: pa.array([row.get(kind) for row in rows], type_) for kind, type_ in kinds.items()}
        log = self.folder / "_delta_log"
        pq.write_table(pa.table(columns), log / f"{self.next - 1:020}.checkpoint.parquet")
        (log / "_last_checkpoint").write_text(json.dumps({"version": self.next - 1, "size": len(rows)}))
        for number in range(self.next if forget else 0):
            (log / f"{number:020}.json").unlink()

    def source(self, asked: str = "", **more: Any) -> Source:
        return Source.model_validate({"path": f"delta://{self.folder}{asked}", **more})


def refused_source(source: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as raised:
        Source.model_validate(source)
    return str(raised.value)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Version 0 has two rows, version 1 two more, and version 2 has replaced the first file by one of its rows."""
    made = DeltaTable(tmp_path / "people")
    made.commit(made.add(*ROWS[:2], name="a.parquet"), second=0)
    made.commit(made.add(*ROWS[2:], name="b.parquet"), second=10)
    made.commit({"remove": {"path": "a.parquet", "dataChange": True}}, made.add(ROWS[1], name="c.parquet"), second=20)
    return made


def taken(source: Source, folder: Path) -> list[tuple[object, ...]]:
    return codes(take_in(source, make_contract(folder), folder / source.path.__class__.__name__))


def codes(table: PrivateTable) -> list[tuple[object, ...]]:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM codes").fetchall())


def expected(folder: Path, *rows: str) -> list[tuple[object, ...]]:
    return taken(write_csv(folder, *rows), folder)


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ("", ROWS[1:]),
        ("?version=2", ROWS[1:]),
        ("?version=1", ROWS),
        ("?version=0", ROWS[:2]),
        ("?at=2026-01-01T00:00:00Z", ROWS[:2]),
        ("?at=2026-01-01T01:00:19%2B01:00", ROWS),
        ("?at=2027-01-01T00:00:00Z", ROWS[1:]),
    ],
)
def test_rows_are_those_of_the_version_that_is_asked_for(
    tmp_path: Path, table: DeltaTable, asked: str, rows: tuple[str, ...]
):
    """Rows that were deleted do not come back, and those of an earlier version do where it is asked for."""
    assert taken(table.source(asked), tmp_path) == expected(tmp_path, *rows)


def test_partitions_are_what_the_log_says_and_not_the_path(tmp_path: Path):
    """Weird values too: a slash, an equals sign, and none."""
    made = DeltaTable(tmp_path / "people", partitioned=("sex", "since"))
    values = ({"sex": "F", "since": "2021-03-01"}, {"sex": "a/b=c%", "since": None})
    made.commit(*(made.add(ROWS[0], name=f"x/{n}.parquet", values=each) for n, each in enumerate(values)))
    row = ROWS[0].split(",")
    assert taken(made.source(), tmp_path) == expected(tmp_path, ROWS[0], f"{row[0]},a/b=c%,{row[2]},")


def test_a_checkpoint_stands_for_the_commits_before_it(tmp_path: Path, table: DeltaTable):
    """Versions after it can be read; those before it have expired once their commits are gone."""
    table.checkpoint(*[table.add(*ROWS[2:], name="b.parquet"), table.add(ROWS[1], name="c.parquet")])
    assert taken(table.source(), tmp_path) == expected(tmp_path, *ROWS[1:])
    table.commit({"remove": {"path": "c.parquet", "dataChange": True}}, second=30)
    assert taken(table.source(), tmp_path) == expected(tmp_path, *ROWS[2:])
    found = refusal(table.source("?version=1"), tmp_path)
    assert found == "found: the version 1, which has expired; allowed: a version that the log still has, from 2 on"
    found = refusal(table.source("?at=2026-01-01T00:00:05Z"), tmp_path)
    assert found.startswith("found: the instant 2026-01-01T00:00:05+00:00")


def refusal(source: Source, folder: Path) -> str:
    with pytest.raises(Refused) as raised:
        take_in(source, make_contract(folder), folder / "refused")
    assert raised.value.exit_code == (3 if isinstance(raised.value, GateBroken) else 2)
    [finding] = raised.value.findings
    assert "parquet" not in finding.found
    return f"found: {finding.found}; allowed: {finding.allowed}"


def test_the_same_version_is_taken_up_and_another_one_read(tmp_path: Path, table: DeltaTable):
    """The version's number is in the fingerprint: an earlier version stays what it is, whatever is written."""
    contract = make_contract(tmp_path)
    first = take_in(table.source(), contract, tmp_path)
    inode = first.path.stat().st_ino
    assert take_in(table.source(), contract, tmp_path) == first
    assert first.path.stat().st_ino == inode
    pinned = take_in(table.source("?version=2"), contract, tmp_path / "pinned")
    table.commit(table.add(ROWS[0], name="d.parquet"))
    assert take_in(table.source(), contract, tmp_path).keyed_hash != first.keyed_hash
    assert take_in(table.source("?version=2"), contract, tmp_path / "pinned") == pinned


def test_a_commit_while_it_is_read_does_no_harm_and_a_file_that_goes_stops_the_run(
    tmp_path: Path, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
):
    from sudare_lakes import lake_version

    brought = lake_version._brought

    def writing(*given: Any) -> Any:
        table.commit(table.add(ROWS[0], name="d.parquet"))
        return brought(*given)

    monkeypatch.setattr(lake_version, "_brought", writing)
    assert taken(table.source(), tmp_path) == expected(tmp_path, *ROWS[1:])

    def cleaning(*given: Any) -> Any:
        parts = brought(*given)
        (table.folder / "c.parquet").unlink()
        return parts

    monkeypatch.setattr(lake_version, "_brought", cleaning)
    with pytest.raises(Refused, match=r"changed while it was read|that cannot be read|no such file|Parquet"):
        take_in(table.source("?version=2"), make_contract(tmp_path), tmp_path / "gone")
    assert not (tmp_path / "gone" / "run" / "snapshot.duckdb").exists()


OUTSIDE = "found: a table with files outside its folder; allowed: files below the table's folder"
UNREADABLE: dict[str, tuple[Any, str]] = {
    "deletion vectors": (
        lambda t: t.commit(t.add(ROWS[0], name="d.parquet", deletionVector={"storageType": "u", "cardinality": 1})),
        "found: a Delta table with deletion vectors; allowed: a table whose files are its rows",
    ),
    "column mapping": (
        lambda t: t.commit({"metaData": t.about | {"configuration": {"delta.columnMapping.mode": "name"}}}),
        "found: a Delta table with column mapping; allowed: a table whose files are its rows",
    ),
    "a feature that nobody knows": (
        lambda t: t.commit({"protocol": {"minReaderVersion": 3, "readerFeatures": ["v2Checkpoint", "riddles"]}}),
        "found: a Delta table with checkpoints of version 2, riddles; allowed: a table whose files are its rows",
    ),
    "a version of the protocol to come": (
        lambda t: t.commit({"protocol": {"minReaderVersion": 4}}),
        "found: a Delta table with reader version 4; allowed: a table whose files are its rows",
    ),
    "files elsewhere": (
        lambda t: t.commit({"add": {"path": "s3://secret/place.parquet", "size": 1, "partitionValues": {}}}),
        OUTSIDE,
    ),
    "files above": (lambda t: t.commit({"add": {"path": "../x.parquet", "size": 1, "partitionValues": {}}}), OUTSIDE),
    "files that are gone": (
        lambda t: (t.folder / "b.parquet").unlink(),
        "found: a version whose files are gone (VACUUM); allowed: a version whose files are all there",
    ),
    "no rows": (
        lambda t: t.commit({"remove": {"path": "b.parquet"}}, {"remove": {"path": "c.parquet"}}),
        "found: a version without a file; allowed: at least one row",
    ),
    "a torn log": (
        lambda t: (t.folder / "_delta_log" / f"{2:020}.json").write_text('{"add": {"pa'),
        "found: a Delta log that cannot be read; allowed: a whole log",
    ),
    "a commit that is missing": (
        lambda t: (t.folder / "_delta_log" / f"{1:020}.json").unlink(),
        "found: the version 2, which has expired; allowed: a version that the log still has, from 0 on",
    ),
    "a column that no file has": (
        lambda t: t.commit({"metaData": t.about | {"schemaString": t.about["schemaString"].replace("wage", "pay")}}),
        "found: not in the files: pay; not in the table: wage; allowed: files with the columns of the table",
    ),
}


GATES = ("deletion vectors", "no rows")
"""What depends on who is in the table: such an end is entered in the journal."""


@pytest.mark.parametrize("case", UNREADABLE)
def test_only_what_the_rows_decide_breaks_a_gate(tmp_path: Path, table: DeltaTable, case: str):
    UNREADABLE[case][0](table)
    with pytest.raises(GateBroken if case in (*GATES, "a column that no file has") else SourceUnreadable):
        take_in(table.source(), make_contract(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("added", "removed"),
    [
        ("a%20b.parquet", "a b.parquet"),
        ("a.parquet", "./a.parquet"),
        ("a.parquet", "{folder}/a.parquet"),
        ("a.parquet", "{scheme}{folder}/a.parquet"),
        ("{folder}/a.parquet", "a.parquet"),
        ("a%20b.parquet", "{folder}/a%20b.parquet"),
        ("a.parquet", "{link}/a.parquet"),
        ("d%3D1/a.parquet", "d=1/a.parquet"),
        ("d=1/a.parquet", "d%3D1/a.parquet"),
    ],
)
def test_a_file_that_was_removed_under_another_spelling_stays_away(
    tmp_path: Path, table: DeltaTable, added: str, removed: str
):
    """Else the people in a rewritten file stand in two rows, and every sensitivity is half of what it must be."""
    (tmp_path / "link").symlink_to(table.folder)
    terms = {"folder": str(table.folder), "link": str(tmp_path / "link"), "scheme": "file" + "://"}
    name = unquote(added.format(**terms)).rpartition(f"{table.folder}/")[2]
    table.commit(table.add(ROWS[0], name=name, path=added.format(**terms)))
    table.commit({"remove": {"path": removed.format(**terms), "dataChange": True}})
    assert taken(table.source(), tmp_path) == expected(tmp_path, *ROWS[1:])


def test_a_file_removed_by_a_path_of_another_place_is_refused(tmp_path: Path, table: DeltaTable):
    """The table was moved, or is mounted twice: whether the file that is here is meant, nobody can say."""
    table.commit({"remove": {"path": "/before/people/b.parquet", "dataChange": True}})
    assert refusal(table.source(), tmp_path).startswith(
        "found: a Delta log that removes a file by a path outside the table's folder"
    )


def test_a_removed_file_that_was_never_in_the_folder_is_no_concern(tmp_path: Path, table: DeltaTable):
    table.commit({"remove": {"path": "s3://elsewhere/a.parquet", "dataChange": True}})
    assert taken(table.source(), tmp_path) == expected(tmp_path, *ROWS[1:])


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_more_than_files_of_rows_is_refused_by_name(tmp_path: Path, table: DeltaTable, case: str):
    change, said = UNREADABLE[case]
    change(table)
    assert refusal(table.source(), tmp_path) == said


def test_columns_of_files_differ_only_by_the_rules_of_folders(tmp_path: Path, table: DeltaTable):
    pq.write_table(pa.table({"age": ["1"], "sex": ["F"], "wage": ["2"]}), table.folder / "d.parquet")
    table.commit({"add": {"path": "d.parquet", "size": 1, "partitionValues": {}}})
    assert refusal(table.source(), tmp_path).startswith(
        "found: other columns than in the first file (missing: since)"
    )


def test_all_spellings_and_versions_of_a_table_are_one_source(tmp_path: Path, table: DeltaTable):
    """The ledger binds people to the table, not to a version."""
    (tmp_path / "link").symlink_to(table.folder)
    name = f"delta://{table.folder}"
    spelled = (name, f"{name}/", f"{name}?version=1", f"{name}?at=2026-01-01T00:00Z", f"delta://{tmp_path}/link")
    assert {written_source_name(each) for each in spelled} == {name}
    assert str(read_address(f"{name}?at=2026-01-01T01:00%2B01:00")) == f"{name}?at=2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("delta://people", "a delta table without a folder"),
        ("delta:///people?version=-1", "the version '-1'"),
        ("delta:///people?at=2026-01-01", "the instant '2026-01-01'"),
        ("delta:///people?version=1&at=2026-01-01T00:00Z", "more than one version"),
        ("delta:///people?token=1", "options behind a `?` in an address"),
    ],
)
def test_addresses_that_cannot_be_read_are_refused(path: str, found: str):
    assert found in refused_source({"path": path})


def test_keys_that_a_table_does_not_take_are_refused(table: DeltaTable):
    path = f"delta://{table.folder}"
    assert "`files` for a delta table" in refused_source({"path": path, "files": "parquet"})
    assert "`table` for a delta file" in refused_source({"path": path, "table": "people"})


def test_the_folder_of_a_table_is_refused_and_the_address_named(tmp_path: Path, table: DeltaTable):
    with pytest.raises(SourceUnreadable, match=r"a Delta table\n[^\n]*\n[^\n]*delta:///FOLDER"):
        take_in(Source(path=table.folder, files="parquet"), make_contract(tmp_path), tmp_path)


def test_a_schedule_sees_when_the_table_was_last_written(tmp_path: Path, table: DeltaTable):
    source = table.source()
    last = source_kind(source.path).last_written  # type: ignore[arg-type]
    assert last is not None
    assert last(source, source.path) == datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)
    gone = Source.model_validate({"path": f"delta://{tmp_path}/nowhere"})
    assert last(gone, gone.path) is None
    assert refusal(gone, tmp_path) == "found: no such folder; allowed: a folder with _delta_log"
