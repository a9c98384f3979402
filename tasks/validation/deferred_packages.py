"""Packages that Great Expectations imports with itself and no check of ours uses: pictures, and statistical tests.

They are a quarter of the time to import it. A module in their place loads them at the first use of one of their
names, so nothing is missing for anybody. Python's own `LazyLoader` loads a package when it is merely imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

UNUSED: Final = ("altair", "scipy.stats")


class DeferredPackage(ModuleType):
    """Stands for a package until a name of it is used; then the package takes its place in `sys.modules`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # who looks modules through asks for __file__ and the like
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def deferred() -> Iterator[None]:
    """Let the block import packages without loading them; one that is loaded, or not installed, is left alone."""
    for name in UNUSED:
        if name in sys.modules or find_spec(name) is None:
            continue
        standing = sys.modules[name] = DeferredPackage(name)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, standing)
    yield
