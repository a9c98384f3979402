"""Sites of a federation: when they join, what they refuse, what they answer; and the way over sockets."""

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
from tasks.records.across.words import person, record, trusted, unprotected
from tasks.storage.sources.gate_words import delivered
from tasks.storage.workspace.environment import federation_environment
from tasks.verify import verify
from tests.worlds.federated_runs import known_of, released
from tests.worlds.federations import (
    CONTRACT,
    FEDERATION,
    GENERATOR,
    MARGINALS,
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


def test_a_site_pays_for_all_rounds_before_it_joins_and_answers_each_attempt_once(tmp_path: Path):
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


def test_a_site_says_so_when_the_coordinator_has_another_spec_or_contract(tmp_path: Path):
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


def test_a_site_without_rows_does_not_join_and_its_journal_says_why(tmp_path: Path):
    path, workspace = a_site(tmp_path / "north", "north", rows=0)
    mine, spec = load_site(path)
    with pytest.raises(GateBroken, match="no rows"), joined(mine, spec, workspace):
        pass
    with closing(ledger_of(workspace)) as ledger:
        assert ledger.account("north-2026").spent == 0
        stopped = [entry.body["account"] for entry in ledger.journal() if entry.kind == "gate_failed"]
        assert stopped == ["north-2026"]


def test_a_site_with_rows_that_were_charged_to_other_people_does_not_join(tmp_path: Path):
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


def test_a_site_whose_account_does_not_hold_all_rounds_does_not_join(tmp_path: Path):
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
def test_a_spec_that_cannot_be_followed_is_refused(tmp_path: Path, old: str, new: str, words_of_it: str):
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
):
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


def test_a_site_that_the_federation_does_not_know_is_refused(tmp_path: Path):
    path, _ = a_site(tmp_path / "nord", "nord")
    with pytest.raises(SpecRefused, match="write 'north' instead of 'nord'"):
        load_site(path)


def test_the_files_of_the_manual_load(tmp_path: Path):
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
def test_tables_that_cannot_be_counted_are_refused(tmp_path: Path, cliques: str):
    with pytest.raises(SpecRefused, match="tables"):
        known_of(a_coordinator(tmp_path / "c", federation=TABLES.replace("[[ward, long], [age]]", cliques))[0])


@pytest.mark.services
def test_fewer_sites_than_a_round_needs_are_not_asked_anything(tmp_path: Path):
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
def test_when_the_app_does_not_come_it_is_said(tmp_path: Path):
    waiting = sockets.awaited(tmp_path / "nobody", seconds=0.3, alive=lambda: None)
    with pytest.raises(sockets.NobodyConnected, match=r"within 0\.3 s"), waiting:
        pass


def test_without_flower_the_message_says_how_to_install_it(tmp_path: Path):
    with pytest.raises(EngineMissing, match="make federation"):
        FlowerEngine(tmp_path / "nothing", tmp_path / "home")
    assert Certificates(tmp_path).key is None


@pytest.mark.services
def test_without_the_app_the_message_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flower, "APP", tmp_path)
    engine = FlowerEngine(federation_environment(), tmp_path / "home")
    with pytest.raises(EngineMissing, match="from a clone"), engine.app(tmp_path / "s", "", None):
        pass


OF_AN_ID = CONTRACT.replace(
    "{kind: row, scope: block}", "{kind: id, column: patient, max_rows_per_unit: 3, scope: block}"
).replace("    properties:\n", "    properties:\n      - name: patient\n        logicalType: string\n")
TWO_SITES = ("sites_per_person: 1", "sites_per_person: 2")


def test_a_persons_loss_is_said_to_be_that_of_the_rows_that_its_events_count(tmp_path: Path):
    """With rows as units one a site, at every number of sites; with ids the contract's bound."""
    of_rows, of_ids = "one row", "up to 3 rows"
    for place, (contract, sites, rows) in enumerate(
        ((CONTRACT, 1, of_rows), (CONTRACT, 2, of_rows), (OF_AN_ID, 1, of_ids), (OF_AN_ID, 2, of_ids))
    ):
        spec = TABLES.replace("sites_per_person: 1", f"sites_per_person: {sites}")
        known = known_of(a_coordinator(tmp_path / str(place), federation=spec, contract=contract)[0])
        assert (
            person(known.spec, known.contract) == f"{rows} at {'one site' if sites == 1 else 'each of up to 2 sites'}"
        )
        assert record(known.contract) == f"{rows}{' of one patient' if contract == OF_AN_ID else ''} at one site"
        (event,) = set(known.plan.person_events)
        counted = 1 if contract == CONTRACT else 3
        assert event.moves == (counted * sites,)  # type: ignore[union-attr]
        said = " ".join(trusted(known.spec, known.contract))
        assert f"the loss of a person counts {person(known.spec, known.contract)}" in said
        assert "who has more rows, or rows at more sites, may lose more" in said


def test_one_share_and_one_site_are_said_in_the_singular(tmp_path: Path):
    """The template of both numbers is one sentence of the catalogues."""
    many = TABLES.replace("fewest: 2, colluding: 1", "fewest: 3, colluding: 0")
    for place, (spec, shares, sites) in enumerate(
        (
            (TABLES, "; one share is counted on", "up to one site may tell others its own noise"),
            (many, "; 3 shares are counted on", "up to 0 sites may tell others their own noise"),
        )
    ):
        known = known_of(a_coordinator(tmp_path / str(place), federation=spec)[0])
        said = trusted(known.spec, known.contract)
        assert f"each site adds a share of the noise{shares}" in said
        assert sites in said


@pytest.mark.long
def test_the_record_says_for_which_rows_a_persons_loss_is(tmp_path: Path):
    """In the execution, on the page, among the trust; and nowhere that it is of all rows of a person."""
    run = released(tmp_path, TABLES.replace(*TWO_SITES))
    said = "one row at each of up to 2 sites"
    words = run.version.words
    assert (words["execution.person"], words["execution.record"]) == (said, "one row at one site")
    page = (run.folder / "record.html").read_text()
    assert page.count(said) >= 3
    assert "all rows of a person" not in page
    assert verify(run.folder, public_key=run.version.key).ok


@pytest.mark.parametrize("contract", [CONTRACT, OF_AN_ID])
def test_the_gates_of_every_release_are_unprotected_in_a_federation_too(tmp_path: Path, contract: str):
    known = known_of(a_coordinator(tmp_path / "c", federation=TABLES, contract=contract)[0])
    said = "\n".join(unprotected(known.contract))
    for gate in delivered(known.contract):
        assert f"at each site that took part {gate}" in said
    assert ("every row has a patient" in said) == (contract == OF_AN_ID)
    for each in ("to its last row", "select", "which sites took part in which rounds", "how many attempts", "type"):
        assert each in said
    assert "a gate of the contract" not in said, "it declares none"
    gated = contract.replace("gates: []", 'gates: ["domain:ward"]')
    of_gates = known_of(a_coordinator(tmp_path / "g", federation=TABLES, contract=gated)[0])
    assert any("domain:ward" in each for each in unprotected(of_gates.contract))


@pytest.mark.parametrize("federation", [TABLES, MARGINALS, FEDERATION, GENERATOR])
def test_a_declared_total_is_refused(tmp_path: Path, federation: str):
    """Nothing says whether it is one site's or that of all; without it the same contract serves for tables."""
    other = CONTRACT.replace("adjacency: add_remove", "adjacency: replace_one")
    total = "invariants: [{kind: total, value: 600, reference: 'the yearbook, table 3'}]"
    spec, _ = a_coordinator(tmp_path / "c", federation=federation, contract=other.replace("invariants: []", total))
    with pytest.raises(SpecRefused, match=r"(?s)a declared total.*no total: nothing says whose.*take the total out"):
        known_of(spec)
    if federation in (TABLES, MARGINALS):
        assert known_of(a_coordinator(tmp_path / "d", federation=federation, contract=other)[0]).plan.rounds
