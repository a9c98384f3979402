"""The signing key of a workspace, and what its Ed25519 signatures are made over.

One key signs for several purposes; no bytes signed for one can be taken for another:

| purpose | bytes that are signed | begins with |
|---|---|---|
| checkpoint | the text of a note, see `notes` | the journal's name, without a space |
| manifest, status | the pre-authentication encoding of an envelope, see `envelope` | `DSSEv1 ` |
| anything else | canonical JSON, here | `sudare/PURPOSE` and a zero byte, which no note has |
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from contracts.canonical import canonical_json
from privacy.ledger.journal.notes import SignedNote, VerifierKey, read_verifier_key, sign_note


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
        name: whose key it is, and of which journal; made of the key's short name where none is given.
    """

    def __init__(self, key: bytes | SecretKey, name: str | None = None) -> None:
        self._key = SeedKey(key) if isinstance(key, bytes) else key
        public = self._key.public
        self.verifier = VerifierKey(default_name(public) if name is None else name, public)

    def __repr__(self) -> str:
        """Show the key's public id."""
        return f"Signer({key_id(self.public_key)})"

    @property
    def public_key(self) -> str:
        """The public key as a checker pins it: NAME+HASH+BASE64."""
        return self.verifier.text

    def sign(self, purpose: str, value: Any) -> str:
        """Return the signature (hex) over `value`, bound to a purpose so that it serves no other."""
        return self.sign_bytes(_message(purpose, value)).hex()

    def sign_bytes(self, message: bytes) -> bytes:
        """Return the signature (64 bytes) over a message that states its purpose itself."""
        return self._key.sign(message)

    def note(self, text: str) -> SignedNote:
        """Return a text as a note that this key signed."""
        return SignedNote(text, (sign_note(text, self.verifier, self.sign_bytes),))


def default_name(public: bytes) -> str:
    """Return the name of a key (32 bytes) that was given none."""
    return f"sudare/{_short(public)}"


def key_id(public_key: str) -> str:
    """Return the short name of a public key (NAME+HASH+BASE64): 16 hex digits of the SHA-256 of its bytes."""
    return _short(read_verifier_key(public_key).public)


def signature_holds(public_key: str, purpose: str, value: Any, signature: str) -> bool:
    """Say whether `signature` (lowercase hex) over `value` for `purpose` is by `public_key` (NAME+HASH+BASE64)."""
    try:
        raw = bytes.fromhex(signature)
        if raw.hex() != signature:
            return False
        key = Ed25519PublicKey.from_public_bytes(read_verifier_key(public_key).public)
        key.verify(raw, _message(purpose, value))
    except (InvalidSignature, ValueError):
        return False
    return True


def _short(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


def _message(purpose: str, value: Any) -> bytes:
    return b"sudare/" + purpose.encode() + b"\x00" + canonical_json(value)


# --- Statements in signed envelopes, as other people's tools check them.


IN_TOTO: Final = "application/vnd.in-toto+json"


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that an envelope's signatures are over."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type.encode()), payload_type.encode(), len(payload), payload)


def enveloped(payload: bytes, signer: Signer) -> dict[str, Any]:
    """Return an in-toto statement (its JSON) in an envelope that a key signed, as JSON values."""
    signature = signer.sign_bytes(pre_authentication(IN_TOTO, payload))
    return {
        "payloadType": IN_TOTO,
        "payload": b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(signer.public_key), "sig": b64encode(signature).decode()}],
    }


def envelope_holds(public_key: str, payload: bytes, signature: bytes) -> bool:
    """Say whether a signature (64 bytes) over an in-toto statement is by a key (NAME+HASH+BASE64)."""
    key = Ed25519PublicKey.from_public_bytes(read_verifier_key(public_key).public)
    try:
        key.verify(signature, pre_authentication(IN_TOTO, payload))
    except InvalidSignature:
        return False
    return True


def plain_base64(text: str) -> bytes:
    """Decode the one standard base64 that these bytes have.

    Raises:
        ValueError: another alphabet, padding or other last bits.
    """
    try:
        raw = b64decode(text.encode(), validate=True)
    except binascii.Error as error:
        raise ValueError("no standard base64") from error
    if b64encode(raw).decode() != text:
        raise ValueError("base64 in another form than the standard one")
    return raw
