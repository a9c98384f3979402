"""Published versions, made once for all tests of verify."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.tasks.storage.postgres_server import PostgresServer
from tests.worlds.tables import first, fourth, second, third
from tests.worlds.versions import Version, Worlds

SCENARIOS = {"town": first, "guild": second, "extract": third, "chosen": fourth}


@pytest.fixture(scope="session")
def versions(worlds: Worlds) -> dict[str, Version]:
    """Pure and simplex; Gaussian, negative l2, CSV, a second version; public total, picked method; chosen lambda."""
    return {name: worlds.published(make()) for name, make in SCENARIOS.items()}


@pytest.fixture
def version(published: Version, tmp_path: Path) -> Version:
    """A copy to spoil of what a module's `published` is."""
    return published.copy(tmp_path / "v")


@pytest.fixture
def guild(versions: dict[str, Version], tmp_path: Path) -> Version:
    return versions["guild"].copy(tmp_path / "v")


@pytest.fixture(scope="session")
def spoilt(versions: dict[str, Version], tmp_path_factory: pytest.TempPathFactory) -> Version:
    """A copy for tests that put back what they changed."""
    return versions["guild"].copy(tmp_path_factory.mktemp("spoilt") / "v")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of our own, behind a socket; its user must be able to enter the folder."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder) / "data")
        yield server
        server.close()
