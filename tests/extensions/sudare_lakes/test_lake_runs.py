"""`sudare run` on tables of lakes as a user types it: from the spec to a version that verifies, and back into a lake.

The tables are written by delta-rs and pyiceberg, out of the rows of the Adult example.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from contracts.release.address import read_address
from flows.prefect_runs.server import PrefectServer
from sudare_lakes.addresses import DeltaAddress, IcebergAddress
from sudare_lakes.delta import DeltaTables
from sudare_lakes.iceberg_copies import IcebergTables
from sudare_lakes.lake_copies import read_version
from tests.console.conftest import Place, Said, Typed


@dataclass
class Lake:
    """A table of the example's rows in two commits: all rows but the last thousand, and these."""

    kind: str
    folder: Path
    append: Callable[[pa.Table], object]
    commits: Callable[[], list[tuple[int, datetime]]]
    key: str
    table: Any = None

    @property
    def address(self) -> str:
        return f"{self.kind}://{self.folder}"


def delta(root: Path, rows: pa.Table) -> Lake:
    folder = root / "delta-people"

    def commits() -> list[tuple[int, datetime]]:
        told = sorted((each["version"], each["timestamp"]) for each in DeltaTable(folder).history())
        return [(number, datetime.fromtimestamp(at / 1000, UTC)) for number, at in told]

    return Lake("delta", folder, lambda more: write_deltalake(folder, more, mode="append"), commits, "version")


def iceberg(root: Path, rows: pa.Table) -> Lake:
    folder = root / "iceberg-people"
    catalogue = SqlCatalog("tests", uri=f"sqlite:///{root}/catalogue.db", warehouse=root.as_uri())
    catalogue.create_namespace("here")
    table = catalogue.create_table("here.people", rows.schema, location=folder.as_uri())

    def commits() -> list[tuple[int, datetime]]:
        return [(each.snapshot_id, datetime.fromtimestamp(each.timestamp_ms / 1000, UTC)) for each in table.history()]

    return Lake("iceberg", folder, table.append, commits, "snapshot", table)


@pytest.fixture(scope="module")
def rows(shared: Place) -> pa.Table:
    return pq.read_table(shared.adult / "adult.parquet")


@pytest.fixture(scope="module", params=[delta, iceberg], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, shared: Place, rows: pa.Table) -> Lake:
    """The table, bound to the example's people."""
    made: Lake = request.param(shared.adult, rows)
    made.append(rows.slice(0, rows.num_rows - 1000))
    made.append(rows.slice(rows.num_rows - 1000))
    bound = shared.type("budget", "bind", made.address, "--population", "adults", "--block", "1994")
    assert bound.code == 0, bound.err
    return made


@pytest.fixture
def released(shared: Place, served: PrefectServer, typed: Typed) -> Callable[..., Said]:
    """Write a spec over an address, and run it."""

    def release(name: str, source: str, *options: str, to: str = "releases/") -> Said:
        changes = (
            ("path: adult.parquet", f'path: "{source}"'),
            ("epsilon: 1.0", "epsilon: 0.1"),
            ("to: releases/", f'to: "{to}"'),
        )
        return typed("run", str(shared.spec(name, *changes)), *options, at=shared.workspace)

    return release


def loss(shared: Place, typed: Typed) -> Any:
    return typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json["loss"]


def test_from_a_table_to_a_version_that_verifies_and_the_same_state_costs_nothing(
    shared: Place, lake: Lake, released: Callable[..., Said], typed: Typed, rows: pa.Table
):
    """The newest state, then by its number, then by its instant: one run. The state before is another run."""
    name = f"{lake.kind}-whole"
    first = released(name, lake.address, "--json")
    assert first.code == 0, first.err
    key = str(shared.workspace.public_key_file)
    assert typed("verify", first.json["folder"], "--key", key).code == 0
    spent = loss(shared, typed)
    again = released(name, lake.address, "--json")
    assert (again.code, again.json["repeated"], again.json["version"]) == (0, True, 1)
    assert loss(shared, typed) == spent
    [(before, at), (newest, _)] = lake.commits()[-2:]
    by_number = released(f"{name}-then", f"{lake.address}?{lake.key}={before}", "--json")
    assert (by_number.code, by_number.json["version"]) == (0, 1), by_number.err
    instant = quote(at.isoformat())
    by_instant = released(f"{name}-then", f"{lake.address}?at={instant}", "--json", "--supersede")
    assert by_instant.code == 0, by_instant.err
    assert newest != before


def test_rows_of_the_table_are_those_of_the_file(
    shared: Place, lake: Lake, released: Callable[..., Said], typed: Typed, rows: pa.Table
):
    """`sudare check` sees the same shares; so each row is taken in, and none twice."""
    spec = shared.spec(f"{lake.kind}-check", ("path: adult.parquet", f'path: "{lake.address}"'))
    of_table = typed("check", str(spec), "--json", at=shared.workspace)
    of_file = typed("check", str(shared.spec("file-check")), "--json", at=shared.workspace)
    kept = [
        {name: value for name, value in said.json.items() if name not in ("release", "page")}
        for said in (of_table, of_file)
    ]
    assert kept[0] == kept[1]


def test_what_a_table_cannot_be_read_with_ends_the_run_before_anything_is_charged(
    shared: Place, lake: Lake, released: Callable[..., Said], typed: Typed, rows: pa.Table
):
    """Each is really done to the table. The message names it, and says that nothing was charged."""
    spent, told = loss(shared, typed), {}
    for case, harm in (_of_delta(lake) if lake.kind == "delta" else _of_iceberg(lake)).items():
        address = harm()
        said = released(f"{lake.kind}-refused", address)
        assert said.code in (2, 3), (case, said.err)
        told[case] = " ".join(said.err.split())
    for case, said_ in told.items():
        assert case in said_, said_
        assert "nothing was charged" in said_
        assert str(shared.adult / "adult.parquet") not in said_
    assert loss(shared, typed) == spent


def _of_delta(lake: Lake) -> dict[str, Callable[[], str]]:
    """What delta-rs itself does not write is written into the log as the protocol has it."""
    log = lake.folder / "_delta_log"
    last = max(log.glob("*.json"))
    actions = [json.loads(line) for line in max(log.glob("*0.json")).read_text().splitlines()]
    about = next(each["metaData"] for each in actions if "metaData" in each)
    added = next(json.loads(line)["add"] for line in last.read_text().splitlines() if '"add"' in line)
    number = int(last.stem)

    def committed(action: dict[str, Any]) -> Callable[[], str]:
        def write() -> str:
            (log / f"{number + 1:020}.json").write_text(json.dumps(action))
            return lake.address

        return write

    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 34, "cardinality": 2}
    mapped = {**about["configuration"], "delta.columnMapping.mode": "name"}
    return {
        "deletion vectors": committed({"add": {**added, "deletionVector": vector}}),
        "column mapping": committed({"metaData": {**about, "configuration": mapped}}),
        f"the version {number + 9}": lambda: f"{lake.address}?version={number + 9}",
        "the instant 2001": lambda: f"{lake.address}?at=2001-01-01T00:00:00Z",
    }


def _of_iceberg(lake: Lake) -> dict[str, Callable[[], str]]:
    def expired() -> str:
        first = lake.commits()[0][0]
        lake.table.maintenance.expire_snapshots().by_id(first).commit()
        return f"{lake.address}?snapshot={first}"

    def evolved() -> str:
        from pyiceberg.types import StringType

        with lake.table.update_schema() as update:
            update.add_column("nickname", StringType())
        return lake.address

    def dropped() -> str:
        with lake.table.update_spec() as update:
            update.add_field("sex", IdentityTransform())
        with lake.table.update_spec() as update:
            update.remove_field("sex")
        return lake.address

    return {"which has expired": expired, "not in the files: nickname": evolved, "a dropped partition field": dropped}


def test_a_version_goes_into_a_lake_by_the_spec_and_by_hand(
    shared: Place, served: PrefectServer, released: Callable[..., Said], typed: Typed, tmp_path: Path
):
    """`publish.to` names it; the run says where the copy is; the copy that is read back verifies."""
    to = f"delta://{tmp_path}/open"
    said = released("into-a-lake", str(shared.adult / "adult.parquet"), "--json", to=to)
    assert said.code == 0, said.err
    assert said.json["copy"] == f"{to}/into-a-lake/version?version=0"
    address = read_address(to)
    assert isinstance(address, DeltaAddress)
    read_version(DeltaTables(), address, "into-a-lake", None, tmp_path / "back")
    assert typed("verify", str(tmp_path / "back"), "--key", str(shared.workspace.public_key_file)).code == 0
    again = typed("publish", "into-a-lake", "--to", f"delta://{tmp_path}/elsewhere", at=shared.workspace)
    assert again.code == 0, again.err
    assert DeltaTable(tmp_path / "elsewhere" / "into-a-lake" / "version").version() == 0
    third = typed("publish", "into-a-lake", "--to", f"iceberg://{tmp_path}/third", at=shared.workspace)
    assert third.code == 0, third.err
    place = IcebergAddress.read("iceberg", f"{tmp_path}/third", f"iceberg://{tmp_path}/third")
    read_version(IcebergTables(), place, "into-a-lake", None, tmp_path / "back-again")
    assert typed("verify", str(tmp_path / "back-again"), "--key", str(shared.workspace.public_key_file)).code == 0
