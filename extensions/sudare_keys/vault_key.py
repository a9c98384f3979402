"""A signing key that `securesystemslib` signs with, by its URI: HashiCorp Vault's transit engine (`hv:NAME/VERSION`).

Versions are signed with Ed25519. Of the services that `securesystemslib` 1.6 knows, Vault alone has it: its signers
for AWS, Google Cloud and Azure sign with ECDSA or RSA, and are refused. Tried with `file2:` alone, a key in a file:
no Vault was at hand.

`signer.public` names a file with the public key in PEM, since a URI tells none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tasks.storage.workspace.keys import KeyKind, KeyPlace, refusal

SCHEMES: Final = ("hv", "file2")


class ForeignKey:
    """A key of another library.

    Args:
        place: where it lies; errors name it.
        signer: the library's.
        public: the public key, 32 bytes.
    """

    def __init__(self, place: KeyPlace, signer: Any, public: bytes) -> None:
        self._place, self._signer, self._public = place, signer, public

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """Return the signature, 64 bytes.

        Raises:
            WorkspaceRefused: the service does not answer or refuses.
        """
        try:
            return bytes.fromhex(self._signer.sign(message).signature)
        except Exception as error:  # noqa: BLE001 - each service has errors of its own, and their texts may tell secrets
            raise _unsigned(self._place, error) from None


def open_key(place: KeyPlace, secret: str | None) -> ForeignKey:
    """Open the key that the URI names.

    Raises:
        WorkspaceRefused: another scheme, no library, no public key, or a service that refuses.
    """
    uri, file = place.value("uri"), place.keys / place.value("public")
    if uri.partition(":")[0] not in SCHEMES:
        allowed = "hv:NAME/VERSION (HashiCorp Vault, Ed25519) or file2:PATH"
        remedy = 'securesystemslib has no Ed25519 for other services: use a token (kind = "pkcs11") of that service'
        raise refusal(str(place.settings), "signer.uri", repr(uri[:60]), allowed, remedy)
    try:
        from securesystemslib import signer as library
    except ImportError:
        allowed, remedy = "the package securesystemslib", "pip install securesystemslib hvac"
        raise refusal(
            str(place.settings), "signer.kind", "a package that is not installed", allowed, remedy
        ) from None
    public = _public(place, file)
    key = library.SSlibKey("sudare", "ed25519", "ed25519", {"public": public.hex()})
    try:
        return ForeignKey(place, library.Signer.from_priv_key_uri(uri, key), public)
    except Exception as error:  # noqa: BLE001 - each service has errors of its own, and their texts may tell secrets
        raise _unsigned(place, error) from None


def create_key(place: KeyPlace, secret: str | None) -> ForeignKey:
    """Refuse: such a key is made with the service's own tool."""
    allowed = "a key that the service made"
    raise refusal(
        str(place.settings), "signer.uri", "nothing to make it with", allowed, "make it there, then name it"
    )


def _public(place: KeyPlace, file: Path) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(file.read_bytes())
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or "no public key in PEM"
        raise refusal(str(file), "signer.public", found, "an Ed25519 public key in PEM", "name its file") from None
    if not isinstance(key, Ed25519PublicKey):
        raise refusal(str(file), "signer.public", type(key).__name__, "an Ed25519 public key in PEM", "name its file")
    return key.public_bytes_raw()


def _unsigned(place: KeyPlace, error: Exception) -> Exception:
    found, allowed = f"{type(error).__name__} of the signer", "a service that signs with this key"
    remedy = "look at its address and credentials, then give the command again"
    return refusal(str(place.settings), "signer.uri", found, allowed, remedy)


KIND: Final = KeyKind(open_key, create_key)
