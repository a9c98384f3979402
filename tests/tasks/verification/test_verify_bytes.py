"""Any single byte of any published file: flipped, added, dropped, or written in another form of the same value."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from contracts.canonical import canonical_json
from tests.tasks.verification.forgery import load
from tests.worlds.versions import Version, caught

SIGNED = ("MANIFEST.json", "PROOF.json")


def flips(version: Version, each: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yield `each` flips of single bytes for every file."""
    rng = random.Random(seed)
    for name in version.files:
        size = (version.folder / name).stat().st_size
        for _ in range(each):
            yield name, rng.randrange(size), rng.randrange(1, 256)


@pytest.mark.long
def test_any_flipped_byte_of_any_file_is_caught_and_the_file_is_named(spoilt: Version) -> None:
    """Claim of the issue: any single byte of any published file. 12 files, 6 bytes each; benchmarks flip more."""
    tried = 0
    for name, place, mask in flips(spoilt, 6, seed=20260101):
        content = bytearray((spoilt.folder / name).read_bytes())
        content[place] ^= mask
        assert caught(spoilt, name, bytes(content)), f"{name}, byte {place} xor {mask}"
        tried += 1
    assert tried >= 50


CLASSES: dict[str, Callable[[int], bool]] = {
    "newline": lambda byte: byte == 10,
    "space": lambda byte: byte == 32,
    "quote": lambda byte: byte == 34,
    "comma": lambda byte: byte == 44,
    "colon": lambda byte: byte == 58,
    "bracket": lambda byte: byte in b"{}[]",
    "digit": lambda byte: byte in b"0123456789",
    "letter": lambda byte: byte in b"abcdefghijklmnopqrstuvwxyz",
    "underscore": lambda byte: byte == 95,
}


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_of_byte_in_a_signed_file_counts(spoilt: Version, name: str, kind: str) -> None:
    """The first, a middle and the last byte of each class, as a space, a digit, a letter."""
    content = (spoilt.folder / name).read_bytes()
    places = [place for place, byte in enumerate(content) if CLASSES[kind](byte)]
    if not places:  # the manifest's payload is base64, whose letters have no underscore
        assert (kind, name) == ("underscore", "MANIFEST.json")
    for place in {places[0], places[len(places) // 2], places[-1]} if places else ():
        for other in {32, 48, 97} - {content[place]}:
            changed = content[:place] + bytes([other]) + content[place + 1 :]
            assert caught(spoilt, name, changed), f"byte {place}: {content[place]:c} to {other:c}"


@pytest.mark.parametrize("name", [*SIGNED, "record.json", "croissant.json"])
def test_one_json_value_has_one_form(spoilt: Version, name: str) -> None:
    content = (spoilt.folder / name).read_bytes()
    value = load(spoilt.folder / name)
    hexes = [
        place for place in range(len(content)) if content[place] in b"abcdef" and content[place - 1] in b"0123456789"
    ]
    forms = {
        "compact": canonical_json(value),
        "a newline more": content + b"\n",
        "a newline less": content[:-1],
        "Windows newlines": content.replace(b"\n", b"\r\n"),
        "a byte order mark": b"\xef\xbb\xbf" + content,
        "an escaped letter": content.replace(b'"a', b'"\\u0061', 1),
        "a key twice": content.replace(b"{\n", b'{\n  "schema": "x",\n', 1),
        "an upper-case hex digit": content[: hexes[-1]]
        + content[hexes[-1] : hexes[-1] + 1].upper()
        + content[hexes[-1] + 1 :],
        "an escaped slash": content.replace(b"/", b"\\/", 1),
        "a whole number as a float": content.replace(b'"version": 2', b'"version": 2.0').replace(
            b'"number": 0', b'"number": 0.0'
        ),
    }
    for form, changed in forms.items():
        if changed != content:
            assert caught(spoilt, name, changed), form
    assert sum(changed != content for changed in forms.values()) >= 8


BROKEN_JSON = {
    "nothing": b"",
    "half an object": b'{"schema": ',
    "null": b"null\n",
    "a number": b"7\n",
    "a list": b"[]\n",
    "an empty object": b"{}\n",
    "no UTF-8": b"\xff\xfe{}",
    "very deep lists": b"[" * 200_000,
    "very deep objects": b'{"a":' * 100_000,
    "deep and whole": b"[" * 500 + b"]" * 500,
    "a huge number": b'{"schema": ' + b"9" * 5000 + b"}\n",
    "infinity": b'{"schema": 1e999}\n',
    "NaN": b'{"schema": NaN}\n',
    "half a surrogate": b'{"schema": "\\ud800"}\n',
    "terminal codes": b'{"\\u001b[31m": "\\u001b[2J"}\n',
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("name", [*SIGNED, "record.json", "croissant.json"])
def test_malformed_json_is_a_finding_and_no_traceback(spoilt: Version, name: str) -> None:
    for kind, content in BROKEN_JSON.items():
        assert caught(spoilt, name, content), kind
