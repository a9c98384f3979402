"""What copies a version to an address, by the address's kind; packages register more as `sudare.sinks`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from contracts.errors import Finding, SpecRefused
from contracts.plug_ins import PlugInAway, find
from contracts.release.address import Address
from tasks.storage.sinks.version_copy import WholeVersion

GROUP: Final = "sudare.sinks"
_BUILT_IN: Final = {"postgresql": "tasks.storage.sinks.table_copies:TABLES"}


class Copier(Protocol):
    """Writes a version to an address, whole or not at all; the same version again is found whole, and left."""

    def __call__(
        self,
        version: WholeVersion,
        address: Any,
        credentials: str | None,
        *,
        newest: bool,
        advance: Callable[[float], None],
    ) -> str:
        """Return where the copy is; `newest` says whether it may be shown as the newest there."""


@dataclass(frozen=True)
class SinkKind:
    """How versions are copied to one kind of address."""

    copy: Copier


def sink_kind(address: Address) -> SinkKind:
    """Return how versions are copied to an address; only its own module is loaded.

    Raises:
        SpecRefused: nothing is registered for such addresses.
    """
    registered = find(GROUP, _BUILT_IN, address.kind)
    found, allowed = f"an address of kind {address.kind!r}", "one to which versions are copied"
    remedy = "name an address of another kind, or install the package that writes there"
    try:
        if registered is not None:
            kind: SinkKind = registered.load(SinkKind)
            return kind
    except PlugInAway as error:
        found, allowed, remedy = f"{found}, {error.found}", error.allowed, error.remedy
    raise SpecRefused([Finding(str(address), "publish.to", found, allowed, remedy)])
