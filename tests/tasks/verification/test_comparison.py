"""Two folders against each other: two versions of one number, and two journals of one key, without a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import SpecRefused
from privacy.ledger.journal.signing import Signer
from tasks.verification.comparison import compare_folders
from tests.tasks.verification.forgery import edit, forge, load, with_head
from tests.worlds.tables import first
from tests.worlds.versions import Version, Worlds, publish_version


@pytest.fixture
def mine(worlds: Worlds, tmp_path: Path) -> Version:
    return worlds.published(first()).copy(tmp_path / "mine" / "town" / "v1")


def test_a_copy_contradicts_nothing(mine: Version, tmp_path: Path) -> None:
    """Whether the two are named as versions, releases or stores."""
    theirs = mine.copy(tmp_path / "theirs" / "town" / "v1")
    for up in (0, 1, 2):
        one, other = ([v.folder, *v.folder.parents][up] for v in (mine, theirs))
        assert compare_folders(one, other, public_key=mine.key) == ([], [])


def test_two_versions_of_one_number_are_found(mine: Version, tmp_path: Path) -> None:
    """Both hold by themselves, signed by the publisher; side by side they do not."""
    theirs = forge(mine.copy(tmp_path / "theirs" / "town" / "v1"))
    findings, _ = compare_folders(mine.folder, theirs.folder, public_key=mine.key)
    fields = [finding.field for finding in findings]
    assert any(field.startswith("journal") for field in fields)
    other = publish_version(first(), tmp_path / "other")
    findings, _ = compare_folders(mine.folder, other.folder, public_key=mine.key)
    kinds = {finding.field.rpartition(" ")[0] for finding in findings}
    assert {"journal entry", "journal of size"} <= kinds
    assert any(finding.field.startswith("manifest ") for finding in findings)
    assert all("show both" in finding.remedy for finding in findings)


def test_a_proof_that_does_not_hold_is_no_testimony(mine: Version, tmp_path: Path) -> None:
    """Whoever changes a copy cannot make the publisher look like a cheat: what does not hold is left out."""
    theirs = mine.copy(tmp_path / "theirs" / "town" / "v1")
    proof = theirs.folder / "PROOF.json"
    assert load(proof)["checkpoint"]
    edit(proof, lambda value: with_head(value, theirs.signer, root="0" * 64))
    with pytest.raises(SpecRefused, match="proofs that hold under the pinned key"):
        compare_folders(mine.folder, theirs.folder, public_key=mine.key)


def test_a_folder_without_a_proof_under_the_key_is_refused(mine: Version, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecRefused, match=r"no PROOF\.json"):
        compare_folders(mine.folder, tmp_path / "empty", public_key=mine.key)
    with pytest.raises(SpecRefused, match="does not hold"):
        compare_folders(mine.folder, mine.folder, public_key=Signer(bytes(32)).public_key)


def test_two_journals_of_one_key_within_one_folder_are_found(mine: Version, tmp_path: Path) -> None:
    """A store may have both of them: the second proof is held against the first, and does not take its place."""
    publish_version(first(), tmp_path / "other").copy(tmp_path / "mine" / "village" / "v1")
    store, theirs = tmp_path / "mine", mine.copy(tmp_path / "theirs" / "town" / "v1")
    for one, other in ((store, theirs.folder), (theirs.folder, store), (store, store)):
        findings, _ = compare_folders(one, other, public_key=mine.key)
        inside = [finding for finding in findings if "another version in" in finding.allowed]
        kinds = {finding.field.rpartition(" ")[0] for finding in inside}
        assert {"journal entry", "journal of size"} <= kinds
        assert len(inside) == 3, "the manifest of the number too, the first place of each kind"
        assert all(finding.where.endswith("village/v1") for finding in inside)
