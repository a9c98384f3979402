"""A ledger that is only read: every page is what going through the whole journal would give, on both stores."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from privacy.accounting.amounts import PICO
from privacy.ledger.accounts.fold import parts_in
from privacy.ledger.entries import KINDS, Entry, LedgerUnavailable
from privacy.ledger.journal.merkle import root_from_proof
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.store import search
from privacy.ledger.store.search import EntryFilter, entries, entry_at, prove
from privacy.ledger.view import Claimed, LedgerView, published_at
from tests.privacy.ledger.ledgers import Place, bind, laplace, opened, published, request

SIGNER = Signer(bytes(range(32)))
RELEASES = ("ages", "ages-wide", "incomes")


@pytest.fixture
def past(place: Place) -> Ledger:
    """Two accounts, three releases, seven runs: published, withdrawn, given back, charged again, or only reserved."""
    ledger = opened(place, "2023", "2024", epsilon=30)
    sources = {block: bind(ledger, block, source=f"file:{block}.parquet") for block in ("2023", "2024")}
    for number in range(5):
        block = "2023" if number % 2 else "2024"
        named = {"account": f"people-{block}", "source": sources[block], "release": RELEASES[number % 3]}
        published(ledger, f"run-{number}", noise=laplace(0.25), **named)
        if number != 4:
            ledger.prove(f"run-{number}", SIGNER)
    ledger.withdraw("ages", 1, reason="wrong year")
    other = request("run-5", noise=laplace(0.5), source=sources["2024"], release="incomes")
    for _ in range(2):
        ledger.reserve(other)
        ledger.return_charge("run-5")
    ledger.reserve(other)
    ledger.reserve(request("run-6", noise=laplace(0.5), source=sources["2024"], release="incomes"))
    ledger.return_charge("run-6")
    ledger.record_gate_failure(other, ["rows"])
    return ledger


def subjects(ledger: Ledger, wanted: EntryFilter) -> set[str] | None:
    """What the entries that are wanted may be about, folded out of the whole journal; None for anything."""
    found: set[str] | None = None
    journal = ledger.journal()
    charged = [entry for entry in journal if entry.kind == "charge_reserved"]
    if wanted.release is not None:
        found = {entry.body["run_key"] for entry in charged if entry.body["release"] == wanted.release}
    if wanted.account is not None:
        named = {entry.body["run_key"] for entry in charged if wanted.account in parts_in(entry.body)}
        named |= {wanted.account} if wanted.account in {state.terms.name for state in ledger.accounts()} else set()
        found = named if found is None else found & named
    return found


def subject(entry: Entry) -> str:
    body = entry.body
    return str(body.get("run_key") or body.get("account") or body.get("name") or body.get("source") or "")


def expected(
    journal: Sequence[Entry], about: set[str] | None, wanted: EntryFilter, before: int | None, limit: int
) -> list[Entry]:
    found = [
        entry
        for entry in reversed(journal)
        if (before is None or entry.sequence < before)
        and (about is None or subject(entry) in about)
        and wanted.kind in (None, entry.kind)
        and wanted.run in (None, subject(entry))
        and entry.kind not in wanted.without
    ]
    return found[:limit]


@pytest.mark.long
@pytest.mark.parametrize("few", [500, 1])
def test_a_search_finds_what_going_through_the_whole_journal_finds(
    past: Ledger, place: Place, monkeypatch: pytest.MonkeyPatch, few: int
):
    """Every combination of kind, release, account and page, by either of the two ways to look for many runs."""
    monkeypatch.setattr(search, "_FEW_RUNS", few)
    view = LedgerView(place.url)
    releases, accounts = (None, "ages", "incomes", "nowhere"), (None, "people-2023", "people-2024", "nobody")
    found, journal = 0, past.journal()
    with view.reading() as connection:
        for release, account in product(releases, accounts):
            about = subjects(past, EntryFilter(release=release, account=account))
            for kind, (before, limit) in product((None, *KINDS), ((None, 3), (17, 2), (None, 1000))):
                wanted = EntryFilter(kind=kind, release=release, account=account)
                page = list(entries(connection, wanted, before=before, limit=limit))
                assert page == expected(journal, about, wanted, before, limit), wanted
                found += len(page)
        for wanted in (
            EntryFilter(run="run-5"),
            EntryFilter(run="run-5", kind="charge_returned"),
            EntryFilter(without=("gate_failed",)),
        ):
            assert list(entries(connection, wanted, before=None, limit=50)) == expected(
                journal, None, wanted, None, 50
            )
    view.close()
    assert found > 100


def test_pages_one_after_the_other_are_the_whole(past: Ledger, place: Place):
    view, wanted, seen = LedgerView(place.url), EntryFilter(account="people-2024"), list[Entry]()
    with view.reading() as connection:
        while page := entries(connection, wanted, before=seen[-1].sequence if seen else None, limit=4):
            seen += page
    view.close()
    assert seen == expected(past.journal(), subjects(past, wanted), wanted, None, 1000)


def test_an_entry_is_proven_under_the_last_checkpoint_or_not_at_all(past: Ledger, place: Place):
    """The path of each entry that a checkpoint covers leads to its root; the entries after it have no proof yet."""
    view = LedgerView(place.url)
    last = view.checkpoints(limit=1)[0]
    assert last.size < view.size() == len(past.journal())
    with view.reading() as connection:
        for entry in past.journal():
            proof = prove(connection, entry.sequence)
            assert entry_at(connection, entry.sequence) == entry
            if entry.sequence >= last.size:
                assert proof is None
                continue
            assert proof is not None
            assert (proof.size, proof.root) == (last.size, last.root)
            assert root_from_proof(entry.hash, entry.sequence, proof.size, proof.path) == last.root
        assert entry_at(connection, 10_000) is None
    view.close()


def test_releases_and_versions_come_in_pages(past: Ledger, place: Place):
    view = LedgerView(place.url)
    lines = view.releases(limit=10)
    assert [(line.release, line.versions, line.newest.number) for line in lines] == [
        ("ages", 2, 2),
        ("ages-wide", 2, 2),
        ("incomes", 1, 1),
    ]
    assert [line.newest for line in lines] == [past.versions(line.release)[-1] for line in lines]
    assert [line.release for line in view.releases(limit=1, after="ages")] == ["ages-wide"]
    assert [line.release for line in view.releases(containing="wide", limit=10)] == ["ages-wide"]
    assert view.releases(containing="%", limit=10) == ()
    assert [line.release for line in view.releases(status="withdrawn", limit=10)] == ["ages"]
    assert [entry.number for entry in view.versions("ages", limit=10)] == [2, 1]
    assert [entry.number for entry in view.versions("ages", before=2, limit=10)] == [1]
    assert view.version("ages", 1) == past.versions("ages")[0]
    assert view.version("ages", 3) is None
    assert sum(view.counts().values()) == 5
    assert set(view.versions_of_runs(["run-1", "run-5"])) == {"run-1"}
    with view.reading() as connection:
        times = published_at(connection, ["run-1", "run-5"])
    [entry] = [e for e in past.entries_of("run-1") if e.kind == "version_published"]
    assert times == {"run-1": (entry.sequence, entry.at)}
    view.close()


def test_what_stands_charged_to_an_account_is_what_it_has_spent(past: Ledger, place: Place):
    """A charge that was given back counts only if it was taken again."""
    view = LedgerView(place.url)
    for state in past.accounts():
        name = state.terms.name
        spent = view.spent(name)
        assert sum(each.amount for each in spent) == state.spent > 0
        assert [each.entry for each in spent] == sorted(each.entry for each in spent)
        assert view.times([spent[0].entry])[spent[0].entry] == past.journal()[spent[0].entry].at
        charges = view.charges(name, limit=100)
        assert [line.run_key for line in charges] == [
            charge.request.run_key for charge in reversed(past.charges(account=name))
        ]
        assert view.charges(name, limit=2, before=charges[0].number) == charges[1:3]
        asked = [(each.request.epsilon, each.request.delta) for each in reversed(past.charges(account=name))]
        assert [(line.epsilon, line.delta) for line in charges] == asked
        standing = [each.request for each in past.charges(account=name) if each.status != "returned"]
        claims = Counter((each.release, each.epsilon, each.delta) for each in standing)
        assert view.claimed(name) == tuple(Claimed(*claim, runs) for claim, runs in sorted(claims.items()))
        assert view.account(name) == state
    assert {each.run_key for each in view.spent("people-2024")} == {"run-0", "run-2", "run-4", "run-5"}
    assert [line.version for line in view.charges("people-2024", limit=9)] == [None, None, 2, 1, 1]
    assert view.accounts(limit=1, after="people-2023") == (past.account("people-2024"),)
    assert past.account("people-2024").spent == 3 * PICO // 4 + PICO // 2
    view.close()


def test_a_view_makes_no_ledger_and_writes_nothing(place: Place, new_place: object, tmp_path: Path):
    """A missing file stays missing, an empty database empty: whoever looks must not create what is looked for."""
    missing = tmp_path / "none.sqlite"
    with pytest.raises(LedgerUnavailable, match=r"there is no ledger at .*sudare init"):
        LedgerView(f"sqlite:///{missing}")
    assert not missing.exists()
    empty = new_place(tables=False)  # type: ignore[operator]
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        LedgerView(empty.url)
    place.open()
    view = LedgerView(place.url)
    before = place.open().journal()
    view.releases(limit=5)
    view.close()
    assert place.open().journal() == before
