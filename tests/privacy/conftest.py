"""Databases for the ledger's tests: SQLite files, and a real PostgreSQL that the tests start."""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from privacy.accounting.calculus import Calculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.database import Store
from tests.privacy.ledger.ledgers import CALCULI, Place, ledger_with_account
from tests.privacy.ledger.tampering import KEY, SIZE, grow


class Databases:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._template: Path | None = None

    def new(self, *, tables: bool) -> str:
        path = self._folder / f"{next(self._numbers)}.sqlite"
        if tables:
            shutil.copyfile(self._template or self._make_template(), path)
        return f"sqlite:///{path}"

    def copy(self, url: str) -> str:
        path = self._folder / f"{next(self._numbers)}.sqlite"
        shutil.copyfile(str(make_url(url).database), path)
        return f"sqlite:///{path}"

    def drop(self, url: str) -> None:
        Path(str(make_url(url).database)).unlink(missing_ok=True)

    def _make_template(self) -> Path:
        self._template = self._folder / "template.sqlite"
        Store(f"sqlite:///{self._template}").close()
        return self._template


class PostgresDatabases(Databases):
    """Makes databases on a server of our own; they need not outlive the machine, so it does not wait for the disk."""

    def __init__(self, server: str) -> None:
        self._server = make_url(server)
        self._numbers = count()
        self._admin = psycopg.connect(server, autocommit=True)
        self._admin.execute("ALTER SYSTEM SET fsync = off")
        self._admin.execute("SELECT pg_reload_conf()")
        self._prepared = False

    def new(self, *, tables: bool) -> str:
        if tables and not self._prepared:
            self._create("template_ledger", "template1")
            Store(self._url("template_ledger")).close()
            self._prepared = True
        name = f"ledger_{next(self._numbers)}"
        self._create(name, "template_ledger" if tables else "template1")
        return self._url(name)

    def copy(self, url: str) -> str:
        name = f"ledger_{next(self._numbers)}"
        self._create(name, str(make_url(url).database))
        return self._url(name)

    def drop(self, url: str) -> None:
        name = sql.Identifier(str(make_url(url).database))
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def close(self) -> None:
        self._admin.close()

    def _create(self, name: str, template: str) -> None:
        names = (sql.Identifier(name), sql.Identifier(template))
        self._admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))

    def _url(self, name: str) -> str:
        return self._server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    return Databases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[PostgresDatabases]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may warn about the runtime folder of a user who has none
        import pgserver
    with TemporaryDirectory(dir=_quick_folder(), ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        databases = PostgresDatabases(server.get_uri())
        yield databases
        databases.close()
        server.cleanup()


def _quick_folder() -> Path | None:
    """A folder in memory, if there is a roomy one: a new database is three hundred files."""
    folder = Path("/dev/shm")
    roomy = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**30
    return folder if roomy else None


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Each test that uses it, however indirectly, runs on both stores."""
    name = {"sqlite": "sqlite_databases", "postgresql": "postgres_databases"}[request.param]
    made: Databases = request.getfixturevalue(name)
    return made


NewPlace = Callable[..., Place]


@pytest.fixture
def new_place(databases: Databases, tmp_path: Path) -> Iterator[NewPlace]:
    places: list[Place] = []

    def make(*, tables: bool = True) -> Place:
        folder = tmp_path / f"place-{len(places)}"
        folder.mkdir()
        places.append(Place(databases.new(tables=tables), folder))
        return places[-1]

    yield make
    for place in places:
        place.close()
        databases.drop(place.url)


@pytest.fixture
def place(new_place: NewPlace) -> Place:
    return new_place()


@pytest.fixture
def sqlite_place(sqlite_databases: Databases, tmp_path: Path) -> Iterator[Place]:
    made = Place(sqlite_databases.new(tables=True), tmp_path)
    yield made
    made.close()
    sqlite_databases.drop(made.url)


@pytest.fixture(params=CALCULI, ids=lambda calculus: calculus.kind)
def calculus(request: pytest.FixtureRequest) -> Calculus:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def ledger(place: Place, calculus: Calculus) -> Ledger:
    return ledger_with_account(place, calculus)


@pytest.fixture
def grown(place: Place) -> Ledger:
    ledger = grow(place)
    assert ledger.verify(public_key=KEY) == []
    assert len(ledger.journal()) == SIZE
    return ledger


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    made: dict[str, Place] = {}

    def place(name: str) -> Place:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return made.setdefault(name, Place(f"sqlite:///{folder / 'ledger.db'}", folder))

    yield place
    for each in made.values():
        each.close()


@pytest.fixture(scope="session")
def contract() -> Contract:
    return load_contract(Path(__file__).parents[2] / "examples" / "adult" / "adult.odcs.yaml")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Networks as small as those of tests are faster on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
