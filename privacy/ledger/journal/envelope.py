"""Statements in signed envelopes, as other people's tools check them: in-toto statements in DSSE.

What is signed is the pre-authentication encoding of a payload and its type, never the envelope's own JSON:

    PAE(type, payload) = "DSSEv1" SP LEN(type) SP type SP LEN(payload) SP payload

Source: DSSE v1.0.2 (secure-systems-lab/dsse, protocol.md and envelope.md).
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from privacy.ledger.journal.signed_note import read_verifier_key
from privacy.ledger.journal.signing import Signer, key_id

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
