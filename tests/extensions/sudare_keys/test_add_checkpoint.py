"""What a witness cosigns, and what it refuses: every rule of tlog-witness, every fork of a small journal."""

from dataclasses import replace

import pytest
from rich.text import Text

from console.main import root_command
from privacy.ledger.journal.merkle import appended, consistency_proof, root
from privacy.ledger.journal.notes import MalformedNote, SignedNote, TreeHead
from privacy.ledger.journal.signing import Signer
from sudare_keys import witness
from sudare_keys.add_checkpoint import WitnessedHead, add_checkpoint, read_add_checkpoint, verdict
from tests.console.conftest import said

SIGNER, OTHER = Signer(bytes(32), "statistics.example/journal"), Signer(bytes([1]) * 32, "statistics.example/journal")
KEYS = {SIGNER.verifier.name: SIGNER.verifier}


class Tree:
    def __init__(self, leaves: list[str]) -> None:
        frontier: tuple[str, ...] = ()
        self.roots, self._completed, self._leaves = [""], [], leaves
        for size, leaf in enumerate(leaves):
            frontier, subtrees = appended(frontier, size, leaf)
            self._completed.append(subtrees)
            self.roots.append(root(frontier))

    def node(self, level: int, index: int) -> str:
        return self._completed[((index + 1) << level) - 1][level - 1] if level else self._leaves[index]

    def request(self, old: int, size: int, signer: Signer = SIGNER) -> bytes:
        path = consistency_proof(self.node, old, size) if 0 < old < size else ()
        return add_checkpoint(old, path, self.note(size, signer))

    def note(self, size: int, signer: Signer = SIGNER) -> SignedNote:
        return signer.note(TreeHead(signer.verifier.name, size, self.roots[size]).text)


MINE = Tree([f"{place:064x}" for place in range(12)])
FORK = Tree([f"{place:064x}" if place < 5 else f"{place + 100:064x}" for place in range(12)])


def answered(body: bytes, seen: WitnessedHead) -> tuple[int, str]:
    told = verdict(read_add_checkpoint(body), KEYS, seen)
    assert (told.head is not None) == (told.status == 200)
    return told.status, told.text


def test_a_journal_that_grows_is_cosigned_at_every_step():
    for old in range(12):
        for size in range(max(old, 1), 13):
            seen = WitnessedHead(old, MINE.roots[old])
            told = verdict(read_add_checkpoint(MINE.request(old, size)), KEYS, seen)
            assert (told.status, told.head) == (200, WitnessedHead(size, MINE.roots[size]))


def test_every_fork_is_refused_wherever_it_parts():
    """After entry 5 the two differ: whoever saw one is never led to the other, from any size to any size."""
    for old in range(6, 13):
        for size in range(old, 13):
            status, _ = answered(FORK.request(old, size), WitnessedHead(old, MINE.roots[old]))
            assert status == (409 if size == old else 422)


@pytest.mark.parametrize(
    ("body", "seen", "expected"),
    [
        (MINE.request(0, 8), WitnessedHead(5, MINE.roots[5]), (409, "5\n")),
        (MINE.request(5, 3 + 5), WitnessedHead(12, MINE.roots[12]), (409, "12\n")),
        (MINE.request(0, 8, OTHER), WitnessedHead(), (403, "not signed")),
        (MINE.request(0, 8, Signer(bytes(32), "another")), WitnessedHead(), (404, "a journal that")),
        (MINE.request(0, 4).replace(b"old 0", b"old 9"), WitnessedHead(9, MINE.roots[9]), (400, "the old size")),
    ],
)
def test_what_is_not_to_be_cosigned_is_refused_by_its_status(
    body: bytes, seen: WitnessedHead, expected: tuple[int, str]
):
    status, text = answered(body, seen)
    assert status == expected[0]
    assert text.startswith(expected[1])


def test_a_proof_with_any_changed_hash_is_refused():
    request = read_add_checkpoint(MINE.request(5, 11))
    for place in range(len(request.path)):
        path = tuple("0" * 64 if at == place else each for at, each in enumerate(request.path))
        assert verdict(replace(request, path=path), KEYS, WitnessedHead(5, MINE.roots[5])).status == 422
    longer = replace(request, path=(*request.path, "0" * 64))
    assert verdict(longer, KEYS, WitnessedHead(5, MINE.roots[5])).status == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old x\n\n",
        b"old 5\nnot base64\n\n" + MINE.note(8).to_bytes(),
        b"old 5\n\nno note",
        b"old 5\n" + b"AAAA\n" + b"\n" + MINE.note(8).to_bytes(),
        b"old 5\n" + b"A" * 43 + b"=\n" * 1 + (b"A" * 43 + b"=\n") * 63 + b"\n" + MINE.note(8).to_bytes(),
        b"\xff\xfe\n\n",
    ],
)
def test_garbage_is_refused_by_its_rule(body: bytes):
    with pytest.raises(MalformedNote):
        read_add_checkpoint(body)


def test_the_command_is_registered_and_listed_with_its_line_of_help():
    root = root_command()
    with root.make_context("sudare", ["--help"], resilient_parsing=True) as context:
        assert "witness" in root.list_commands(context)
        command = root.get_command(context, "witness")
    assert (
        command.short_help == "Serve a witness: cosign each checkpoint of these journals that extends the one before."
    )


def test_its_help_has_an_example_and_json_and_no_markup():
    told = said("witness", "--help")
    assert told.code == 0
    assert "sudare witness" in told.out.split("Examples:")[1]
    assert "--json" in told.out
    text = witness.witness.__doc__ or ""
    assert Text.from_markup(text).plain == text
