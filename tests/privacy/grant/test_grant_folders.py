"""The draws of a run are in one folder for good: no copy, no other folder and no emptied one draws a second time."""

import shutil
from collections.abc import Callable

import numpy as np
import pytest

from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import LedgerCorrupt, LedgerRefusal
from privacy.ledger.store.journal import Journal
from tests.privacy.grant.crashes import Killed, die, opened
from tests.privacy.grant.test_grant import ZEROS
from tests.privacy.ledger.ledgers import HALF, Counted, Place, ledger_with_account, request


def copied(place: Place) -> Place:
    shutil.copytree(place.folder / "draws", place.folder / "copy" / "draws")
    return Place(place.url, place.folder / "copy", place.opened)


def test_two_folders_of_draws_on_one_ledger_never_make_two_draws_of_one(place: Place):
    """Two copies of a workspace go on with the same run: the ledger holds the first one's draw, the second stops."""
    ledger, grant = opened(place)
    copy = open_grant(copied(place).open(), "run-1")
    first: list[str] = []

    class Slow(Counted):
        def _count(self) -> np.ndarray:
            first.append(grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a").sha256)
            return super()._count()

    with pytest.raises(LedgerCorrupt, match=r"draw 0 of run run-1 .* another folder of draws"):
        copy.draw(MarginalQuery(Slow(ZEROS).handle, HALF), key="a")
    drawn = [entry.body["sha256"] for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    assert drawn == first
    with pytest.raises(LedgerCorrupt, match="not the values that were entered"):
        copy.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    assert grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a").sha256 == first[0]
    assert ledger.verify() == []


def test_a_copy_of_the_workspace_that_comes_later_draws_nothing(place: Place):
    ledger, grant = opened(place)
    older = copied(place)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    copy = open_grant(older.open(), "run-1")
    counted = Counted(ZEROS)
    with pytest.raises(LedgerCorrupt, match="its file is gone"):
        copy.draw(MarginalQuery(counted.handle, HALF), key="a")
    assert counted.opened == 0
    assert ledger.verify() == []


def kill_before_the_entry(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", die)
        with pytest.raises(Killed):
            act()


@pytest.mark.parametrize("emptied", [False, True])
def test_after_a_crash_between_a_draw_and_its_entry_no_other_folder_draws_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, emptied: bool
):
    """Another folder, or the same one emptied, each time anew: refused; in the folder itself the draw is replayed."""
    ledger, grant = opened(place)
    kill_before_the_entry(monkeypatch, lambda: grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a"))
    folder, kept = place.folder / "draws" / "run-1", place.folder / "kept"
    written = (folder / "000000.draw").read_bytes()
    if emptied:
        folder.rename(kept)
    for attempt in range(2):
        where = place if emptied else Place(place.url, place.folder / f"other-{attempt}", place.opened)
        with pytest.raises(LedgerRefusal, match="never drawn a second time") as refused:
            open_grant(where.open(), "run-1")
        assert str(where.folder / "draws" / "run-1") in refused.value.findings[0].remedy
        assert list(where.folder.rglob("run-1/*.draw")) == []
    assert "noise_drawn" not in [entry.kind for entry in ledger.entries_of("run-1")]
    if emptied:
        kept.rename(folder)
    counted = Counted(ZEROS)
    measured = open_grant(ledger, "run-1").draw(MarginalQuery(counted.handle, HALF), key="a")
    assert counted.opened == 0
    assert measured.sha256.encode() in written
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1
    assert ledger.verify() == []


def test_a_crash_before_the_opening_is_entered_binds_the_charge_to_no_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The folder has its identity and nothing was drawn: whichever folder opens the charge first has it for good."""
    ledger = ledger_with_account(place)
    ledger.reserve(request())
    kill_before_the_entry(monkeypatch, lambda: open_grant(ledger, "run-1"))
    identity = (place.folder / "draws" / "run-1" / "folder.json").read_bytes()
    other = Place(place.url, place.folder / "other", place.opened)
    open_grant(other.open(), "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    with pytest.raises(LedgerRefusal, match="another folder of draws"):
        open_grant(ledger, "run-1")
    ledger.reserve(request("run-2"))
    kill_before_the_entry(monkeypatch, lambda: open_grant(ledger, "run-2"))
    open_grant(ledger, "run-2").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    assert (place.folder / "draws" / "run-1" / "folder.json").read_bytes() == identity
    assert ledger.verify() == []


@pytest.mark.parametrize("damage", [lambda content: b"{}", lambda content: content.replace(b"run-1", b"run-2")])
def test_a_damaged_identity_of_a_folder_is_corruption(place: Place, damage: Callable[[bytes], bytes]):
    ledger, _ = opened(place)
    file = place.folder / "draws" / "run-1" / "folder.json"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(LedgerCorrupt, match="identity of the draws of run run-1"):
        open_grant(ledger, "run-1")
