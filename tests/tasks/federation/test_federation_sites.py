"""Sites of a federation: when they join, what they refuse, what they answer; and the way over sockets."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from contracts.errors import GateBroken, SpecRefused
from contracts.release.federation_spec import load_federation, load_site
from contracts.release.source import source_name
from flows.federation.flower_sites import FlowerSites, SitesMissing
from flows.federation.site import OTHER_CONTRACT, OTHER_SPEC, PLAIN, SiteService, joined
from privacy.federation.rounds import lifted
from privacy.learning.training import initial_state
from privacy.ledger.entries import BudgetExceeded
from tasks.federation import flower
from tasks.federation import flower as sockets
from tasks.federation.flower import Certificates, EngineMissing, FlowerEngine, packed, unpacked
from tasks.products.across.spec_terms import Federation
from tasks.storage.workspace.environment import federation_environment
from tests.worlds.federated_runs import known_of
from tests.worlds.federations import (
    CONTRACT,
    FEDERATION,
    TABLES,
    TRUSTING,
    a_coordinator,
    a_site,
    drawn,
    ledger_of,
    open_account,
)

PLAINLY = FEDERATION.replace(*TRUSTING)


def hello(federation: Federation) -> bytes:
    return packed({"op": "join", **federation.digests})


def round_call(federation: Federation, attempt: int = 0, **more: object) -> bytes:
    parameters = initial_state(federation.training[1]).parameters
    header = {"op": "round", "number": 0, "attempt": f"{attempt:016x}", **federation.digests, **more}
    return packed(header, parameters.tobytes())


def test_a_site_pays_for_all_rounds_before_it_joins_and_answers_each_attempt_once(tmp_path: Path) -> None:
    path, workspace = a_site(tmp_path / "north", "north", federation=PLAINLY)
    mine, spec = load_site(path)
    with joined(mine, spec, workspace) as site:
        known, answer = site.federation, SiteService(site)
        with closing(ledger_of(workspace)) as ledger:
            assert ledger.account("north-2026").spent > 0
        told, _ = unpacked(answer(hello(known)))
        assert told == {"site": "north", "mark": site.mark}
        told, body = unpacked(answer(round_call(known)))
        assert told == {"largest": 2 * known.plan.largest_entry}
        steps = lifted(np.frombuffer(body, "<u4").astype(np.uint32))
        assert 0.2 < np.std(steps) / known.plan.share_deviation < 5
        assert unpacked(answer(round_call(known))) == ({"refused": "its ledger refuses"}, b"")
        assert unpacked(answer(packed({"op": "why"})))[0] == {"refused": "its ledger refuses"}
        assert unpacked(answer(b"nonsense")) == ({"refused": "it failed"}, b"")
        for attempt in (1, 2):
            assert "largest" in unpacked(answer(round_call(known, attempt)))[0]
        assert unpacked(answer(round_call(known, 3))) == ({"refused": "its ledger refuses"}, b"")
    assert len(drawn(workspace)) == 3
    spent = drawn(workspace)
    with joined(mine, spec, workspace) as again:
        assert unpacked(SiteService(again)(round_call(known)))[0] == {"refused": "its ledger refuses"}
    assert drawn(workspace) == spent


def test_a_site_says_so_when_the_coordinator_has_another_spec_or_contract(tmp_path: Path) -> None:
    path, workspace = a_site(tmp_path / "north", "north")
    wider = CONTRACT.replace("bounds: [0, 99]", "bounds: [0, 109]").replace("version: 1.0.0", "version: 2.0.0")
    other = known_of(a_coordinator(tmp_path / "other", federation=FEDERATION.replace("rounds: 1", "rounds: 2"))[0])
    wide = known_of(a_coordinator(tmp_path / "wide", contract=wider)[0])
    mine, spec = load_site(path)
    told: list[str] = []
    with joined(mine, spec, workspace) as site:
        answer = SiteService(site, told.append)
        assert unpacked(answer(hello(other)))[0] == {"site": "north", "refused": OTHER_SPEC}
        assert unpacked(answer(hello(wide)))[0] == {"site": "north", "refused": OTHER_CONTRACT}
        unlike = round_call(site.federation, spec=other.spec.digest)
        assert unpacked(answer.masked(unlike)) == ({"refused": OTHER_SPEC}, b"")
        assert [said.split(":")[0] for said in told] == [
            f"the coordinator has another {it}" for it in ("spec", "contract", "spec")
        ]
        for more in ({}, {"masked": True}):
            assert unpacked(answer(round_call(site.federation, **more))) == ({"refused": PLAIN}, b"")
        assert unpacked(answer.masked(hello(site.federation)))[0] == {"refused": "it failed"}
    assert drawn(workspace) == []


def test_a_site_without_rows_does_not_join_and_its_journal_says_why(tmp_path: Path) -> None:
    path, workspace = a_site(tmp_path / "north", "north", rows=0)
    mine, spec = load_site(path)
    with pytest.raises(GateBroken, match="no rows"), joined(mine, spec, workspace):
        pass
    with closing(ledger_of(workspace)) as ledger:
        assert ledger.account("north-2026").spent == 0
        stopped = [entry.body["account"] for entry in ledger.journal() if entry.kind == "gate_failed"]
        assert stopped == ["north-2026"]


def test_a_site_with_rows_that_were_charged_to_other_people_does_not_join(tmp_path: Path) -> None:
    """The gate of every run: a copy of its rows, bound to another population, gets no second cap."""
    path, workspace = a_site(tmp_path / "north", "north")
    with joined(*load_site(path), workspace):
        pass
    copy = Path(shutil.copy(tmp_path / "north/stays.csv", tmp_path / "north/copy.csv"))
    open_account(workspace, "others", source_name(copy), 100)
    path.write_text(path.read_text().replace("stays.csv", "copy.csv").replace("north-2026", "others"))
    with pytest.raises(GateBroken, match="charged to other people"), joined(*load_site(path), workspace):
        pass
    with closing(ledger_of(workspace)) as ledger:
        assert ledger.account("others").spent == 0
        assert [each.body["gates"] for each in ledger.journal() if each.kind == "gate_failed"] == [["people"]]


def test_a_site_whose_account_does_not_hold_all_rounds_does_not_join(tmp_path: Path) -> None:
    path, workspace = a_site(tmp_path / "north", "north", epsilon=1)
    mine, spec = load_site(path)
    with pytest.raises(BudgetExceeded), joined(mine, spec, workspace):
        pass
    assert drawn(workspace) == []


@pytest.mark.parametrize(
    ("old", "new", "words_of_it"),
    [
        ("north, rows", "east, rows", "the name 'east' twice"),
        ("label: long", "label: short", "the column 'short'"),
        ("delta: 1e-5", "delta: 0", "a delta above 0"),
        ("server: null, ", "", "server"),
        ("federation: long-stays", "federation: Long Stays", "lower-case letters"),
        ("fewest: 2", "fewest: many", "fewest"),
        ("fewest: 2", "fewest: 0", "trust.fewest"),
        ("rounds: 1", "rounds: 0", "training.rounds"),
        ("rows_about: 300", "rows_about: 0", "rows_about"),
    ],
)
def test_a_spec_that_cannot_be_followed_is_refused(tmp_path: Path, old: str, new: str, words_of_it: str) -> None:
    with pytest.raises(SpecRefused, match=words_of_it):
        known_of(a_coordinator(tmp_path / "c", federation=FEDERATION.replace(old, new))[0])


@pytest.mark.parametrize(
    ("old", "new", "field", "found", "allowed"),
    [
        ("fewest: 2", "fewest: 5", "fewest", "5 of 3 sites", "from 2 to 3 under secure aggregation"),
        ("fewest: 2, colluding: 1", "fewest: 1, colluding: 0", "fewest", "1 of 3 sites", "from 2 to 3"),
        ("colluding: 1", "colluding: 2", "colluding", "2", "from 0 to 1, less than `fewest`"),
        ("colluding: 1", "colluding: -1", "colluding", "-1", "from 0 to 1"),
        ("sites_per_person: 1", "sites_per_person: 4", "sites_per_person", "4 of 3 sites", "from 1 to 3"),
        ("aggregation: true", "aggregation: false", "server", "nothing (null)", "it sees the share of each site"),
        ("server: null", "server: the office", "server", "'the office'", "null: under secure aggregation"),
        ("noise: sites", "noise: server", "colluding", "1", "0 where the server adds the noise"),
        (
            "  - {name: south, rows_about: 200}\n",
            "",
            "secure_aggregation",
            "true with 2 sites",
            "secure aggregation among at least 3 sites",
        ),
    ],
)
def test_trust_that_contradicts_itself_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, field: str, found: str, allowed: str
) -> None:
    """Each in the five parts of a finding, so that the line can be gone to and the value be written."""
    text = FEDERATION.replace(old, new)
    path = a_coordinator(tmp_path / "c", federation=text)[0]
    with pytest.raises(SpecRefused) as refused:
        load_federation(path)
    finding = refused.value.findings[0]
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.startswith("trust:"))
    assert (finding.where, finding.field, finding.found) == (f"{path}:{line}", f"trust.{field}", found)
    assert allowed in finding.allowed
    assert "write" in finding.remedy


def test_a_site_that_the_federation_does_not_know_is_refused(tmp_path: Path) -> None:
    path, _ = a_site(tmp_path / "nord", "nord")
    with pytest.raises(SpecRefused, match="write 'north' instead of 'nord'"):
        load_site(path)


def test_the_files_of_the_manual_load(tmp_path: Path) -> None:
    """The federation spec and the site file of docs/federation.md, beside the tests' contract."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "federation.md").read_text(encoding="utf-8")
    federation, tables, generator, site = (
        text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "..." not in text
    )
    for name, text in (("federation.yaml", federation), ("site.yaml", site), ("wards.odcs.yaml", CONTRACT)):
        (tmp_path / name).write_text(text)
    mine, spec = load_site(tmp_path / "site.yaml")
    plan = known_of(tmp_path / "federation.yaml").training[2]
    (tmp_path / "tables.yaml").write_text(re.sub(r"learner: .*\ntraining: .*\n", tables, federation))
    assert known_of(tmp_path / "tables.yaml").counting.cliques == (("ward", "long"), ("age",))
    (tmp_path / "rows.yaml").write_text(re.sub(r"learner: .*\ntraining: .*\n", generator, federation))
    assert known_of(tmp_path / "rows.yaml").plan.rounds == 105
    assert (mine.site, spec.federation, plan.rounds, plan.trust.fewest) == ("north", "long-stays", 100, 2)


@pytest.mark.parametrize("cliques", ["[[ward, ward]]", "[[country]]", "[]", "[[age], [age]]"])
def test_tables_that_cannot_be_counted_are_refused(tmp_path: Path, cliques: str) -> None:
    with pytest.raises(SpecRefused, match="tables"):
        known_of(a_coordinator(tmp_path / "c", federation=TABLES.replace("[[ward, long], [age]]", cliques))[0])


@pytest.mark.services
def test_fewer_sites_than_a_round_needs_are_not_asked_anything(tmp_path: Path) -> None:
    """What the app on the link tells is that one joined, one has another contract, and one is silent."""
    known, asked = known_of(a_coordinator(tmp_path / "c")[0]), []

    def link(message: bytes) -> bytes:
        asked.append(unpacked(message)[0]["op"])
        return packed({"told": {"north": {"mark": "m"}, "east": {"refused": OTHER_CONTRACT}}})

    address = tmp_path / "s"
    with sockets.answering(address, link), sockets.Client(str(address), "AF_UNIX") as line:
        sites = FlowerSites(line, known, seconds=1, running=())
        with pytest.raises(SitesMissing) as refused:
            sites.join(seconds=1)
    shown = str(refused.value)
    assert asked == ["sites"]
    for said in ("1 sites that joined", "at least 2", "site east", OTHER_CONTRACT, "site south", "no answer"):
        assert said in shown


@pytest.mark.services
def test_when_the_app_does_not_come_it_is_said(tmp_path: Path) -> None:
    waiting = sockets.awaited(tmp_path / "nobody", seconds=0.3, alive=lambda: None)
    with pytest.raises(sockets.NobodyConnected, match=r"within 0\.3 s"), waiting:
        pass


def test_without_flower_the_message_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing, match="make federation"):
        FlowerEngine(tmp_path / "nothing", tmp_path / "home")
    assert Certificates(tmp_path).key is None


@pytest.mark.services
def test_without_the_app_the_message_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "APP", tmp_path)
    engine = FlowerEngine(federation_environment(), tmp_path / "home")
    with pytest.raises(EngineMissing, match="from a clone"), engine.app(tmp_path / "s", "", None):
        pass
