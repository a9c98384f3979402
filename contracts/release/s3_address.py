"""The address of objects of an S3-compatible store.

s3://BUCKET/KEY                               Amazon S3
s3+https://HOST[:PORT]/BUCKET/KEY             another store that speaks S3; s3+http on this machine only
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from contracts.reading.scalars import Problem, refuse
from contracts.release.address import CONTROL, Address, bracketed, host_and_port, shown
from contracts.release.file_names import DATABASES, format_of_name

_PORTS: Final = {"https": 443, "http": 80}
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_AMAZON: Final = re.compile(r"(.*\.)?(amazonaws\.com(\.cn)?|api\.aws)")


@dataclass(frozen=True)
class S3Address(Address):
    """An object of an S3-compatible store, or what lies below a prefix of keys.

    Args:
        endpoint: scheme, host and port of the store; None for Amazon S3.
        bucket: the bucket.
        key: the key of one object, or a prefix without a slash at its end; exact, letter by letter.
    """

    kind: ClassVar[str] = "s3"
    package: ClassVar[tuple[str, str] | None] = ("boto3", "s3")

    endpoint: str | None
    bucket: str
    key: str

    def __str__(self) -> str:
        """The canonical name."""
        start = "s3://" if self.endpoint is None else f"s3+{self.endpoint}/"
        return f"{start}{self.bucket}/{self.key}"

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> S3Address:
        """Read the address of an object, or of a prefix of keys."""
        endpoint = None
        if inner := scheme.partition("+")[2]:
            authority, _, rest = rest.partition("/")
            endpoint = store_endpoint("s3", inner, authority, written)
        bucket, _, key = rest.partition("/")
        if not _BUCKET.fullmatch(bucket):
            allowed = "a bucket of 3 to 63 lower-case letters, digits, dots and hyphens"
            refuse([Problem(f"another bucket in {shown(written)}", allowed, "write s3://BUCKET/KEY")])
        key = key.rstrip("/")
        if CONTROL.search(key) or key.startswith("/"):
            refuse([Problem("a key with control characters or a slash in front", "a key as the store lists it")])
        return cls(endpoint, bucket, key)

    def table_format(self, files: str | None) -> str | None:
        """Return the format of the objects, by the suffix of the key where the spec does not say."""
        return files or format_of_name(self.key)

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """A prefix of keys keeps the slash that tells it from an object of that name."""
        return f"{self}/" if folder else str(self)

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse a whole bucket, and files of databases."""
        if not self.key:
            return Problem("a whole bucket", "a key, or a prefix of keys, in it", "write s3://BUCKET/KEY", ("path",))
        form = self.table_format(files)
        remedy = "copy the file here, or store the table as Parquet"
        found = f"a {form} file at an address"
        return Problem(found, "Parquet and CSV at an address", remedy, ("path",)) if form in DATABASES else None


def store_endpoint(kind: str, scheme: str, authority: str, written: str) -> str:
    """Read HOST[:PORT] of a service that is not Amazon's; return scheme, host and port in their one spelling.

    Args:
        kind: what an address of Amazon's own service begins with, such as `s3`.
        scheme: `https`, or `http` for this machine.
        authority: what stands before the first slash.
        written: the whole address.
    """
    host, port = host_and_port(authority, _PORTS[scheme], written)
    if scheme == "http" and host != "localhost":
        remedy = f"write {kind}+https://: rows and keys would travel in clear text"
        allowed = f"{kind}+https://, or {kind}+http:// to localhost"
        refuse([Problem(f"{kind}+http:// to another machine", allowed, remedy)])
    if _AMAZON.fullmatch(host):
        remedy = "write s3://BUCKET/KEY; the region comes from the environment"
        found = "an endpoint of Amazon S3, a second name of each table there"
        if kind != "s3":
            found, remedy = "an endpoint of Amazon's, a second name of each table there", f"write {kind}://"
        refuse([Problem(found, f"{kind}://", remedy)])
    ending = "" if port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{bracketed(host)}{ending}"
