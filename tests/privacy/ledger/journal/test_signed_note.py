"""Signed notes: the reference implementation's vectors, Go's own verifier, and a second reading by a few lines."""

import hashlib
import os
import subprocess
from base64 import b64decode, b64encode
from itertools import combinations
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from privacy.ledger.journal.notes import (
    COSIGNATURE,
    FalseSignature,
    MalformedNote,
    NoteSignature,
    SignedNote,
    TreeHead,
    VerifiedLine,
    VerifierKey,
    cosign_note,
    read_note,
    read_tree_head,
    read_verifier_key,
    sign_note,
    verified_lines,
)
from privacy.ledger.journal.witness_policy import PolicyUnmet, read_policy, time_problem

# Test vectors of golang.org/x/mod/sumdb/note: a key, and a note that it signed.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SEED = b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_NOTE = f"""{GO_TEXT}
\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
""".encode()
# The example of the checkpoint specification; its key is not public.
SPEC_CHECKPOINT = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u2014 example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
\u2014 witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
""".encode()  # noqa: E501 (lines as they are published)
SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(2, 34)))
KEY = VerifierKey("statistics.example/journal", SECRET.public_key().public_bytes_raw())
OTHER_KEY = VerifierKey("statistics.example/journal", OTHER.public_key().public_bytes_raw())
WITNESS_KEY = VerifierKey("witness.example/w1", WITNESS.public_key().public_bytes_raw(), COSIGNATURE)
TEXT = TreeHead(KEY.name, 12, "ab" * 32).text
NOTE = SignedNote(TEXT, (sign_note(TEXT, KEY, SECRET.sign),))
COSIGNED = NOTE.signed_by(cosign_note(TEXT, WITNESS_KEY, WITNESS.sign, time=1_700_000_000))


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the verifier in Go with Debian's copy of golang.org/x/mod; nothing is fetched."""
    folder = tmp_path_factory.mktemp("go")
    built = folder / "open_note"
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": "/usr/share/gocode",
        "GOCACHE": str(folder / "cache"),
    }
    source = Path(__file__).with_name("open_note.go")
    subprocess.run(["go", "build", "-o", built, source], env=environment, check=True, timeout=300)
    return built


def go_opens(program: Path, note: bytes, *keys: str) -> tuple[int, str]:
    done = subprocess.run([program, *keys], input=note, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode()


def by_hand(note: bytes, vkey: str) -> str:
    """Verify a note in another way than the module does: cryptography alone; return the text."""
    name, stated, encoded = vkey.split("+", 2)
    key = b64decode(encoded)
    assert key[:1] == b"\x01"
    assert hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] == stated
    place = note.rindex(b"\n\n") + 1
    for line in note[place + 1 :].splitlines():
        _, by, signed = line.decode().split(" ")
        raw = b64decode(signed)
        if by == name and raw[:4].hex() == stated:
            Ed25519PublicKey.from_public_bytes(key[1:]).verify(raw[4:], note[:place])
            return note[:place].decode()
    raise LookupError("no line of this key")


def believed(note: bytes) -> bool:
    try:
        return bool(verified_lines(read_note(note), [KEY]))
    except (MalformedNote, FalseSignature):
        return False


def test_the_reference_note_is_read_and_signed_byte_for_byte():
    key = read_verifier_key(GO_KEY)
    note = read_note(GO_NOTE)
    assert (key.text, key.key_hash.hex()) == (GO_KEY, "c74f20a3")
    assert verified_lines(note, [key]) == (VerifiedLine(key, None),)
    again = sign_note(GO_TEXT, key, Ed25519PrivateKey.from_private_bytes(GO_SEED).sign)
    assert SignedNote(GO_TEXT, (again,)).to_bytes() == GO_NOTE == note.to_bytes()


def test_the_specification_s_checkpoint_is_read_as_it_stands():
    note = read_note(SPEC_CHECKPOINT)
    head = read_tree_head(note.text)
    assert (head.origin, head.size, head.text) == ("example.com/behind-the-sofa", 20852163, note.text)
    assert [(line.name, line.key_hash.hex()) for line in note.signatures] == [
        ("example.com/behind-the-sofa", "033de0ae"),
        ("witness.example.com/w1", "8d66cf3f"),
    ]
    assert int.from_bytes(note.signatures[1].signature[:8], "big") == 1_679_315_147  # the time of its example


def test_go_and_a_few_lines_by_hand_verify_what_is_signed_here(go_program: Path):
    said = f"{KEY.name} {KEY.key_hash.hex()}\n\n{TEXT}"
    assert go_opens(go_program, NOTE.to_bytes(), KEY.text) == (0, said)
    assert go_opens(go_program, COSIGNED.to_bytes(), KEY.text) == (0, said)
    assert go_opens(go_program, NOTE.to_bytes(), OTHER_KEY.text)[0] == 1
    assert by_hand(COSIGNED.to_bytes(), KEY.text) == TEXT
    with pytest.raises(InvalidSignature):
        by_hand(NOTE.to_bytes().replace(b"\n12\n", b"\n13\n"), KEY.text)


def test_go_refuses_what_is_refused_here(go_program: Path):
    """Go's verifier and this one agree on a list of damaged notes; of other base64 this one is the stricter."""
    whole = NOTE.to_bytes()
    for damaged in (whole[:-1], whole.replace(b"\n\n", b"\n"), whole.replace(b"12", b"13"), b"\x07" + whole, b""):
        assert go_opens(go_program, damaged, KEY.text)[0] == 1
        with pytest.raises((MalformedNote, FalseSignature)):
            verified_lines(read_note(damaged), [KEY])


def test_lines_of_other_keys_and_algorithms_neither_help_nor_harm():
    strange = NoteSignature("strange.example", b"\x00\x01\x02\x03", b"\xff" * 2000)
    second = sign_note(TEXT, OTHER_KEY, OTHER.sign)
    for lines in ((second,), (strange,), (strange, second, *NOTE.signatures)):
        note = read_note(SignedNote(TEXT, lines).to_bytes())
        mine = verified_lines(note, [KEY])
        assert mine == ((VerifiedLine(KEY, None),) if len(lines) == 3 else ())


def test_a_known_key_s_false_line_refuses_the_note_and_so_does_a_first_one_of_two():
    false = NoteSignature(KEY.name, KEY.key_hash, bytes(64))
    for lines in ((false,), (false, *NOTE.signatures), (NoteSignature(KEY.name, KEY.key_hash, b"short"),)):
        with pytest.raises(FalseSignature, match=r"of statistics\.example/journal \("):
            verified_lines(SignedNote(TEXT, lines), [KEY])
    kept = verified_lines(
        SignedNote(TEXT, (*NOTE.signatures, false)), [KEY]
    )  # a repeated line is left aside, as in Go
    assert kept == (VerifiedLine(KEY, None),)


def test_a_cosignature_signs_its_time_and_holds_for_its_own_type_alone():
    assert verified_lines(COSIGNED, [KEY, WITNESS_KEY]) == (
        VerifiedLine(KEY, None),
        VerifiedLine(WITNESS_KEY, 1_700_000_000),
    )
    line = COSIGNED.signatures[1]
    message = f"cosignature/v1\ntime 1700000000\n{TEXT}".encode()
    WITNESS.public_key().verify(line.signature[8:], message)
    later = NoteSignature(line.name, line.key_hash, (1_700_000_001).to_bytes(8, "big") + line.signature[8:])
    with pytest.raises(FalseSignature):
        verified_lines(SignedNote(TEXT, (later,)), [WITNESS_KEY])
    plain = VerifierKey(WITNESS_KEY.name, WITNESS_KEY.public)
    assert verified_lines(COSIGNED, [plain]) == ()  # the type is part of the hash
    for refused in (
        lambda: sign_note(TEXT, WITNESS_KEY, WITNESS.sign),
        lambda: cosign_note(TEXT, KEY, SECRET.sign, time=1),
    ):
        with pytest.raises(MalformedNote, match="key type"):
            refused()
    with pytest.raises(MalformedNote, match="time: -1"):
        cosign_note(TEXT, WITNESS_KEY, WITNESS.sign, time=-1)


NAME, LINE = KEY.name.encode(), NOTE.to_bytes().split(b"\n\n")[1]
MALFORMED = [
    (b"", "blank line: none"),
    (b"\n\n" + LINE, "blank line: none"),
    (TEXT.encode() + LINE, "blank line: none"),
    (TEXT.encode() + b"\n", "last line: no newline at its end, or no signature line"),
    (NOTE.to_bytes()[:-1], "last line: no newline"),
    (b"\xff" + NOTE.to_bytes(), "encoding: byte 0 is not UTF-8"),
    (b"a\tb" + NOTE.to_bytes(), "text: a control character"),
    (NOTE.to_bytes().replace(b"\n", b"\r\n"), "blank line: none"),
    (TEXT.encode() + b"\n- name AAAAAAAA\n", "signature line 1: not of the form"),
    (TEXT.encode() + "\n\u2014 name\n".encode(), "signature line 1: not of the form"),
    (TEXT.encode() + "\n\u2014  AAAAAAAA\n".encode(), "key name"),
    (TEXT.encode() + "\n\u2014 a+b AAAAAAAA\n".encode(), "key name"),
    (TEXT.encode() + "\n\u2014 a\u00a0b AAAAAAAA\n".encode(), "key name"),
    (TEXT.encode() + b"\n" + LINE + "\u2014 name !!!!\n".encode(), "signature line 2: no standard base64"),
    (TEXT.encode() + "\n\u2014 name AAAAAAAB AA\n".encode(), "signature line 1: no standard base64"),
    (TEXT.encode() + "\n\u2014 name AAAAAB==\n".encode(), "signature line 1: base64 in another form"),
    (TEXT.encode() + "\n\u2014 name AAAAAA==\n".encode(), "signature line 1: 4 bytes; more than 4"),
    (TEXT.encode() + b"\n" + LINE * 101, "signature lines: 101; allowed are 100"),
    (b"a" * 1_000_001, "length: 1000001 bytes"),
]


@pytest.mark.parametrize(("content", "rule"), MALFORMED)
def test_a_malformed_note_is_refused_by_the_name_of_the_rule(content: bytes, rule: str):
    with pytest.raises(MalformedNote) as refused:
        read_note(content)
    assert str(refused.value).startswith(rule)


def test_sixteen_signatures_of_five_kilobytes_are_read():
    lines = tuple(NoteSignature(f"w{number}.example", bytes(4), bytes(5000)) for number in range(16))
    assert read_note(SignedNote(TEXT, lines).to_bytes()).signatures == lines


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a\n1\n", "three lines"),
        ("a\n\n1\n", "three lines"),
        ("a\n01\nAA==\n", "line 2"),
        ("a\n-1\nAA==\n", "line 2"),
        ("a\n\u0661\nAA==\n", "line 2"),
        ("a\n1\nAA==\n", "line 3: a root of 1 bytes"),
        ("a\n1\nnone\u00e9\n", "line 3: no standard base64"),
        ("a\n1\n" + b64encode(bytes(32)).decode(), "no newline"),
    ],
)
def test_a_malformed_checkpoint_is_refused_by_its_line(text: str, rule: str):
    with pytest.raises(MalformedNote, match=rule):
        read_tree_head(text)


def test_a_changed_verifier_key_is_refused_wherever_a_character_changes():
    for place in range(len(GO_KEY)):
        with pytest.raises(MalformedNote):
            read_verifier_key(GO_KEY[:place] + chr(ord(GO_KEY[place]) + 1) + GO_KEY[place + 1 :])
    for text in ("", "a+b", GO_KEY + "=", GO_KEY[:-4]):
        with pytest.raises(MalformedNote):
            read_verifier_key(text)


@given(st.data())
def test_no_changed_byte_of_a_note_passes(data: st.DataObject):
    whole = bytearray(NOTE.to_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    assert believed(NOTE.to_bytes())
    assert not believed(bytes(whole))


@given(st.binary(max_size=300))
def test_what_is_read_is_written_again_byte_for_byte(content: bytes):
    for whole in (content, TEXT.encode() + b"\n" + content):
        try:
            note = read_note(whole)
        except MalformedNote:
            continue
        assert note.to_bytes() == whole


NAMES = ("a", "b", "c")
LINES = [
    f"witness {name} {VerifierKey(f'witness.example/{name}', bytes([place]) * 32, COSIGNATURE).text} https://w.example/{name}/"
    for place, name in enumerate(NAMES)
]
LOG = VerifierKey("statistics.example/journal", bytes([9]) * 32).text
POLICY = "\n".join(["# mine", f"log {LOG}", "", *LINES, "group two 2 a b c", "quorum two", ""])


def test_two_of_three_is_met_by_every_pair_and_by_no_single_one():
    policy = read_policy(POLICY)
    met = [set(names) for size in range(4) for names in combinations(NAMES, size) if policy.is_met(names)]
    assert met == [{"a", "b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}]
    assert policy.witnesses["a"].url == "https://w.example/a"
    assert (policy.words, policy.logs[0].name) == ("2 of 3 (a, b, c)", "statistics.example/journal")


def test_groups_of_groups_and_none():
    nested = read_policy(POLICY.replace("quorum two", "group one any a b\ngroup both all one c\nquorum both"))
    assert [nested.is_met(names) for names in (("a", "c"), ("b", "c"), ("a", "b"), ("c",))] == [
        True,
        True,
        False,
        False,
    ]
    assert read_policy(POLICY.replace("quorum two", "quorum none")).is_met(())
    assert not read_policy(POLICY.replace("quorum two", "quorum c")).is_met(("a", "b"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("group two 2", "group two 4", "line 7: '4' of 3, which no set of witnesses can meet"),
        ("group two 2", "group two 0", "which no set of witnesses can meet"),
        ("group two 2", "group two most", "which no set of witnesses can meet"),
        ("a b c", "a b d", "line 7: 'd'; members are names above it"),
        ("a b c", "a a b", "members are names above it, each once"),
        ("quorum two", "quorum three", "line 8: quorum 'three'"),
        ("quorum two\n", "", "no line quorum"),
        ("quorum two", "quorum two\nquorum two", "line 9: 'quorum two'; allowed are"),
        ("witness b", "witness a", "line 5: the name 'a' again"),
        (LINES[1].split()[2], LINES[0].split()[2], "line 5: the key of a witness above"),
        (LINES[0].split()[2], LOG, "line 4: a key of type 1"),
        ("https://w.example/b", "ftp://w.example/b", "line 5: 'ftp://w.example/b'"),
        (LOG, LOG[:-1], "line 2: verifier key"),
        (
            "quorum two",
            "group x any a b\ngroup y any a c\ngroup z all x y\nquorum z",
            "line 11: 'a' would count twice for 'z'",
        ),
        ("quorum two", "group x 2 a two\nquorum x", "line 9: 'a' would count twice"),
        ("quorum two", "group x any two\ngroup y all two x\nquorum y", "line 10: 'two' would count twice"),
        ("# mine", "quota 2", "line 1: 'quota 2'; allowed are log KEY"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, words: str):
    assert old in POLICY
    with pytest.raises(PolicyUnmet) as told:
        read_policy(POLICY.replace(old, new, 1))
    assert words in str(told.value)


def test_a_cosignature_is_of_a_time_that_has_been():
    """An hour is allowed, for clocks differ; no number is too large to be refused by name."""
    now = 1_800_000_000
    assert [time_problem(time, now=now) for time in (1, now, now + 3600)] == ["", "", ""]
    assert "says nothing of when" in time_problem(0, now=now)
    for time in (now + 3601, 2**62, 2**63 - 1):
        assert f"time {time} (seconds since 1970), more than an hour ahead" in time_problem(time, now=now)
