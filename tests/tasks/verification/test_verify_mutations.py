"""Changes by somebody without the publisher's key: any byte, and every kind on every file, is refused and named."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks._mutation import Mutation, Pristine
from benchmarks.mutations import KINDS, mutations
from contracts.canonical import canonical_json
from tasks.verify import verify
from tests.tasks.verification.forgery import load
from tests.worlds.versions import Version, broken, caught, named

OF_EACH = 7


@pytest.fixture(scope="module")
def pristine(versions: dict[str, Version], tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return Pristine(versions["guild"].copy(tmp_path_factory.mktemp("mutated") / "v").folder)


@pytest.fixture(scope="module")
def others(versions: dict[str, Version]) -> dict[str, dict[str, bytes]]:
    """The files of another version of the same publisher."""
    folder = versions["town"].folder
    return {"town": {name: (folder / name).read_bytes() for name in versions["town"].files}}


def chosen(version: Pristine, others: dict[str, dict[str, bytes]], kind: str) -> list[Mutation]:
    """Choose some mutations of a kind, always the same ones."""
    found = [each for each in mutations(version, flips=40, edits=20, seed=7, others=others) if each.kind == kind]
    return random.Random(kind).sample(found, min(OF_EACH, len(found)))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_mutation_is_refused_and_named(
    pristine: Pristine, others: dict[str, dict[str, bytes]], versions: dict[str, Version], kind: str
):
    """Seven of each of fourteen kinds (four of additions), drawn from a fixed seed; the benchmark tries thousands."""
    some = chosen(pristine, others, kind)
    assert len(some) >= 4
    for change in some:
        change.apply(pristine.folder)
        report = verify(pristine.folder, public_key=versions["guild"].key)
        pristine.restore()
        assert not report.ok, change.told
        assert change.names & named(report), change.told
        assert any(rules <= broken(report) for rules in KINDS[kind][1]), (change.told, broken(report))


def test_there_are_at_least_a_thousand_mutations_of_every_kind_over_all_files(
    pristine: Pristine, others: dict[str, dict[str, bytes]]
):
    made = list(mutations(pristine, flips=600, edits=150, seed=1, others=others))
    assert len(made) >= 1000
    assert {each.kind for each in made} == set(KINDS)
    assert set(pristine.files) <= {name for each in made for name in each.names}


@pytest.mark.long
def test_what_was_mutated_is_put_back(pristine: Pristine, versions: dict[str, Version]):
    """Otherwise one mutation would be found for another's sake."""
    for change in mutations(pristine, flips=5, edits=2, seed=3):
        if change.kind != "swap two files":
            change.apply(pristine.folder)
            pristine.restore()
    assert {name: (pristine.folder / name).read_bytes() for name in pristine.files} == pristine.files
    assert verify(pristine.folder, public_key=versions["guild"].key).ok


def test_the_test_of_mutations_can_fail(pristine: Pristine, versions: dict[str, Version], tmp_path: Path):
    """No change is no finding."""
    nothing = Mutation("nothing", "nothing", lambda folder: None, frozenset({"record.json"}))
    nothing.apply(pristine.folder)
    report = verify(pristine.folder, public_key=versions["guild"].key)
    assert report.ok
    assert not nothing.names & named(report)


SIGNED = ("MANIFEST.json", "PROOF.json")


def flips(version: Version, each: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yield `each` flips of single bytes for every file."""
    rng = random.Random(seed)
    for name in version.files:
        size = (version.folder / name).stat().st_size
        for _ in range(each):
            yield name, rng.randrange(size), rng.randrange(1, 256)


@pytest.mark.long
def test_any_flipped_byte_of_any_file_is_caught_and_the_file_is_named(spoilt: Version):
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
def test_every_class_of_byte_in_a_signed_file_counts(spoilt: Version, name: str, kind: str):
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
def test_one_json_value_has_one_form(spoilt: Version, name: str):
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
def test_malformed_json_is_a_finding_and_no_traceback(spoilt: Version, name: str):
    for kind, content in BROKEN_JSON.items():
        assert caught(spoilt, name, content), kind
