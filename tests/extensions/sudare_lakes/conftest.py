"""A store on loopback, and what tests of steps and of the console share."""

from collections.abc import Iterator

import pytest

from tests.console.conftest import _plain_environment, make_place, place, shared, typed
from tests.extensions.sudare_lakes.object_server import ObjectServer
from tests.tasks.conftest import postgres, versions

__all__ = ["_plain_environment", "make_place", "place", "postgres", "shared", "typed", "versions"]


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    """A store on loopback that speaks S3."""
    server = ObjectServer()
    yield server
    server.close()
