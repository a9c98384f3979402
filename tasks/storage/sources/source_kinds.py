"""What opens the source that an address names, by the address's kind; packages register more as `sudare.sources`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SourceUnreadable
from contracts.plug_ins import PlugInAway, find
from contracts.release.address import Address
from contracts.release.source import Source
from tasks.storage.sources.origin import Origin

GROUP: Final = "sudare.sources"
_BUILT_IN: Final = {"postgresql": "tasks.storage.sources.postgres.connection:TABLES"}


@dataclass(frozen=True)
class SourceKind:
    """How sources of one kind of address are read.

    Args:
        open: looks at a source, and returns its origin for as long as a block lasts.
        last_written: when a source was last written, None where it is not there; without it nothing waits for one.
    """

    open: Callable[[Source, Any, Contract], AbstractContextManager[Origin]]
    last_written: Callable[[Source, Any], datetime | None] | None = None


def source_kind(address: Address) -> SourceKind:
    """Return how a source at an address is read; only its own module is loaded.

    Raises:
        SourceUnreadable: nothing is registered for such addresses.
    """
    registered = find(GROUP, _BUILT_IN, address.kind)
    found, allowed = f"an address of kind {address.kind!r}", "one that sources have"
    remedy = "name a source of another kind, or install the package that reads this one"
    try:
        if registered is not None:
            kind: SourceKind = registered.load(SourceKind)
            return kind
    except PlugInAway as error:
        found, allowed, remedy = f"{found}, {error.found}", error.allowed, error.remedy
    raise SourceUnreadable([Finding(str(address), "source.path", found, allowed, remedy)])
