"""`sudare run` from PostgreSQL to an S3 store: whole copies, charges that are told, and no secret anywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sudare_lakes.objects import read_version
from tests.tasks.intake import CONTRACT, HEADER
from tests.tasks.storage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer

pytestmark = pytest.mark.long

SECRET = "hunter2-Xq7zz"
Run = Callable[..., subprocess.CompletedProcess[str]]
PEOPLE = (
    "CREATE TABLE people (id int PRIMARY KEY, age int, sex text, wage float8, since date)",
    "INSERT INTO people SELECT i, i % 90, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, i / 10.0, '2021-01-01' "
    "FROM generate_series(1, 3000) AS t(i)",
)


@pytest.fixture
def run(tmp_path: Path, initialised: tuple[Path, str]) -> Run:
    """Runs `sudare` in a workspace of its own, with credentials in the environment and nowhere else."""
    root = tmp_path / "work"
    shutil.copytree(initialised[0], root)
    held = {
        "SUDARE_CREDENTIALS_TOWN": json.dumps({"user": "postgres", "password": SECRET}),
        "SUDARE_CREDENTIALS_STORE": json.dumps({"access_key_id": "test", "secret_access_key": SECRET}),
    }
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_", "PG"))}

    def sudare(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from console.main import main; main()", *words, "--workspace", str(root)]
        return subprocess.run(command, env={**plain, **held}, capture_output=True, text=True, check=False)

    return sudare


def write_spec(folder: Path, source: str, to: str) -> Path:
    text = CONTRACT.replace("UNIT", "{kind: row, scope: block}").replace("GATES", "[]").replace("IDPROPERTY", "")
    (folder / "people.odcs.yaml").write_text(text)
    spec = folder / "spec.yaml"
    spec.write_text(
        f"release: people\ncontract: people.odcs.yaml\n"
        f"source:\n  path: '{source}'\n  table: people\n  credentials: town\n"
        f"  select: SELECT {HEADER.replace(',', ', ')} FROM source\n"
        "charge: {account: town, epsilon: 1, delta: 0}\n"
        "product: {kind: tables, mechanism: laplace, tables: [[age], [sex]], total: noisy, "
        "refine: {method: simplex}}\n"
        f"publish: {{to: '{to}', credentials: store}}\n"
    )
    return spec


def test_from_a_database_to_a_store_and_what_fails_is_told_with_its_charge(
    tmp_path: Path, run: Run, postgres: PostgresServer, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
):
    """A broken table charges nothing; a store that fails charges once; the next run completes it for nothing."""
    database, bucket = postgres.database(*PEOPLE), object_server.bucket()
    spec = write_spec(tmp_path, postgres.address(database), f"{bucket}/open")
    said = []

    def told(*words: str, code: int = 0) -> str:
        done = run(*words)
        said.append(done.stdout + done.stderr)
        assert done.returncode == code, said[-1]
        return " ".join(said[-1].split())

    opened = ("--population", "people", "--block", "2024", "--unit", "row", "--adjacency", "add_remove")
    cap = ("--calculus", "pure", "--epsilon", "3", "--source", f"{postgres.address(database)}::people")
    told("budget", "open", "town", *opened, *cap)
    postgres.run(database, "ALTER TABLE people RENAME COLUMN wage TO pay")
    assert "charge: nothing was charged" in told("run", str(spec), code=2)
    postgres.run(database, "ALTER TABLE people RENAME COLUMN pay TO wage")
    object_server.heal()
    object_server.fails = lambda number: "before" if number > 3 else None
    away = told("run", str(spec), code=1)
    assert "run again later, which goes on where this stopped" in away
    assert "charge: its charge is spent and the version is entered" in away
    object_server.heal()
    assert not [key for key in object_server.keys(bucket) if key.endswith(("MANIFEST.json", "latest.json"))]
    again = json.loads(run("run", str(spec), "--json").stdout)
    assert (again["repeated"], again["version"], again["copy"]) == (True, 1, f"{bucket}/open/people/v1")
    shown = json.loads(run("budget", "show", "town", "--json").stdout)
    assert json.dumps(shown).count('"2"') >= 1, "epsilon 1 of 3 is spent"
    told("publish", "people", "--to", f"{bucket}/second", "--credentials", "store")
    told("publish", "people", "--to", postgres.address(database), "--credentials", "town")
    monkeypatch.setenv("SUDARE_CREDENTIALS_STORE", json.dumps({"access_key_id": "a", "secret_access_key": SECRET}))
    from contracts.release.address import read_address
    from sudare_lakes.addresses import S3Address

    for prefix in ("open", "second"):
        address = read_address(f"{bucket}/{prefix}")
        assert isinstance(address, S3Address)
        _, folder = read_version(address, "store", "people", None, tmp_path / prefix)
        told("verify", str(folder), "--key", str(tmp_path / "work/.sudare/keys/signing.pub"))
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 50
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    assert not any(SECRET in each for each in said)
    assert SECRET not in run("budget", "history", "--json").stdout
