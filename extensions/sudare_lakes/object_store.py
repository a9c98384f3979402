"""An S3-compatible store: listing, reading one state of an object, and writing what nobody wrote before.

A write never replaces anything unseen: `If-None-Match: *` for what must be new, `If-Match` for what moves. Whoever
answers 5xx or not at all is asked again with growing pauses, and then the error is ours: no message of the store and
no credential goes further.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from contracts.errors import Finding, StoreAway, StoreRefuses
from sudare_lakes.addresses import S3Address
from tasks.storage.credentials import credentials_of

ResultT = TypeVar("ResultT")

ATTEMPTS = 5
CHUNK_BYTES: Final = 1 << 20
LARGEST_BYTES: Final = 5 * 10**9
_KEYS: Final = ("access_key_id", "secret_access_key", "session_token", "region")
_DENIED: Final = frozenset(
    {"403", "401", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
)
_ABSENT: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_AWAY: Final = ("SlowDown", "Timeout", "Throttling", "Connect", "Incomplete", "Stream", "SSL", "Proxy")
_TAKEN: Final = frozenset({"412", "PreconditionFailed", "409", "ConditionalRequestConflict"})


@dataclass(frozen=True)
class StoredObject:
    """An object as the store lists it.

    Args:
        key: its key.
        size: in bytes.
        etag: changes when it is written.
        written: when it was last written, by the store's clock.
    """

    key: str
    size: int
    etag: str
    written: datetime


class ObjectStore:
    """A bucket of a store.

    Args:
        address: names the store and the bucket.
        credentials: their name, or None for those that the environment gives any program.
        field: what messages are about, as in "source.path".
    """

    def __init__(self, address: S3Address, credentials: str | None, *, field: str) -> None:
        self.address = address
        self._field = field
        self._client = amazon_client("s3", str(address), address.endpoint, credentials, field=field)

    def list(self, prefix: str) -> list[StoredObject]:
        """List the objects whose keys begin with a prefix, in the order of their keys."""

        def ask() -> list[StoredObject]:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.address.bucket, Prefix=prefix)
            return [
                StoredObject(each["Key"], each["Size"], each["ETag"], each["LastModified"])
                for page in pages
                for each in page.get("Contents", ())
            ]

        return self._call("list", ask)

    def find(self, key: str) -> StoredObject | None:
        """Return an object as the store knows it, or None."""
        try:
            head = self._call(
                "look at an object", lambda: self._client.head_object(Bucket=self.address.bucket, Key=key)
            )
        except _Absent:
            return None
        return StoredObject(key, head["ContentLength"], head["ETag"], head["LastModified"])

    def fetch(self, stored: StoredObject, to: Path, advance: Callable[[int], None] = lambda size: None) -> bool:
        """Copy an object in the state in which it was listed to a file; False where it is gone or another by now."""
        return self._download(stored.key, to, advance, IfMatch=stored.etag) and to.stat().st_size == stored.size

    def download(self, key: str, to: Path) -> bool:
        """Copy an object, as it is now, to a file; False where there is none."""
        return self._download(key, to, lambda size: None)

    def _download(self, key: str, to: Path, advance: Callable[[int], None], **more: str) -> bool:
        def ask() -> None:
            answer = self._client.get_object(Bucket=self.address.bucket, Key=key, **more)
            with to.open("xb") as file:
                for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
                    file.write(chunk)
                    advance(len(chunk))

        try:
            self._call("read an object", ask)
        except (_Absent, _Taken):
            return False
        return True

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Return a small object and its tag, or None."""

        def ask() -> tuple[bytes, str]:
            answer = self._client.get_object(Bucket=self.address.bucket, Key=key)
            return answer["Body"].read(), answer["ETag"]

        try:
            return self._call("read an object", ask)
        except _Absent:
            return None

    def put_new(self, key: str, path: Path) -> None:
        """Write a file as an object that nobody wrote before; one with the same bytes is as good.

        Raises:
            StoreRefuses: the key is taken by other bytes; nothing was changed.
        """
        size, digest = path.stat().st_size, _digest(path)
        if size > LARGEST_BYTES:
            self._refuse(f"a file of {size} bytes", f"at most {LARGEST_BYTES} bytes", "publish it to a folder")
        checksum = base64.b64encode(digest).decode()
        try:
            with path.open("rb") as file:
                self._put(key, file, ContentLength=size, IfNoneMatch="*", ChecksumSHA256=checksum)
            return
        except _Taken:
            pass
        if self._digest_of(key) != digest:
            remedy = "publish to another prefix: another workspace writes here, or somebody changed a version"
            self._refuse("an object of this name with other bytes", "a name that is free", remedy)

    def replace(self, key: str, content: bytes, etag: str | None) -> bool:
        """Write a small object in the place of the one with a tag (None: of none); False if it is another by now."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            self._put(key, content, **condition)
        except (_Taken, _Absent):
            return False
        return True

    def _put(self, key: str, body: Any, **more: Any) -> None:
        self._call(
            "write an object", lambda: self._client.put_object(Bucket=self.address.bucket, Key=key, Body=body, **more)
        )

    def _digest_of(self, key: str) -> bytes | None:
        def ask() -> bytes:
            digest = hashlib.sha256()
            body = self._client.get_object(Bucket=self.address.bucket, Key=key)["Body"]
            for chunk in body.iter_chunks(CHUNK_BYTES):
                digest.update(chunk)
            return digest.digest()

        try:
            return self._call("read an object", ask)
        except _Absent:
            return None

    def _call(self, doing: str, ask: Callable[[], ResultT]) -> ResultT:
        """Ask the store, and replace its errors by ours; the original is not even the context of the new one."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return ask()
        except ClientError as error:
            raised = self._explained(error.response, doing)
        except HTTPClientError:
            raised = self._away(doing)
        except BotoCoreError as error:
            raised = self._explained({"Error": {"Code": type(error).__name__}}, doing)
        raise raised

    def _explained(self, response: Any, doing: str) -> Exception:
        code = str(response.get("Error", {}).get("Code", ""))
        status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        if code == "NoSuchBucket":
            return self._refusal("no such bucket", "an existing bucket", "correct the address")
        if {code, status} & _DENIED or "Credentials" in code or "Token" in code:
            remedy = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the named `credentials:`"
            return self._refusal(
                f"a store that refuses to {doing} with these credentials", "a right to do so", remedy
            )
        if {code, status} & _ABSENT:
            return _Absent()
        if {code, status} & _TAKEN:
            return _Taken()
        if status.startswith("5") or any(sign in code for sign in _AWAY):
            return self._away(doing)
        return self._refusal(
            f"a store that refuses to {doing} ({code[:40]})", "a store that does so", "ask its owner"
        )

    def _away(self, doing: str) -> StoreAway:
        return StoreAway(
            f"{self.address}: the store did not {doing} in {ATTEMPTS} attempts (no answer, or errors of its own). "
            "Nothing half-written is visible there: run again later, which goes on where this stopped."
        )

    def _refuse(self, found: str, allowed: str, remedy: str) -> None:
        raise self._refusal(found, allowed, remedy)

    def _refusal(self, found: str, allowed: str, remedy: str) -> StoreRefuses:
        return StoreRefuses([Finding(str(self.address), self._field, found, allowed, remedy)])


class _Absent(Exception):
    """There is no such object."""


class _Taken(Exception):
    """The object is another than the condition says."""


def amazon_client(
    service: str, where: str, endpoint: str | None, credentials: str | None, *, field: str, region: str | None = None
) -> Any:
    """Make a client of Amazon's; only the address says where the service is, never the environment.

    Args:
        service: what boto3 calls it.
        where: the address, for messages.
        endpoint: scheme, host and port of a service that is not Amazon's own; None for that.
        credentials: their name, or None for those that the environment gives any program.
        field: what messages are about, as in "source.path".
        region: where the service is; None for what the credentials or the environment say.
    Raises:
        StoreRefuses: the package is not installed.
        SourceUnreadable, CredentialsAway: as for `credentials_of`.
    """
    given = credentials_of(credentials, _KEYS, where, field=field)
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        boto3 = None
    if boto3 is None:
        remedy = "install it: pip install 'sudare[s3]'"
        raise StoreRefuses([Finding(where, field, "no package boto3", "the extra `s3`", remedy)])
    named = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
    session = boto3.session.Session(
        **{named.get(key, f"aws_{key}"): value for key, value in given.items() if key != "region"},
        region_name=region or given.get("region"),
    )
    return session.client(
        service,
        endpoint_url=endpoint,
        region_name=session.region_name or "us-east-1",
        config=Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            ignore_configured_endpoint_urls=True,
            s3={"addressing_style": "path" if endpoint else "auto"},
        ),
    )


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
