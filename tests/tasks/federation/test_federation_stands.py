"""A released federation stays as it is: the same run asks nothing, another run does not write over it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from flows.federation.federated_run import SiteNetwork, coordinate
from privacy.ledger.journal.signing import Signer
from tasks.federation.federation_outputs import WEIGHTS
from tasks.federation.federation_page import PAGE
from tasks.federation.federation_release import FederatedOutputs, Released, ReleaseStands, write_released
from tasks.federation.flower_processes import EngineMissing
from tasks.storage.workspace.settings import Workspace
from tests.tasks.federation.test_federation_page import sign_alone
from tests.tasks.federation.test_federation_sites import released
from tests.worlds.federations import CONTRACT, FEDERATION, ledger_of

Run = Callable[[], tuple[Released, list[str]]]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Run, Released]:
    """A release where its spec wants it; and its run, without Flower and without any site."""
    made, known, workspace, _ = released(tmp_path, FEDERATION)
    folder = workspace.root / "models" / "long-stays"
    copytree(made.folder, folder)
    network = SiteNetwork(tmp_path / "no-flower", "127.0.0.1", 1, None, joining=1, answering=1, between=0)

    def run() -> tuple[Released, list[str]]:
        told = list[str]()
        return coordinate(known.spec.path, workspace, network, told=told.append), told

    return folder, run, made


def test_what_is_released_is_not_made_again(published: tuple[Path, Run, Released], tmp_path: Path) -> None:
    """What lies there holds, and nothing is charged again; that other code made the page does not matter."""
    folder, run, made = published
    before = bytes_of(folder)
    again, told = run()
    assert (again, told) == (replace(made, folder=folder), ["it was released before: nothing is asked of any site"])
    assert bytes_of(folder) == before
    account = json.loads(before["federation.json"])
    page = before[PAGE].replace(b"Not protected", b"Not protected by anything")
    account["page"] = {"sha256": hashlib.sha256(page).hexdigest(), "code": "0" * 64}
    (folder / PAGE).write_bytes(page)
    sign_alone(folder, account, Workspace.open(made.folder.parent / "c"))
    written = bytes_of(folder)
    assert written != before
    run()
    assert bytes_of(folder) == written


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("federation.yaml", "batch: 300", "batch: 200", "the release of another spec\n"),
        ("wards.odcs.yaml", "version: 1.0.0", "version: 1.1.0", "the release of another contract\n"),
    ],
)
def test_another_run_does_not_write_over_a_release(
    published: tuple[Path, Run, Released], file: str, old: str, new: str, said: str
) -> None:
    folder, run, made = published
    before, path = bytes_of(folder), made.folder.parent / "c" / file
    assert old in FEDERATION + CONTRACT
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ReleaseStands, match=said) as refused:
        run()
    assert "do: give this federation another name or another `publish`, or move the folder" in str(refused.value)
    assert bytes_of(folder) == before


def test_a_release_that_does_not_hold_is_not_mended_by_writing_over_it(
    published: tuple[Path, Run, Released], tmp_path: Path
) -> None:
    """Nor is one that cannot be read. Moved elsewhere, the run goes on: here to where Flower is missing."""
    folder, run, _ = published
    (folder / WEIGHTS).write_bytes(b"")
    before = bytes_of(folder)
    with pytest.raises(ReleaseStands, match="this run's release, which does not hold") as refused:
        run()
    assert f"{WEIGHTS}: sha256" in str(refused.value)
    assert bytes_of(folder) == before
    (folder / "federation.json").write_bytes(b"[]")
    with pytest.raises(ReleaseStands, match="which cannot be read"):
        run()
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(EngineMissing):
        run()


def test_files_of_somebody_else_are_not_mixed_with_a_release(published: tuple[Path, Run, Released]) -> None:
    """What a run left that was killed before it wrote the account is its own, and is taken up."""
    folder, run, _ = published
    (folder / "federation.json").rename(folder / "federation.json.partial")
    (folder / "round-00000.npy").unlink()
    with pytest.raises(EngineMissing):
        run()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ReleaseStands, match="files that no run of this federation makes"):
        run()
    assert (folder / "notes.txt").read_text() == "mine"


def test_an_account_is_written_once(tmp_path: Path) -> None:
    """Also where it came while the rounds ran: whoever writes second writes nothing."""
    made, known, workspace, _ = released(tmp_path, FEDERATION)
    before = bytes_of(made.folder)
    with closing(ledger_of(workspace)) as ledger, pytest.raises(ReleaseStands, match="a folder without one"):
        write_released(made.folder, known, FederatedOutputs(()), ledger, Signer(workspace.signing_seed()))
    assert bytes_of(made.folder) == before
