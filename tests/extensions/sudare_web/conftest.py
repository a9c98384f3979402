"""What the tests of both share: ways to type commands, a workspace with an account, and a browser."""

from tests.console.conftest import _plain_environment, make_place, place, shared, typed
from tests.worlds.browsers import browser

__all__ = ["_plain_environment", "browser", "make_place", "place", "shared", "typed"]
