"""A copy that fails, of a period that was charged and published."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._periodic_place import Periodic, make_periodic
from benchmarks.orchestration import release_plainly
from contracts.errors import StoreAway
from flows.periods.publications import settled
from flows.request import read_request
from sudare_lakes import object_store
from tasks.storage.workspace.run_folder import CHARGE_STATES, RunFolder
from tests.extensions.sudare_lakes.object_server import ObjectServer
from tests.flows.periods.test_period_charges import PERIOD, _epsilons


@pytest.fixture
def place(tmp_path: Path) -> Periodic:
    return make_periodic(tmp_path)


def test_a_copy_that_fails_again_says_that_the_period_is_paid_and_entered(
    place: Periodic, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is charged a second time, and the line about the charge must not say that nothing was."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    place.spec.write_text(place.spec.read_text().replace("to: releases/", f"to: '{object_server.bucket()}/open'"))
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    request, run = read_request(place.spec, place.workspace, PERIOD), RunFolder(place.folder)
    object_server.fails = lambda number: "before"
    with pytest.raises(StoreAway):
        settled(request, place.workspace, run, supersede=False)
    assert "its charge is spent and the version is entered" in CHARGE_STATES[run.charge]
    assert not run.resumable
    object_server.heal()
    found = settled(request, place.workspace, run, supersede=False)
    assert found is not None
    assert (found.repeated, found.copy is not None, _epsilons(place)) == (True, True, 1)
