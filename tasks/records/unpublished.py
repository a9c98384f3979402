"""An object of which only some attributes are published."""

from __future__ import annotations

from typing import Any


class Unpublished(LookupError):
    """The version does not publish what was asked for."""


class Published:
    """An object of which only some attributes are published."""

    def __init__(self, **known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        """Return what is published under a name.

        Raises:
            Unpublished: nothing is.
        """
        known = self.__dict__["_known"]
        if name not in known:
            raise Unpublished(name)
        return known[name]
