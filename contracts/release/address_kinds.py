"""The kinds of addresses by their schemes: PostgreSQL, and those that packages register as `sudare.addresses`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qsl

from contracts.plug_ins import PlugInAway, absent_extension, find, others
from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import Address

GROUP: Final = "sudare.addresses"
_SCHEMES: Final = dict.fromkeys(("postgresql", "postgres"), "contracts.release.postgres_address:PostgresAddress")


def is_address(written: str) -> bool:
    """Say whether a text is meant as an address rather than as a path."""
    return "://" in written


def read_address(written: str) -> Address:
    """Read an address.

    Raises:
        PydanticCustomError: it cannot be read, or holds a user, a password or an option; the message shows neither.
    """
    scheme, _, rest = written.partition("://")
    scheme = scheme.lower()
    kind = _kind_of(scheme)
    _refuse_secrets(kind, rest)
    if kind is not None:
        return kind.read(scheme, rest, written)
    extension = absent_extension(GROUP, scheme)
    if extension is not None:
        found = f"{scheme}://, which needs the extension {extension}, which is not installed"
        refuse([Problem(found, _allowed(), f"install Sudare with {extension}, or copy the table to a file")])
    close = get_close_matches(scheme, [*_SCHEMES, *others(GROUP, _SCHEMES)], 1)
    remedy = f"write {close[0]}://" if close else "copy the table to a file, or install the package that reads it"
    refuse([Problem(f"an address that begins with {show(scheme + '://')}", _allowed(), remedy)])


def _allowed() -> str:
    """Name what an address may begin with; a `+` and another address behind it are the kind's to explain."""
    plain = (f"{scheme}://..." for scheme in others(GROUP, _SCHEMES) if "+" not in scheme)
    return ", ".join(["postgresql://HOST/DATABASE", *plain])


def _kind_of(scheme: str) -> type[Address] | None:
    registered = find(GROUP, _SCHEMES, scheme)
    try:
        kind: type[Address] | None = None if registered is None else registered.load(Address)
    except PlugInAway as error:
        refuse([Problem(f"{scheme}://, {error.found}", error.allowed, error.remedy)])
    return kind


def _refuse_secrets(kind: type[Address] | None, rest: str) -> None:
    """Refuse whatever could be a credential, before anything of the address is shown."""
    remedy = "take it out, change that password, and put the new one into the environment (docs/platform.md)"
    if "@" in rest.partition("/")[0] or (kind is not None and not kind.at_signs and "@" in rest):
        allowed = "an address without user and password: a spec holds no credentials"
        refuse([Problem("a user or a password in an address", allowed, remedy)])
    options = {name.lower() for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    if "?" in rest and not (kind is not None and kind.options and options <= kind.options):
        remedy = "take them out; settings come from the environment, and a password that stood there is to be changed"
        refuse([Problem("options behind a `?` in an address", "an address without options", remedy)])
