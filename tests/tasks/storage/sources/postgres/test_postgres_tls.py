"""PostgreSQL over TLS, source and ledger: the authority that is named is believed, another one is refused."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from benchmarks._periodic_place import DAYS, SPEC, make_periodic
from benchmarks.orchestration import release_plainly
from contracts.errors import SourceUnreadable
from contracts.periods.time_blocks import time_block
from contracts.release.address import PostgresAddress
from contracts.release.spec import load_spec
from deploy.postgres_server import find_binaries, postgres_server
from privacy.ledger.entries import LedgerUnavailable
from privacy.ledger.ledger import Ledger
from tasks.storage.sources.postgres.connection import connected
from tests.tasks.federation.certificates import loopback_certificates

SECRET = "hunter2-Xq7zz"

pytestmark = pytest.mark.services


@dataclass(frozen=True)
class Encrypted:
    """A server that takes TLS alone; the certificate of its authority, and that of another one."""

    port: int
    authority: Path
    another: Path

    def ledger(self, authority: Path, *, host: str = "localhost", mode: str = "verify-full") -> str:
        options = f"sslmode={mode}&sslrootcert={quote(str(authority), safe='/')}"
        return f"postgresql://keeper:{SECRET}@{host}:{self.port}/postgres?{options}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    try:
        find_binaries()
    except RuntimeError as none:
        pytest.skip(str(none))
    own, other = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("other")
    made, another = loopback_certificates(own, name="localhost"), loopback_certificates(other)
    with postgres_server(
        "keeper", SECRET, own / "postgres.log", tls=(own / "server.pem", own / "server.key")
    ) as port:
        with psycopg.connect(f"postgresql://keeper:{SECRET}@127.0.0.1:{port}/postgres") as database:
            database.execute("CREATE TABLE visits (ward text, day date)")
            row = "SELECT chr(97 + i % 3), DATE '2024-01-01' + i % 80 FROM generate_series(1, 200) AS t(i)"
            database.execute(f"INSERT INTO visits {row}".encode())
        yield Encrypted(port, made.authority, another.authority)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_CREDENTIALS_TOWN", json.dumps({"user": "keeper", "password": SECRET}))


def test_source_and_ledger_are_used_over_a_connection_that_is_checked(
    server: Encrypted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One release, rows and charge in one server that takes nothing but TLS."""
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(server.authority))
    table = f"{{path: 'postgresql://localhost:{server.port}/postgres', table: visits, credentials: town,"
    spec = SPEC.replace("{path: visits.csv,", table)
    place = make_periodic(tmp_path / "place", ledger_url=server.ledger(server.authority), spec=spec)
    with closing(place.ledger()) as ledger:
        ledger.bind_source(load_spec(place.spec, "2024Q1").source.name, "patients", time_block(DAYS), by="day")
    release_plainly(place.spec, place.workspace.root, period="2024Q1")
    assert place.charges() == {"visits-2024-Q1": 1}
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "sudare.toml"]
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("wrong", ["another authority", "another name", "no such file"])
def test_a_source_whose_certificate_does_not_hold_is_refused(
    server: Encrypted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
):
    """It is said what is wrong, without user and password; `require` alone believes any certificate."""
    authority = {"another authority": server.another, "another name": server.authority}.get(wrong, tmp_path / "none")
    address = PostgresAddress("127.0.0.1", server.port, "postgres")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(authority))
    with pytest.raises(SourceUnreadable, match="a server whose certificate cannot be checked") as refused:
        connected(address, "town", "there")
    assert refused.value.__context__ is None
    assert "PGSSLROOTCERT" in str(refused.value)
    assert not any(each in str(refused.value) for each in (SECRET, "keeper", str(authority)))
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.delenv("PGSSLROOTCERT")
    with closing(connected(address, "town", "there")) as connection:
        [encrypted] = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert encrypted == (True,)


@pytest.mark.parametrize("wrong", ["another authority", "another name", "no TLS"])
def test_a_ledger_whose_certificate_does_not_hold_is_not_used(server: Encrypted, tmp_path: Path, wrong: str):
    """One line says what is wrong, without the password."""
    urls = {
        "another authority": server.ledger(server.another),
        "another name": server.ledger(server.authority, host="127.0.0.1"),
        "no TLS": server.ledger(server.authority, host="127.0.0.1", mode="disable"),
    }
    with pytest.raises(
        LedgerUnavailable, match=r"SSL error.*sslrootcert|not match host.*sslrootcert|no encryption"
    ) as e:
        Ledger(urls[wrong], draws=tmp_path / "draws")
    assert len(str(e.value).splitlines()) == 1
    assert SECRET not in str(e.value)
