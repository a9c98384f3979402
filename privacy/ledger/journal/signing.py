"""Ed25519 signatures over canonical JSON: checkpoints of the journal and manifests of versions."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from contracts.canonical import canonical_json


class SecretKey(Protocol):
    """A private Ed25519 key, wherever it lies."""

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature, 64 bytes."""


class SeedKey:
    """A key whose bytes are at hand.

    Args:
        seed: the 32 bytes of the private key.
    """

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return self._key.sign(message)


class Signer:
    """Signs with one Ed25519 key; its repr shows the public half only.

    Args:
        key: the 32 bytes of the private key, or a key that lies elsewhere.
    """

    def __init__(self, key: bytes | SecretKey) -> None:
        self._key = SeedKey(key) if isinstance(key, bytes) else key
        self.public_key = self._key.public.hex()

    def __repr__(self) -> str:
        """Show the key's public id."""
        return f"Signer({key_id(self.public_key)})"

    def sign(self, purpose: str, value: Any) -> str:
        """Return the signature (hex) over `value`, bound to a purpose so that it serves no other."""
        return self._key.sign(_message(purpose, value)).hex()


def key_id(public_key: str) -> str:
    """Return the short public name of a key: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]


def signature_holds(public_key: str, purpose: str, value: Any, signature: str) -> bool:
    """Say whether `signature` over `value` for `purpose` is by `public_key` (both lowercase hex)."""
    try:
        raw = bytes.fromhex(signature)
        if raw.hex() != signature:
            return False
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(raw, _message(purpose, value))
    except (InvalidSignature, ValueError):
        return False
    return True


def _message(purpose: str, value: Any) -> bytes:
    return b"sudare/" + purpose.encode() + b"\x00" + canonical_json(value)
