"""Copies of published versions to an S3 server that fails at any request."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from botocore.loaders import JSONFileLoader, Loader

from contracts.errors import StoreAway, StoreRefuses, SudareError
from contracts.release.address import read_address
from sudare_lakes import object_store
from sudare_lakes.addresses import S3Address
from sudare_lakes.objects import read_version
from tasks.storage.sinks.copies import copy_version
from tasks.verify import verify
from tests.worlds.versions import Version

if TYPE_CHECKING:
    from tests.extensions.sudare_lakes.object_server import ObjectServer

from tests.tasks.storage.sinks.test_copies import contents, whole

SECRET = "Xq7-secret"


@pytest.fixture(autouse=True)
def credentials(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    yield
    object_server.heal()


@pytest.fixture(autouse=True, scope="module")
def described_once() -> Iterator[None]:
    """Each session of botocore looks for descriptions of services and reads them anew: once here."""
    read, listed = cache(JSONFileLoader().load_file), cache(Loader().list_available_services)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda loader, path: read(path))
        patch.setattr(Loader, "list_available_services", lambda loader, type_name: listed(type_name))
        yield


def s3(address: str) -> S3Address:
    read = read_address(address)
    assert isinstance(read, S3Address)
    return read


def seen(address: str, to: Path, number: int | None) -> Path | None:
    """What a reader gets: a whole version, or nothing."""
    try:
        return read_version(s3(address), None, "town", number, to)[1]
    except StoreRefuses as refused:
        said = str(refused)
    assert "no such version" in said
    assert not to.exists()
    return None


def test_a_copy_is_whole_verifies_and_is_the_latest(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    version, to = versions["town"], f"{object_server.bucket()}/releases"
    assert copy_version(whole(version), to, None, newest=True) == f"{to}/town/v1"
    number, folder = read_version(s3(to), None, "town", None, tmp_path / "copy")
    assert number == 1
    assert contents(folder) == contents(version.folder)
    assert verify(folder, public_key=version.key).ok
    requests = [path for method, path in object_server.requests if method == "PUT"]
    assert [path.rpartition("/")[2] for path in requests[-3:]] == ["PROOF.json", "MANIFEST.json", "latest.json"]


@pytest.mark.parametrize("how", ["before", "after"])
def test_at_whatever_request_a_writer_is_cut_off_no_reader_sees_a_part(
    tmp_path: Path,
    versions: dict[str, Version],
    object_server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
):
    """Every n: all requests from the n-th on fail. Readers see nothing or all of it; the next attempt goes on."""
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    version = whole(versions["town"])
    complete = contents(version.folder)
    object_server.heal()
    copy_version(version, f"{object_server.bucket()}/whole", None, newest=True)
    needed = len(object_server.requests) - 1  # making the bucket was one
    assert needed == len(complete) + 2, "each file, and a look at `latest.json` before it is moved"
    visible = []
    for cut in range(1, needed + 1):
        bucket = object_server.bucket()
        object_server.heal()
        object_server.fails = lambda number, cut=cut: how if number >= cut else None
        with pytest.raises(StoreAway, match="run again later"):
            copy_version(version, bucket, None, newest=True)
        object_server.heal()
        latest, by_number = (seen(bucket, tmp_path / f"{cut}-{each}", each) for each in (None, 1))
        visible.append((latest is not None, by_number is not None))
        assert all(contents(folder) == complete for folder in (latest, by_number) if folder is not None)
        copy_version(version, bucket, None, newest=True)
        again = seen(bucket, tmp_path / f"{cut}-again", None)
        assert again is not None
        assert contents(again) == complete
    assert visible[0] == (False, False)
    assert visible == sorted(visible), "once visible, always visible"
    last = {"before": (False, True), "after": (True, True)}[how]
    assert visible[-1] == last, "the last request moves `latest.json`"


def test_one_request_that_fails_is_asked_again(versions: dict[str, Version], object_server: ObjectServer):
    """An answer that is lost after the object was written is no clash: the bytes are the same."""
    version, bucket = whole(versions["town"]), object_server.bucket()
    for number, how in ((2, "before"), (4, "after")):
        object_server.heal()
        object_server.fails = lambda each, number=number, how=how: how if each == number else None
        copy_version(version, f"{bucket}/{how}", None, newest=True)


def leading_out() -> bytes:
    """A manifest with a file that lies outside the version's folder."""
    payload = b'{"subject": [{"name": "../../up", "digest": {"sha256": ""}}]}'
    return json.dumps({"payload": b64encode(payload).decode()}).encode()


def test_readers_of_a_version_that_was_changed_get_nothing(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket, version = object_server.bucket(), whole(versions["town"])
    copy_version(version, bucket, None, newest=True)
    for name, content in (("data/age.parquet", b"other"), ("MANIFEST.json", leading_out())):
        object_server.put(f"{bucket}/town/v1/{name}", content)
        with pytest.raises(StoreRefuses, match=r"not those of the manifest|cannot be followed"):
            read_version(s3(bucket), None, "town", 1 if name == "MANIFEST.json" else None, tmp_path / name)
    with pytest.raises(StoreRefuses, match="an object of this name with other bytes"):
        copy_version(version, bucket, None, newest=True)


def test_latest_moves_to_higher_numbers_only(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket = object_server.bucket()
    one, three = whole(versions["town"], 1), whole(versions["town"], 3)
    copy_version(three, bucket, None, newest=True)
    copy_version(one, bucket, None, newest=True)
    assert read_version(s3(bucket), None, "town", None, tmp_path / "a")[0] == 3
    copy_version(whole(versions["town"], 4), bucket, None, newest=False)
    assert read_version(s3(bucket), None, "town", None, tmp_path / "b")[0] == 3


def test_many_writers_of_one_version_leave_one_whole_version(
    tmp_path: Path, versions: dict[str, Version], object_server: ObjectServer
):
    bucket, version = object_server.bucket(), whole(versions["town"])
    failures: list[BaseException] = []

    def write() -> None:
        try:
            copy_version(version, bucket, None, newest=True)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failures == []
    assert contents(read_version(s3(bucket), None, "town", None, tmp_path / "copy")[1]) == contents(version.folder)


def test_what_a_store_says_no_to_is_told(versions: dict[str, Version], object_server: ObjectServer):
    version, bucket = whole(versions["town"]), object_server.bucket()
    with pytest.raises(StoreRefuses, match="no such bucket"):
        copy_version(version, f"{bucket}-of-nobody", None, newest=True)
    with pytest.raises(SudareError, match="SUDARE_CREDENTIALS_NOBODY") as refused:
        copy_version(version, bucket, "nobody", newest=True)
    assert SECRET not in str(refused.value)
