"""What is registered under a name: what is built in, and what installed packages add by an entry point.

Nothing is loaded before it is asked for, and a built-in name cannot be taken. The core's commands, generators,
trainers and draws are entry points of its own distribution. The extensions of this repository (`extensions/`)
register what they bring in the same way. Any of them may be deleted; what needs it is refused then by the extension's
name.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import SudareError

# Loaded where packages are looked through: it brings parsers of mail.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OF_EXTENSIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "sudare.codebooks": dict.fromkeys(("dta", "json", "por", "sav", "xml", "zsav"), "sudare_codebooks"),
    "sudare.addresses": dict.fromkeys(
        (
            *(f"{table}{store}" for table in ("", "delta+", "iceberg+") for store in ("s3", "s3+https", "s3+http")),
            *("delta", "iceberg", "iceberg+glue", "iceberg+glue+https", "iceberg+glue+http"),
            *("iceberg+sqlite", "iceberg+postgresql"),
        ),
        "sudare_lakes",
    ),
    "sudare.sources": dict.fromkeys(("delta", "iceberg", "iceberg-catalogue", "iceberg-glue", "s3"), "sudare_lakes"),
    "sudare.sinks": dict.fromkeys(("delta", "iceberg", "s3"), "sudare_lakes"),
    "sudare.commands": {
        "releases.catalog": "sudare_exchange",
        "serve": "sudare_web",
        "studio": "sudare_web",
        "witness": "sudare_keys",
    },
    "sudare.files": dict.fromkeys(("csvw", "registry", "sdmx"), "sudare_exchange"),
    "sudare.observers": dict.fromkeys(("lineage", "telemetry"), "sudare_exchange"),
    "sudare.engines": {"spark": "sudare_engines"},
    "sudare.languages": {"ja": "sudare_japanese"},
    "sudare.key_places": dict.fromkeys(("pkcs11", "securesystemslib"), "sudare_keys"),
    "sudare.settings": {"spark": "sudare_engines"},
    "sudare.witnesses": {"tlog": "sudare_keys"},
}
"""By group and name, the extension of this repository that registers it: for refusals; nothing is loaded by it."""


class PlugInAway(SudareError):
    """What is registered cannot be loaded, or is something else.

    Args:
        found: where it is registered, and what happened.
        allowed: what should be there.
    """

    remedy = "mend or remove the package that registers it"

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(f"{found}; allowed: {allowed}; do: {self.remedy}")
        self.found, self.allowed = found, allowed


@dataclass(frozen=True)
class RegisteredName:
    """One name of a group."""

    point: EntryPoint

    def load(self, base: type) -> Any:
        """Load what is registered: a subclass of a class, or an instance of it.

        Raises:
            PlugInAway: it cannot be loaded, or is neither.
        """
        where = f"registered as {self.point.value!r}"
        try:
            found = self.point.load()
        except (ImportError, AttributeError) as error:
            raise PlugInAway(f"{where} ({type(error).__name__})", "what can be loaded") from error
        if not (issubclass(found, base) if isinstance(found, type) else isinstance(found, base)):
            raise PlugInAway(where, f"a {base.__name__}")
        return found


def find(group: str, built_in: Mapping[str, str], name: str) -> RegisteredName | None:
    """Return what a name of a group stands for; None for an unknown one.

    Args:
        group: the group of entry points.
        built_in: `module:name` by name.
        name: the name; packages are looked through only where it is not built in.
    """
    from importlib.metadata import EntryPoint

    if name in built_in:
        return RegisteredName(EntryPoint(name, built_in[name], group))
    return next(iter(find_all(group, name)), None)


def find_all(group: str, name: str) -> tuple[RegisteredName, ...]:
    """Return everything that packages register under a name of a group, where several may have it."""
    return tuple(RegisteredName(point) for point in registered(group) if point.name == name)


def absent_extension(group: str, name: str) -> str | None:
    """Return the extension that a name would come from, if it is not installed; None in all other cases."""
    packages = (each.point.module.partition(".")[0] for each in find_all(group, name))
    return None if any(map(find_spec, packages)) else OF_EXTENSIONS.get(group, {}).get(name)


def load_place(place: str) -> Any:
    """Return what stands at a place of the tree, `module:name`; only its own modules are loaded."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def others(group: str, built_in: Collection[str]) -> tuple[str, ...]:
    """Return the names that packages add to a group, sorted."""
    return tuple(sorted({point.name for point in registered(group)} - set(built_in)))


def names(group: str) -> tuple[str, ...]:
    """Return the names of a group that packages add, or that an extension would if it were installed; sorted."""
    return tuple(sorted({*others(group, {}), *OF_EXTENSIONS.get(group, {})}))


def registered(group: str) -> tuple[EntryPoint, ...]:
    """Return what installed packages add to a group."""
    return _installed(group, tuple(sys.path))


def core(group: str) -> Mapping[str, str]:
    """Return what the core itself registers in a group, `module:name` by name; no other package's files are read.

    Raises:
        SudareError: sudare is not installed, so that nothing says what it registers.
    """
    return _of_the_core(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _of_the_core(group: str, path: tuple[str, ...]) -> Mapping[str, str]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = distribution("sudare").entry_points.select(group=group)
    except PackageNotFoundError:
        remedy = "install it with pip, from the folder of its pyproject.toml"
        raise SudareError(f"sudare is not installed, only its files are there; do: {remedy}") from None
    return {point.name: point.value for point in points if not point.module.startswith("sudare_")}


@lru_cache(maxsize=64)
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Read the entry points of all packages, once for each search path: hundreds of files."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))
