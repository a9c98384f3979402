"""Runs of statistics from a file to a version: resumed where they stopped, never drawn or charged twice."""

import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks.orchestration import release_plainly
from contracts.periods.time_blocks import time_block
from flows.prepare import intake
from flows.request import read_request
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.ledger.entries import Entry
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from tasks.charge import charge
from tasks.products.charge_request import run_key
from tasks.products.product_kind import Making, making_of
from tasks.publish import publish
from tasks.storage.workspace.run_folder import hold, run_name
from tasks.storage.workspace.settings import Workspace
from tasks.verify import verify
from tests.tasks.verification.forgery import load
from tests.worlds.statistic_kinds import clips as private_clips
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables, pure

pytestmark = pytest.mark.long

LARGE = 40 * PICO


class Stopped(Exception):
    """A run that was killed."""


class Place:
    """A workspace with a spec of statistics, its contract, its rows and a Rényi account, as a scenario has them."""

    def __init__(self, folder: Path, scenario: StatisticsScenario) -> None:
        spec, contract, _, ledger = scenario.prepared_of(folder, object)
        ledger.close()
        self.spec = folder / "spec.yaml"
        scenario.frame().select(contract.source_columns).write_parquet(spec.source.path)
        self.workspace = Workspace.create(folder / "w")
        unit = contract.unit.column or "row"
        terms = "stays-2024", "patients", "2024", unit, contract.adjacency, RenyiCalculus(Fraction(12))
        with self.ledger() as opened:
            opened.open_account(AccountTerms(*terms, LARGE, ATTO // 10**6))
            opened.bind_source(spec.source.name, "patients", time_block("2024"))

    def ledger(self) -> closing[Ledger]:
        return closing(self.workspace.open_ledger())

    def run(self, *, supersede: bool = False) -> Path:
        assert release_plainly(self.spec, self.workspace.root, supersede=supersede) == 0
        [folder] = [each for each in self.workspace.releases.glob("*/v*") if not each.is_symlink()]
        return folder

    def stop(self, after: int) -> None:
        """Charge, draw so many times, and stop as a killed process does: its snapshot and its draws stay."""
        request = read_request(self.spec, self.workspace)
        spec, contract, plan = request.spec, request.contract, request.plan
        name = run_name(spec.release, spec.run_digest)
        with self.ledger() as ledger, hold(self.workspace.runs, name, keep_snapshot=False) as run:
            table = intake(run, request, self.workspace)
            key = run_key(spec, contract, table)
            with run.charge_seen(ledger, key):
                grant = charge(ledger, spec, contract, plan, table)
                making = Making(Stopping(grant, after), spec, plan, table, contract, run.path, key)  # type: ignore[arg-type]
                with pytest.raises(Stopped):
                    making_of("statistics").steps[0].make(making, None)

    def drawn(self) -> list[Entry]:
        with self.ledger() as ledger:
            return [entry for entry in ledger.journal() if entry.kind == "noise_drawn"]


class Stopping:
    def __init__(self, grant: Any, draws: int) -> None:
        self._grant, self._left = grant, draws

    def draw(self, query: Any, *, key: str) -> Any:
        if not self._left:
            raise Stopped
        self._left -= 1
        return self._grant.draw(query, key=key)


@pytest.fixture(params=[pure, gaussian], ids=["laplace", "gaussian"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param())


def checked(place: Place, folder: Path) -> None:
    report = verify(folder, public_key=place.workspace.signer().public_key)
    assert report.ok, report.findings


def test_a_run_is_published_verified_and_found_again(place: Place):
    """Laplace and Gaussian noise under a Rényi account; the second run draws, charges and writes nothing."""
    folder = place.run()
    checked(place, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    drawn = place.drawn()
    with place.ledger() as ledger:
        left = ledger.account("stays-2024").remaining
    assert place.run() == folder
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert place.drawn() == drawn
    with place.ledger() as ledger:
        assert ledger.account("stays-2024").remaining == left < LARGE
        assert [each.number for each in ledger.versions(folder.parent.name)] == [1]


def test_a_run_with_survey_weights_is_published_verified_and_found_again(tmp_path: Path):
    """Ages weighted by bills: the snapshot has both, whatever table asked first; another weight is another run."""
    weighed = "[{by: [ward], of: [count, {mean: age}], survey_weight: bill}, {by: [], of: [count]}]"
    place = Place(tmp_path, of_tables(weighed))
    folder = place.run()
    checked(place, folder)
    assert place.run() == folder
    place.spec.write_text(
        place.spec.read_text().replace("survey_weight: bill", "survey_weight: {column: bill, step: 5}")
    )
    assert release_plainly(place.spec, place.workspace.root, supersede=True) == 0
    latest = sorted(each for each in place.workspace.releases.glob("*/v*") if not each.is_symlink())[-1]
    assert latest != folder
    checked(place, latest)
    moved = [load(each / "record.json")["replay"]["draws"][0]["event"]["moves"] for each in (folder, latest)]
    assert moved == [[99 * 9000], [99 * 180]]


@pytest.mark.parametrize("after", [0, 2])
def test_a_run_that_was_killed_goes_on_with_what_it_drew(place: Place, after: int):
    """One charge, each draw once: the values that were written down before are those of the version."""
    place.stop(after)
    before = place.drawn()
    assert len(before) == after
    with place.ledger() as ledger:
        [charged] = ledger.charges(account="stays-2024")
        left = ledger.account("stays-2024").remaining
    folder = place.run()
    checked(place, folder)
    drawn = place.drawn()
    assert drawn[:after] == before
    assert len(drawn) == 5
    stated = json.loads((folder / "record.json").read_bytes())["replay"]["draws"]
    assert [each["sha256"] for each in stated] == [entry.body["sha256"] for entry in drawn]
    with place.ledger() as ledger:
        [after_all] = ledger.charges(account="stays-2024")
        assert (after_all.request, after_all.status) == (charged.request, "published")
        assert ledger.account("stays-2024").remaining == left


def test_a_run_that_was_killed_before_it_was_published_gives_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All is drawn and written, and the process dies at the publication; the next run writes the same bytes."""
    place, made = Place(tmp_path, pure()), {}

    def killed(ledger: Any, signer: Any, key: str, store: Path, write_files: Any, *, check: Any) -> None:
        def written(folder: Path, version: Any) -> None:
            write_files(folder, version)
            made.update({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
            raise Stopped

        publish(ledger, signer, key, store, written, check=check)

    with monkeypatch.context() as patched:
        patched.setattr("tasks.publish.publish", killed)
        with pytest.raises(Stopped):
            place.run()
    assert not list(place.workspace.releases.glob("*/v1"))
    folder = place.run()
    checked(place, folder)
    data = [path for path in folder.rglob("*") if path.parent.name in ("data", "measurements")]
    assert len(data) == 13
    assert {path.name: made[path.name] for path in data} == {path.name: path.read_bytes() for path in data}


def test_another_clip_is_another_run_of_another_lattice(tmp_path: Path):
    """The snapshot of the first spec is not taken up: sums are those of the second one's lattice."""
    place = Place(tmp_path, pure())
    place.stop(1)
    text = place.spec.read_text()
    assert "clip: [0, 500], step: 2.5" in text
    place.spec.write_text(text.replace("clip: [0, 500], step: 2.5", "clip: [0, 50], step: 2.5"))
    folder = place.run(supersede=True)
    checked(place, folder)
    [bills] = [
        each for each in json.loads((folder / "record.json").read_bytes())["replay"]["draws"] if each["number"] == 1
    ]
    assert (bills["addends"]["high"], bills["event"]["moves"]) == ("50", [20])
    with place.ledger() as ledger:
        assert sorted(each.status for each in ledger.charges(account="stays-2024")) == ["opened", "published"]


@pytest.mark.parametrize("after", [1, 3])
def test_a_run_with_private_clips_goes_on_with_the_clips_it_found(tmp_path: Path, after: int):
    """Two histograms, then three draws from the budget: killed between or after them, it draws none again."""
    place = Place(tmp_path, private_clips())
    place.stop(after)
    before = place.drawn()
    with place.ledger() as ledger:
        left = ledger.account("stays-2024").remaining
    folder = place.run()
    checked(place, folder)
    assert place.drawn()[:after] == before
    replay = json.loads((folder / "record.json").read_bytes())["replay"]
    assert [each["histogram"] for each in replay["clips"]] == ["clip:age/1", "clip:bill/2.5", "clip:bill/2.5"]
    with place.ledger() as ledger:
        assert ledger.account("stays-2024").remaining == left
