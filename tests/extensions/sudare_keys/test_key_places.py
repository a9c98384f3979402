"""Signing keys in tokens, and of services: what opens them, what they sign, and how each refusal reads."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3  # noqa: F401 - binds a socket where it is first imported
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sudare_keys import token_key, vault_key
from tasks.storage.workspace import keys as signing_keys
from tasks.storage.workspace.keys import KeyPlace, WorkspaceRefused, kind_of, open_key
from tests.extensions.sudare_keys.tokens import PIN, SoftToken, soft_tokens
from tests.tasks.storage.workspace.test_signing_keys import WRONG, holds, place


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> SoftToken:
    return soft_tokens(tmp_path_factory.mktemp("softhsm"), "statistics", "untouched")


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    signing_keys._open.clear()
    yield
    signing_keys._open.clear()


def in_token(tmp_path: Path, tokens: SoftToken, key: str, secret: str | None = PIN, **other: str) -> KeyPlace:
    values = {"kind": "pkcs11", "library": str(tokens.library), "token": "statistics", "key": key}
    return place(tmp_path, values | other, secret)


def refused(action: Callable[[], object], *parts: str) -> None:
    with pytest.raises(WorkspaceRefused) as caught:
        action()
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    for secret in (PIN, WRONG):
        assert secret not in str(caught.value)


def test_the_kinds_are_registered(tmp_path: Path):
    found = [kind_of(place(tmp_path, {"kind": name})) for name in ("pkcs11", "securesystemslib")]
    assert found == [token_key.KIND, vault_key.KIND]


@pytest.mark.services
def test_a_key_that_a_token_made_signs_in_the_token(tmp_path: Path, token: SoftToken):
    """It is found again by its label, signs what others verify, and cannot be taken out."""
    made = kind_of(in_token(tmp_path, token, "release")).create_key(in_token(tmp_path, token, "release"), PIN)
    key = open_key(in_token(tmp_path, token, "release"))
    assert key.public == made.public
    assert holds(key, b"text" * 5000)
    from pkcs11 import Attribute
    from pkcs11.exceptions import AttributeSensitive

    with pytest.raises(AttributeSensitive):
        key._private[Attribute.VALUE]  # type: ignore[attr-defined]
    refused(
        lambda: kind_of(in_token(tmp_path, token, "release")).create_key(in_token(tmp_path, token, "release"), PIN),
        "a key 'release' already",
    )


@pytest.mark.services
def test_each_fault_of_a_token_is_told(tmp_path: Path, token: SoftToken):
    """A wrong PIN, a missing token, key or library: what it is, and what to do."""
    refused(
        lambda: open_key(in_token(tmp_path, token, "release", WRONG, token="untouched")),
        "a PIN that the token refuses",
        "lock",
    )
    refused(lambda: open_key(in_token(tmp_path, token, "release", None)), "SUDARE_SIGNING_SECRET", "nothing")
    refused(lambda: open_key(in_token(tmp_path, token, "k", token="gone")), "no such token", "'gone'", "put it in")
    refused(lambda: open_key(in_token(tmp_path, token, "no-such")), "no such key in the token", "sudare keys create")
    refused(
        lambda: open_key(in_token(tmp_path, token, "k", library="/nowhere/lib.so")),
        "signer.library",
        "a library that cannot be loaded",
    )
    refused(lambda: open_key(in_token(tmp_path, token, "")), "signer.key", 'write [signer] key = "..."')


def test_a_package_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    token = SoftToken(tmp_path / "library.so", ("statistics",))
    refused(lambda: open_key(in_token(tmp_path, token, "k")), "pip install 'sudare[pkcs11]'")


def test_a_key_of_securesystemslib_signs(tmp_path: Path):
    """Its signers are used by their URI; Vault's (hv:) is made the same way, and was not tried."""
    private = Ed25519PrivateKey.generate()
    (tmp_path / "k.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "k.pub").write_bytes(public)
    values = {"kind": "securesystemslib", "uri": f"file2:{tmp_path / 'k.pem'}", "public": "k.pub"}
    assert holds(open_key(place(tmp_path, values)), b"text")
    away = {**values, "uri": f"file2:{tmp_path / 'gone.pem'}"}
    refused(lambda: open_key(place(tmp_path, away)), "FileNotFoundError of the signer", "give the command again")
    aws = {**values, "uri": "awskms:alias/release"}
    refused(lambda: open_key(place(tmp_path, aws)), "hv:NAME/VERSION", 'kind = "pkcs11"')
    refused(lambda: open_key(place(tmp_path, {**values, "uri": "hv:release/1"})), "UnsupportedLibraryError")
    refused(lambda: open_key(place(tmp_path, {**values, "public": "gone.pub"})), "signer.public", "No such file")
