"""The kinds of addresses by their schemes: those below, and those that packages register as `sudare.addresses`."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from contracts.plug_ins import PlugInAway, find, others
from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import Address

GROUP: Final = "sudare.addresses"
_POSTGRES: Final = "contracts.release.postgres_address:PostgresAddress"
_S3: Final = "contracts.release.s3_address:S3Address"
_STORES: Final = ("s3", "s3+https", "s3+http")
_SCHEMES: Final = {
    **dict.fromkeys(("postgresql", "postgres"), _POSTGRES),
    **dict.fromkeys(_STORES, _S3),
    **dict.fromkeys(
        ("delta", *(f"delta+{store}" for store in _STORES)), "contracts.release.lake_address:DeltaAddress"
    ),
    **dict.fromkeys(
        ("iceberg+glue", "iceberg+glue+https", "iceberg+glue+http"), "contracts.release.glue_address:GlueAddress"
    ),
    **dict.fromkeys(("iceberg+sqlite", "iceberg+postgresql"), "contracts.release.catalogue_address:CatalogueAddress"),
    **dict.fromkeys(
        ("iceberg", *(f"iceberg+{store}" for store in _STORES)), "contracts.release.lake_address:IcebergAddress"
    ),
}
_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "postgresql+psycopg": "postgresql", "https": "s3+https"}
_ALLOWED: Final = (
    "postgresql://HOST/DATABASE, s3://BUCKET/KEY or s3+https:// before HOST/BUCKET/KEY, "
    "delta:///FOLDER, iceberg:///FOLDER, or delta+ and iceberg+ before an s3 address"
)


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
    better = _ALIASES.get(scheme)
    allowed = ", ".join([_ALLOWED, *(f"{other}://..." for other in others(GROUP, _SCHEMES))])
    remedy = f"write {better}://" if better else "copy the table to a file, or install the package that reads it"
    refuse([Problem(f"an address that begins with {show(scheme + '://')}", allowed, remedy)])


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
