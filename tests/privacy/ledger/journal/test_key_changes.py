"""Changes of the signing key: which keys a pinned one leads to, and what a thief, a replay or a forgery gains."""

from dataclasses import replace
from itertools import permutations

import pytest

from privacy.ledger.journal.key_changes import KeyChange, SignedChange, key_history, read_change, signed_change
from privacy.ledger.journal.notes import MalformedNote, SignedNote, read_checkpoint
from privacy.ledger.journal.signing import Signer

NAME = "statistics.example/journal"
FIRST, SECOND, THIRD, THIEF, RECOVERY = (Signer(bytes([place]) * 32, NAME) for place in range(1, 6))
HOUR = "2026-11-25T22:00:00Z"


def change(
    before: Signer, after: Signer, *by: Signer, number: int = 1, kind: str = "rotated", size: int = 10
) -> SignedChange:
    said = KeyChange(number, kind, before.public_key, after.public_key, size, HOUR)  # type: ignore[arg-type]
    return signed_change(said, by or (before, after))


def led(pinned: Signer, *changes: SignedChange, recovery: Signer | None = None) -> dict[str, int | None]:
    """The keys that count, with the largest journal of each."""
    history = key_history(pinned.public_key, changes, recovery=None if recovery is None else recovery.public_key)
    return {each.key: each.most for each in history.trusted}


ONE, TWO = change(FIRST, SECOND), change(SECOND, THIRD, number=2, size=20)


def test_a_chain_leads_from_any_of_its_keys_to_all():
    """Forwards to those that follow, backwards to those before, each for the journal that it vouches for."""
    all_of_it = {FIRST.public_key: 10, SECOND.public_key: 20, THIRD.public_key: None}
    for order in permutations((ONE, TWO)):
        for pinned in (FIRST, SECOND, THIRD):
            assert led(pinned, *order) == all_of_it
    assert led(THIEF, ONE, TWO) == {THIEF.public_key: None}
    assert led(FIRST, TWO) == {FIRST.public_key: None}


@pytest.mark.parametrize(
    "forged",
    [
        change(FIRST, THIEF, THIEF, RECOVERY),
        change(FIRST, THIEF, FIRST, RECOVERY),
        SignedChange(replace(ONE.change, successor=THIEF.public_key), ONE.note),
        change(FIRST, THIEF, THIEF, kind="revoked"),
    ],
    ids=["not by the key", "not by the successor", "another note's lines", "a revocation by the thief alone"],
)
def test_a_change_without_both_signatures_leads_nowhere(forged: SignedChange):
    assert THIEF.public_key not in led(FIRST, read_change(forged.note.to_bytes().decode()))


def test_two_successors_of_one_key_lead_nowhere():
    """Whoever has the key showed one successor to some and another to others: neither counts."""
    assert led(FIRST, ONE, change(FIRST, THIEF)) == {FIRST.public_key: 10}
    assert led(SECOND, ONE, change(FIRST, THIEF)) == {SECOND.public_key: None}


def test_a_key_that_revokes_itself_counts_no_more_and_names_nobody():
    """A thief could have signed it: it takes trust away, and gives none."""
    by_itself = change(FIRST, SECOND, kind="revoked")
    history = key_history(FIRST.public_key, [by_itself])
    assert history.trusted == ()
    assert [key for key, _ in history.revoked] == [FIRST.public_key]


def test_the_recovery_key_leads_on_even_after_the_thief_rotated():
    """The publisher's word by the recovery key wins over whatever the stolen key signed before or after."""
    rescue = change(FIRST, SECOND, RECOVERY, SECOND, number=2, kind="revoked")
    stolen = change(FIRST, THIEF)
    assert led(FIRST, stolen, rescue, recovery=RECOVERY) == {SECOND.public_key: None}
    assert led(FIRST, stolen, rescue) == {FIRST.public_key: 10, THIEF.public_key: None}, "without the pin it cannot"
    assert led(SECOND, stolen, rescue, recovery=RECOVERY) == {SECOND.public_key: None}
    assert led(FIRST, change(FIRST, SECOND, THIEF, SECOND, kind="revoked"), recovery=RECOVERY) == {
        FIRST.public_key: None
    }


def test_junk_hides_no_change():
    """However many notes of strangers stand before it, a revocation counts."""
    junk = [change(THIEF, RECOVERY, number=number, size=number) for number in range(1, 151)]
    revoked = change(FIRST, SECOND, RECOVERY, SECOND, kind="revoked")
    assert FIRST.public_key not in led(FIRST, *junk, revoked, recovery=RECOVERY)


def test_a_key_vouches_for_nothing_after_it_was_given_up():
    history = key_history(FIRST.public_key, [ONE])
    before, after = history.trusted
    assert (before.vouches(10, HOUR), before.vouches(11, HOUR)) == (True, False)
    assert not before.vouches(10, "2026-11-25T23:00:00Z")
    assert after.vouches(10**9, "2099-01-01T00:00:00Z")


def test_every_changed_character_of_a_note_is_found():
    """Any other character in the text either breaks its form or both signatures."""
    note = ONE.note.to_bytes().decode()
    for place in range(len(ONE.note.text)):
        other = "1" if note[place] != "1" else "2"
        try:
            read = read_change(note[:place] + other + note[place + 1 :])
        except MalformedNote:
            continue
        assert not (read.is_signed_by(FIRST.public_key) and read.is_signed_by(SECOND.public_key))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sudare-key-change/1", "sudare-key-change/2", "7 lines are needed"),
        ("\n1\n", "\n01\n", "whole numbers"),
        ("\n10\n", "\n-1\n", "whole numbers"),
        ("rotated", "lost", "rotated or revoked"),
        (HOUR, "2026-11-25T22:30:00Z", "an hour is needed"),
        (SECOND.public_key, Signer(bytes([2]) * 32, "another.name").public_key, "two keys of one name"),
        (SECOND.public_key, FIRST.public_key, "two keys of one name"),
    ],
)
def test_a_note_of_another_form_is_refused_by_its_line(old: str, new: str, words: str):
    note = ONE.note.to_bytes().decode()
    assert old in note
    with pytest.raises(MalformedNote, match=words):
        read_change(note.replace(old, new))


def test_a_change_is_no_checkpoint_and_a_checkpoint_is_no_change():
    """What a key signed as the one cannot be shown as the other."""
    with pytest.raises(MalformedNote, match="base64"):
        read_checkpoint(ONE.note.to_bytes().decode())
    with pytest.raises(MalformedNote, match="7 lines"):
        read_change(SignedNote(f"{NAME}\n1\n{'A' * 43}=\n", ONE.note.signatures).to_bytes().decode())
