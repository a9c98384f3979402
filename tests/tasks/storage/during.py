"""Something that happens once while a source is read: stands where progress is shown."""

from __future__ import annotations

from collections.abc import Callable


class During:
    """Does it at the first sign of progress."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def begin(self, name: str) -> During:
        return self

    def end(self, name: str, *, ok: bool) -> None: ...

    def advance(self, fraction: float, doing: str = "") -> None:
        action, self._action = self._action, None
        if action is not None:
            action()
