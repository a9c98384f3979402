"""Versions in the ledger: numbered, published, superseded, withdrawn; each keeps its charge; on either store."""

import pytest

from privacy.grant.grant import open_grant
from privacy.ledger.accounts.version_entries import MOST_REASON
from privacy.ledger.entries import Entry, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.ledger.ledgers import (
    SIGNER,
    Place,
    laplace,
    ledger_with_account,
    published,
    record_publication,
    request,
)

SMALL = laplace(0.1)


def charged(place: Place, *runs: str) -> Ledger:
    """A ledger with runs whose grants are open and whose versions are allocated in this order."""
    ledger = ledger_with_account(place)
    for run in runs:
        ledger.reserve(request(run, noise=SMALL))
        open_grant(ledger, run)
        ledger.allocate_version(run)
    return ledger


def statuses(ledger: Ledger) -> list[str]:
    return [version.status for version in ledger.versions("people-tables")]


def test_versions_are_numbered_by_release_and_a_run_has_one(place: Place):
    ledger = charged(place, "run-1", "run-2")
    ledger.reserve(request("run-3", noise=SMALL, release="other"))
    assert [ledger.allocate_version(run).number for run in ("run-1", "run-2", "run-1", "run-3")] == [1, 2, 1, 1]
    assert [(version.release, version.number) for version in ledger.versions()] == [
        ("other", 1),
        ("people-tables", 1),
        ("people-tables", 2),
    ]
    assert {version.status for version in ledger.versions()} == {"allocated"}


def test_a_publication_is_entered_once(place: Place):
    ledger = charged(place, "run-1")
    entry = record_publication(ledger, "run-1", "e" * 64)
    assert entry.body == {
        "run_key": "run-1",
        "release": "people-tables",
        "number": 1,
        "manifest": "e" * 64,
        "supersedes": None,
        "earlier": [],
    }
    assert record_publication(ledger, "run-1", "e" * 64) == entry
    assert ledger.entries_of("run-1")[-1] == entry
    (version,) = ledger.versions()
    assert (version.status, version.manifest) == ("published", "e" * 64)
    charge = ledger.charge("run-1")
    assert charge is not None
    assert charge.status == "published"


def test_a_version_never_changes_once_it_is_entered(place: Place):
    ledger = charged(place, "run-1")
    record_publication(ledger, "run-1", "e" * 64)
    with pytest.raises(LedgerRefusal, match=r"(?s)people-tables v1: MANIFEST.json.*a version never changes"):
        record_publication(ledger, "run-1", "f" * 64)
    assert ledger.versions()[0].manifest == "e" * 64


def test_what_has_no_version_or_no_grant_is_not_published(place: Place):
    ledger = ledger_with_account(place)
    ledger.reserve(request("run-1", noise=SMALL))
    with pytest.raises(LedgerRefusal, match="none drawn"):
        record_publication(ledger, "run-1", "e" * 64)
    open_grant(ledger, "run-1")
    with pytest.raises(LedgerRefusal, match="an allocated version"):
        record_publication(ledger, "run-1", "e" * 64)
    with pytest.raises(LedgerRefusal, match="run nothing"):
        record_publication(ledger, "nothing", "e" * 64)


def test_seeded_noise_is_never_published(place: Place):
    ledger = ledger_with_account(place)
    ledger.reserve(request())
    open_grant(ledger, "run-1", seeded=SeededBytes(1))
    ledger.allocate_version("run-1")
    with pytest.raises(LedgerRefusal, match="never published"):
        record_publication(ledger, "run-1", "e" * 64)
    assert statuses(ledger) == ["allocated"]


def publish_all(ledger: Ledger, *runs: str) -> list[Entry]:
    entries = []
    for run in runs:
        entries.append(record_publication(ledger, run, "e" * 64))
        ledger.prove(run, SIGNER)
    return entries


def test_a_later_version_supersedes_the_one_before_and_both_keep_their_charges(place: Place):
    ledger = charged(place, "run-1", "run-2", "run-3")
    spent = ledger.account("people-2024").spent
    entries = publish_all(ledger, "run-1", "run-2")
    assert [entry.body["supersedes"] for entry in entries] == [None, 1]
    assert statuses(ledger) == ["superseded", "published", "allocated"]
    assert publish_all(ledger, "run-3")[0].body["supersedes"] == 2
    assert statuses(ledger) == ["superseded", "superseded", "published"]
    assert ledger.account("people-2024").spent == spent
    assert ledger.verify() == []


def test_releases_supersede_only_themselves(place: Place):
    ledger = ledger_with_account(place)
    published(ledger, "run-1", noise=SMALL)
    published(ledger, "run-2", noise=SMALL, release="other")
    assert {version.status for version in ledger.versions()} == {"published"}


def test_an_older_version_that_comes_late_is_superseded_already(place: Place):
    ledger = charged(place, "run-1", "run-2", "run-3")
    entries = publish_all(ledger, "run-3", "run-1", "run-2")
    assert statuses(ledger) == ["superseded", "superseded", "published"]
    assert [entry.body["supersedes"] for entry in entries] == [None, None, None]
    assert ledger.verify() == []


def test_a_withdrawn_version_stays_written_with_its_reason_and_its_charge(place: Place):
    ledger = charged(place, "run-1")
    publish_all(ledger, "run-1")
    spent = ledger.account("people-2024").spent
    withdrawn = ledger.withdraw("people-tables", 1, reason="a column was mislabelled")
    assert (withdrawn.status, withdrawn.manifest) == ("withdrawn", "e" * 64)
    assert ledger.versions() == (withdrawn,)
    last = ledger.entries_of("run-1")[-1]
    assert (last.kind, last.body["number"], last.body["reason"]) == (
        "version_withdrawn",
        1,
        "a column was mislabelled",
    )
    assert ledger.account("people-2024").spent == spent > 0
    with pytest.raises(LedgerRefusal, match="never opened"):
        ledger.return_charge("run-1")
    assert ledger.verify() == []


def test_a_version_is_withdrawn_once(place: Place):
    ledger = charged(place, "run-1")
    publish_all(ledger, "run-1")
    ledger.withdraw("people-tables", 1, reason="wrong")
    entries = ledger.journal()
    with pytest.raises(LedgerRefusal, match=r"(?s)people-tables v1: status.*withdrawn.*published or superseded"):
        ledger.withdraw("people-tables", 1, reason="wrong")
    assert ledger.journal() == entries
    assert record_publication(ledger, "run-1", "e" * 64).kind == "version_published"
    assert statuses(ledger) == ["withdrawn"]


def test_a_reason_is_short_enough_for_a_tile(place: Place):
    """An entry of a tile has a length of two bytes; the longest characters take twelve bytes, as two escapes."""
    ledger = charged(place, "run-1")
    publish_all(ledger, "run-1")
    with pytest.raises(LedgerRefusal, match=r"(?s)reason.*2,001 characters.*at most 2,000"):
        ledger.withdraw("people-tables", 1, reason="w" * (MOST_REASON + 1))
    assert statuses(ledger) == ["published"]
    ledger.withdraw("people-tables", 1, reason="\U0001f331" * MOST_REASON)
    assert len(ledger.journal()[-1].logged) < 2**16


def test_a_version_that_nobody_saw_is_not_withdrawn(place: Place):
    ledger = charged(place, "run-1")
    with pytest.raises(LedgerRefusal, match="never published"):
        ledger.withdraw("people-tables", 1, reason="wrong")


def test_a_version_that_there_is_not_is_refused_with_those_that_there_are(place: Place):
    ledger = charged(place, "run-1", "run-2")
    with pytest.raises(LedgerRefusal, match=r"(?s)people-tables v7.*one of v1, v2"):
        ledger.withdraw("people-tables", 7, reason="wrong")
    with pytest.raises(LedgerRefusal, match=r"(?s)other v1.*sudare releases list"):
        ledger.withdraw("other", 1, reason="wrong")


def test_the_version_after_a_withdrawn_one_supersedes_nothing(place: Place):
    ledger = charged(place, "run-1", "run-2", "run-3")
    publish_all(ledger, "run-1", "run-2")
    ledger.withdraw("people-tables", 2, reason="wrong")
    assert statuses(ledger) == ["superseded", "withdrawn", "allocated"]
    assert publish_all(ledger, "run-3")[0].body["supersedes"] is None
    assert statuses(ledger) == ["superseded", "withdrawn", "published"]
    ledger.withdraw("people-tables", 1, reason="also wrong")
    assert statuses(ledger) == ["withdrawn", "withdrawn", "published"]
    assert ledger.verify() == []
