"""Signed notes: a text, a blank line, and a line for each signature. Checkpoints of a journal are such notes.

    NAME
    SIZE
    base64(ROOT)

    — NAME base64(KEY HASH || SIGNATURE)

The key hash is the first 4 bytes of SHA-256(name || newline || type || public key). Two types are known: Ed25519 over
the text, and a cosignature, Ed25519 over a head line, the time and the text.

A note is read strictly: bytes that are read are the only bytes that write the same note. So no byte of a signed
note can change unseen, but for the lines of keys that the reader does not know.

Source: C2SP signed-note v1.0.0, tlog-checkpoint v1.0.0, tlog-cosignature v1.0.0 (Ed25519 alone).
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from privacy.ledger.entries import is_to_the_hour

ED25519: Final = 1
COSIGNATURE: Final = 4
_TYPES: Final = (ED25519, COSIGNATURE)
_HASH_BYTES: Final = 4
_TIME_BYTES: Final = 8
_LAST_TIME: Final = 2**63 - 1
_SIGNATURE_BYTES: Final = 64
_KEY_BYTES: Final = 32
_ROOT_BYTES: Final = 32
_MOST_SIGNATURES: Final = 100
MOST_NOTE_BYTES: Final = 1_000_000
_DASH: Final = "\u2014 "
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,15}")

RawSign = Callable[[bytes], bytes]
"""Signs a message with an Ed25519 key, wherever that key lies: 64 bytes."""


class MalformedNote(ValueError):
    """A note, checkpoint or verifier key of another form; the text names the rule and what was found."""


class FalseSignature(ValueError):
    """A signature line under a known key's name and hash does not hold.

    Args:
        key: whose signature it should be.
    """

    def __init__(self, key: VerifierKey) -> None:
        super().__init__(f"the signature of {key.name} ({key.key_hash.hex()}) does not hold")
        self.key = key


@dataclass(frozen=True)
class VerifierKey:
    """A public key as a checker pins it.

    Args:
        name: who signs; no spaces, no plus. Of a journal's key it is the origin line of its checkpoints too.
        public: the Ed25519 public key, 32 bytes.
        kind: `ED25519` or `COSIGNATURE`.
    Raises:
        MalformedNote: a name, key or type that no line can have.
    """

    name: str
    public: bytes
    kind: int = ED25519

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.kind not in _TYPES:
            raise MalformedNote(f"key type: {self.kind}; allowed are 1 (Ed25519) and 4 (cosignature)")
        if len(self.public) != _KEY_BYTES:
            raise MalformedNote(f"public key: {len(self.public)} bytes; allowed are {_KEY_BYTES}")

    @property
    def key_hash(self) -> bytes:
        """The 4 bytes that name the key in a signature line."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._encoded).digest()[:_HASH_BYTES]

    @property
    def text(self) -> str:
        """The key in one line: name+hash+base64."""
        return f"{self.name}+{self.key_hash.hex()}+{b64encode(self._encoded).decode()}"

    @property
    def _encoded(self) -> bytes:
        return bytes([self.kind]) + self.public


@dataclass(frozen=True)
class NoteSignature:
    """One signature line; of a cosignature `signature` begins with the time.

    Args:
        name: the key's name.
        key_hash: the key's hash, 4 bytes.
        signature: what the key's algorithm gives; at least 1 byte.
    """

    name: str
    key_hash: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The line, without its newline."""
        return f"{_DASH}{self.name} {b64encode(self.key_hash + self.signature).decode()}"


@dataclass(frozen=True)
class SignedNote:
    """A text with its signature lines; `read_note` reads one, `to_bytes` writes it.

    Args:
        text: ends with a newline.
        signatures: at least one, in their order.
    """

    text: str
    signatures: tuple[NoteSignature, ...]

    def to_bytes(self) -> bytes:
        """Return the note as it is written."""
        return "".join([self.text, "\n", *(f"{each.line}\n" for each in self.signatures)]).encode()

    def signed_by(self, *more: NoteSignature) -> SignedNote:
        """Return the note with more lines; a line that is there already stays single."""
        new = tuple(each for each in dict.fromkeys(more) if each not in self.signatures)
        return replace(self, signatures=self.signatures + new)


@dataclass(frozen=True)
class VerifiedLine:
    """A signature line that holds.

    Args:
        key: whose it is.
        time: when it was made [seconds since 1970], for a cosignature; None otherwise.
    """

    key: VerifierKey
    time: int | None


@dataclass(frozen=True)
class TreeHead:
    """What a checkpoint's text says.

    Args:
        origin: which journal.
        size: number of entries.
        root: Merkle root (hex) of the entries.
        extensions: further lines; the journal writes none, and readers give them no meaning.
    """

    origin: str
    size: int
    root: str
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The checkpoint's text."""
        root = b64encode(bytes.fromhex(self.root)).decode()
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), root, *self.extensions))


def sign_note(text: str, key: VerifierKey, sign: RawSign) -> NoteSignature:
    """Return the line of an Ed25519 key over a text.

    Raises:
        MalformedNote: the key is for cosignatures, or no note can have this text.
    """
    if key.kind != ED25519:
        raise MalformedNote("key type: 4 (cosignature); a text is signed with type 1 (Ed25519)")
    _check_text(text)
    return NoteSignature(key.name, key.key_hash, sign(text.encode()))


def cosign_note(text: str, key: VerifierKey, sign: RawSign, *, time: int) -> NoteSignature:
    """Return the cosignature of a checkpoint's text.

    Args:
        text: the checkpoint's text.
        key: the witness's key, of type 4.
        sign: signs with it.
        time: when [seconds since 1970].
    Raises:
        MalformedNote: the key is of another type, the time is outside 0..2^63 - 1, or the text is no checkpoint's.
    """
    if key.kind != COSIGNATURE:
        raise MalformedNote("key type: 1 (Ed25519); a cosignature is made with type 4")
    if not 0 <= time <= _LAST_TIME:
        raise MalformedNote(f"time: {time}; allowed are 0 to 2^63 - 1")
    read_tree_head(text)
    made = sign(_cosigned(text, time))
    return NoteSignature(key.name, key.key_hash, time.to_bytes(_TIME_BYTES, "big") + made)


def verified_lines(note: SignedNote, keys: Iterable[VerifierKey]) -> tuple[VerifiedLine, ...]:
    """Return the lines of the keys that a reader knows; lines of all others are left aside.

    Args:
        note: the note.
        keys: what the reader pinned.
    Returns:
        tuple[VerifiedLine, ...]: at most one a key, its first; empty where no known key signed.
    Raises:
        FalseSignature: a known key's line does not hold. Then the whole note is to be refused.
    """
    known = {(key.name, key.key_hash): key for key in keys}
    found: dict[tuple[str, bytes], VerifiedLine] = {}
    for line in note.signatures:
        place = (line.name, line.key_hash)
        if place in known and place not in found:
            found[place] = _verified(note.text, line, known[place])
    return tuple(found.values())


def _verified(text: str, line: NoteSignature, key: VerifierKey) -> VerifiedLine:
    time, message, signature = None, text.encode(), line.signature
    if key.kind == COSIGNATURE:
        time, signature = int.from_bytes(signature[:_TIME_BYTES], "big"), signature[_TIME_BYTES:]
        message = _cosigned(text, time)
    if len(signature) != _SIGNATURE_BYTES or (time or 0) > _LAST_TIME:
        raise FalseSignature(key)
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise FalseSignature(key) from None
    return VerifiedLine(key, time)


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def read_note(content: bytes) -> SignedNote:
    """Read a signed note.

    Raises:
        MalformedNote: names the rule that it breaks.
    """
    if len(content) > MOST_NOTE_BYTES:
        raise MalformedNote(f"length: {len(content)} bytes; allowed are {MOST_NOTE_BYTES}")
    try:
        whole = content.decode()
    except UnicodeDecodeError as error:
        raise MalformedNote(f"encoding: byte {error.start} is not UTF-8") from None
    # The text itself may have blank lines: the last one parts it from the signatures.
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not text:
        raise MalformedNote("blank line: none; a text, a blank line and signature lines are needed")
    _check_text(f"{text}\n")
    if not lines.endswith("\n"):
        raise MalformedNote("last line: no newline at its end, or no signature line")
    signatures = tuple(_signature(line, number) for number, line in enumerate(lines[:-1].split("\n"), 1))
    if len(signatures) > _MOST_SIGNATURES:
        raise MalformedNote(f"signature lines: {len(signatures)}; allowed are {_MOST_SIGNATURES}")
    return SignedNote(f"{text}\n", signatures)


def _signature(line: str, number: int) -> NoteSignature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space:
        raise MalformedNote(f"signature line {number}: not of the form '{_DASH}NAME BASE64'")
    _check_name(name)
    raw = _base64(encoded, f"signature line {number}")
    if len(raw) <= _HASH_BYTES:
        raise MalformedNote(f"signature line {number}: {len(raw)} bytes; more than {_HASH_BYTES} are needed")
    return NoteSignature(name, raw[:_HASH_BYTES], raw[_HASH_BYTES:])


def read_verifier_key(text: str) -> VerifierKey:
    """Read a key of the form name+hash+base64.

    Raises:
        MalformedNote: another form, a type that is not known here, or a hash that is not this key's.
    """
    name, plus, rest = text.partition("+")
    stated, second, encoded = rest.partition("+")
    if not (plus and second):
        raise MalformedNote("verifier key: not of the form NAME+HASH+BASE64")
    raw = _base64(encoded, "verifier key")
    key = VerifierKey(name, raw[1:], raw[0] if raw else 0)
    if stated != key.key_hash.hex():
        raise MalformedNote(f"verifier key: its hash should be {key.key_hash.hex()}; a character was changed")
    return key


def read_tree_head(text: str) -> TreeHead:
    """Read a checkpoint's text.

    Raises:
        MalformedNote: names the line and the rule that it breaks.
    """
    _check_text(text)
    lines = text[:-1].split("\n")
    if len(lines) < 3 or not all(lines):
        raise MalformedNote("checkpoint: three lines that are not empty are needed: origin, size, root")
    origin, size, encoded, *extensions = lines
    if not _SIZE.fullmatch(size):
        raise MalformedNote("checkpoint, line 2: a size in decimal digits without leading zeros is needed")
    root = _base64(encoded, "checkpoint, line 3")
    if len(root) != _ROOT_BYTES:
        raise MalformedNote(f"checkpoint, line 3: a root of {len(root)} bytes; allowed are {_ROOT_BYTES}")
    return TreeHead(origin, int(size), root.hex(), tuple(extensions))


def _base64(encoded: str, at: str) -> bytes:
    """Decode the one encoding that these bytes have: other padding or other last bits are refused."""
    try:
        raw = b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise MalformedNote(f"{at}: no standard base64") from None
    if b64encode(raw).decode() != encoded:
        raise MalformedNote(f"{at}: base64 in another form than the standard one")
    return raw


def _check_name(name: str) -> None:
    if not name or "+" in name or any(each.isspace() or each < " " for each in name):
        raise MalformedNote("key name: empty, or with a space, a plus or a control character")


def _check_text(text: str) -> None:
    if not text.endswith("\n"):
        raise MalformedNote("text: no newline at its end")
    if any(each < " " and each != "\n" for each in text):
        raise MalformedNote("text: a control character other than newline")


# --- Which version of a release is the newest, and until when this may be believed.


LATEST_FORM: Final = "sudare-latest/1"
NONE_LEFT: Final = "0" * 64
_LINES: Final = 7
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class LatestStatement:
    """What the publisher says of a release's newest version.

    Args:
        release: its name.
        version: the newest version that was not withdrawn; 0 for none.
        manifest: SHA-256 (hex) of its MANIFEST.json.
        size: what the newest signed checkpoint held when it was said [entries].
        made: the hour when it was said.
        until: the hour after which it is too old.
    """

    release: str
    version: int
    manifest: str
    size: int
    made: str
    until: str

    @property
    def text(self) -> str:
        """The note's text."""
        lines = (LATEST_FORM, self.release, self.version, self.manifest, self.size, self.made, self.until)
        return "".join(f"{line}\n" for line in lines)


def read_latest(content: bytes) -> tuple[SignedNote, LatestStatement]:
    """Read the note, whoever signed it.

    Raises:
        MalformedNote: names the line and the rule that it breaks.
    """
    note = read_note(content)
    lines = note.text[:-1].split("\n")
    if len(lines) != _LINES or lines[0] != LATEST_FORM:
        raise MalformedNote(f"newest version: {_LINES} lines are needed, the first {LATEST_FORM}")
    _, release, version, manifest, size, made, until = lines
    if not release or not _WHOLE.fullmatch(version) or not _WHOLE.fullmatch(size):
        raise MalformedNote("newest version, lines 2, 3 and 5: a name and whole numbers are needed")
    if not _DIGEST.fullmatch(manifest):
        raise MalformedNote("newest version, line 4: 64 hex digits are needed")
    if not (is_to_the_hour(made) and is_to_the_hour(until) and made < until):
        raise MalformedNote("newest version, lines 6 and 7: two hours are needed, the later one last")
    return note, LatestStatement(release, int(version), manifest, int(size), made, until)


def hour_of(moment: datetime) -> str:
    """Return the hour of a moment, as notes write it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")


# --- Checkpoints of a journal.


class UnsignedCheckpoint(ValueError):
    """The pinned key did not sign a checkpoint of its journal.

    Args:
        field: "key" (no line of it) or "origin" (another journal's).
        found: what is there instead.
        allowed: what should be.
    """

    def __init__(self, field: str, found: str, allowed: str) -> None:
        super().__init__(f"{field}: {found}; allowed: {allowed}")
        self.field, self.found, self.allowed = field, found, allowed


def read_checkpoint(note: str) -> tuple[SignedNote, TreeHead]:
    """Read a checkpoint, whoever signed it.

    Raises:
        MalformedNote: it is no note, or not one of a checkpoint.
    """
    read = read_note(note.encode())
    return read, read_tree_head(read.text)


def signed_head(note: str, public_key: str) -> TreeHead:
    """Return what a checkpoint says that the pinned key signed.

    Args:
        note: the signed note.
        public_key: the pinned key, NAME+HASH+BASE64.
    Raises:
        MalformedNote: it is no checkpoint.
        FalseSignature: the key's line does not hold.
        UnsignedCheckpoint: there is no line of this key, or it is another journal's checkpoint.
    """
    read, head = read_checkpoint(note)
    key = _pinned(public_key)
    if not verified_lines(read, [key]):
        names = ", ".join(f"{line.name} ({line.key_hash.hex()})" for line in read.signatures[:3])
        raise UnsignedCheckpoint("key", names, f"{key.name} ({key.key_hash.hex()}), the pinned key")
    if head.extensions:
        raise MalformedNote("checkpoint: three lines, and no further ones")
    if head.origin != key.name:
        raise UnsignedCheckpoint("origin", head.origin, f"{key.name}, the name of the pinned key")
    return head


@lru_cache(maxsize=8)
def _pinned(public_key: str) -> VerifierKey:
    return read_verifier_key(public_key)
