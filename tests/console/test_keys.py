"""`sudare keys`: a key under a passphrase or in a token signs a release; what is missing costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.prefect_runs.prefect_server import PrefectServer
from tasks.storage.workspace import signing_keys
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed

PASSPHRASE = "a quiet morning by the lake"


@pytest.fixture(autouse=True)
def _nothing_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SUDARE_SIGNING_SECRET", raising=False)
    signing_keys._open.clear()
    yield
    signing_keys._open.clear()


def again(place: Place) -> Workspace:
    """The workspace as another process finds it."""
    signing_keys._open.clear()
    return Workspace.open(place.workspace.root)


def test_a_release_is_signed_by_a_key_under_a_passphrase(
    shared: Place, served: PrefectServer, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the passphrase, or with another one, nothing is charged; the same command with it publishes."""
    before = shared.workspace.public_key_file.read_text()
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("keys", "encrypt", at=shared.workspace).code == 0
    place = again(shared)
    assert not (place.keys / "signing.key").exists()
    assert place.public_key_file.read_text() == before
    spent = typed("budget", "show", "--json", at=place).json
    for secret, words in (("", "at the terminal, or set SUDARE_SIGNING_SECRET"), ("another one", "does not open it")):
        monkeypatch.setenv("SUDARE_SIGNING_SECRET", secret)
        refused = typed("run", str(shared.spec("closed")), at=again(shared))
        assert refused.code == 2
        assert words in " ".join(refused.err.split())
    assert typed("budget", "show", "--json", at=place).json == spent
    assert "closed" not in typed("releases", "list", at=place).out
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("run", str(shared.spec("closed")), at=again(shared)).code == 0
    (tmp := place.root.parent / "copy.pub").write_text(before)
    assert typed("verify", str(place.releases / "closed" / "v1"), "--key", str(tmp)).code == 0


def test_show_tells_where_the_key_lies_and_that_it_signs(place: Place, typed: Typed) -> None:
    said = typed("keys", "show", "--json", at=place.workspace).json
    assert said["kind"] == "file"
    assert said["signs"] is True
    assert said["public_key"] == place.workspace.public_key_file.read_text().strip()


def test_a_key_is_encrypted_once(place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second time, or with a short passphrase, nothing changes."""
    short = typed("keys", "encrypt", at=place.workspace)
    assert (short.code, "SUDARE_SIGNING_SECRET" in short.err) == (2, True)
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", "short")
    assert "12 characters or more" in typed("keys", "encrypt", at=place.workspace).err
    assert (place.workspace.keys / "signing.key").exists()
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    assert typed("keys", "encrypt", at=place.workspace).code == 0
    assert "protected already" in typed("keys", "encrypt", at=again(place)).err
    assert PASSPHRASE.encode() not in b"".join(
        path.read_bytes() for path in Path(place.workspace.root).rglob("*") if path.is_file()
    )


def test_the_doctor_says_that_a_closed_key_was_not_opened(
    place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_SIGNING_SECRET", PASSPHRASE)
    typed("keys", "encrypt", at=place.workspace)
    monkeypatch.delenv("SUDARE_SIGNING_SECRET")
    seen = {each["matter"]: each for each in typed("doctor", "--json", at=again(place)).json["observations"]}
    assert seen["keys"]["health"] == "notable"
    assert "sudare keys show" in seen["keys"]["remedy"]
