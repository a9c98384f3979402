"""The engines that count Parquet in the place of DuckDB: packages register each as `sudare.engines`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, WithJsonSchema

from contracts.plug_ins import OF_EXTENSIONS, PlugInAway, absent_extension, find, names
from contracts.reading.scalars import Problem, nearest, refuse, show, word_list

GROUP: Final = "sudare.engines"


@dataclass(frozen=True)
class EngineKind:
    """What a spec has to know of an engine; `tasks.storage.source_engine` says how one takes rows in.

    Args:
        title: its name, as it is written.
    """

    title: str


def _check_registered(name: str) -> str:
    """Refuse an engine that no installed package registers."""
    if find(GROUP, {}, name) is None:
        extension = absent_extension(GROUP, name)
        if extension is not None:
            found = f"{show(name)}, which needs the extension {extension}: it is not installed"
            refuse([Problem(found, "an engine that is installed", "install it, or leave `engine:` out")])
        refuse([Problem(show(name), word_list(names(GROUP)), nearest(name, names(GROUP)))])
    return name


EngineName = Annotated[
    str,
    AfterValidator(_check_registered),
    WithJsonSchema({"type": "string", "minLength": 1, "examples": sorted(OF_EXTENSIONS[GROUP])}),
]


def engine_kind(name: str, base: type[EngineKind]) -> Any:
    """Return the engine of a name that a spec may have.

    Raises:
        PlugInAway: it cannot be loaded, or is not of that base.
    """
    registered = find(GROUP, {}, name)
    if registered is None:
        raise PlugInAway(f"no engine {name!r}", word_list(names(GROUP)))
    return registered.load(base)
