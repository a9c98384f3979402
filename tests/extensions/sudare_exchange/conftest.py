"""What tests of the console share."""

from tests.console.conftest import _plain_environment, make_place, place, shared, typed

__all__ = ["_plain_environment", "make_place", "place", "shared", "typed"]
