"""Sites of a federation: when they join, what they refuse, what they answer; and the way over sockets."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.canonical import canonical_json
from contracts.errors import GateBroken, SpecRefused
from contracts.release.federation_spec import load_federation, load_site
from flows.federation.federated_run import work
from flows.federation.flower_sites import FlowerSites, SitesMissing
from flows.federation.site import OTHER_CONTRACT, OTHER_SPEC, PLAIN, SiteService, joined
from privacy.federation.rounds import Call, Collected, lifted, summed
from privacy.learning.errors import CannotTrain
from privacy.learning.training import initial_state
from privacy.ledger.errors import BudgetExceeded
from privacy.ledger.journal.signing import Signer
from tasks.federation import flower_processes as flower
from tasks.federation import sockets
from tasks.federation.federation_outputs import WEIGHTS
from tasks.federation.federation_page import PAGE, page_statement, render_federation
from tasks.federation.federation_release import Released, check_released, write_released
from tasks.federation.federation_run import Federation, understood
from tasks.federation.federation_words import words
from tasks.federation.flower_processes import Certificates, EngineMissing, FlowerEngine
from tasks.federation.wire_format import packed, unpacked
from tasks.storage.workspace.settings import Workspace, federation_environment
from tests.worlds.federations import (
    CONTRACT,
    FEDERATION,
    SITES,
    TABLES,
    TRUSTING,
    a_coordinator,
    a_site,
    drawn,
    ledger_of,
)

PLAINLY = FEDERATION.replace(*TRUSTING)


def known_of(spec: Path) -> Federation:
    return understood(load_federation(spec), spec.parent / "wards.odcs.yaml")


def hello(known: Federation) -> bytes:
    return packed({"op": "join", **known.digests})


def round_call(known: Federation, attempt: int = 0, **more: object) -> bytes:
    parameters = initial_state(known.training[1]).parameters
    header = {"op": "round", "number": 0, "attempt": f"{attempt:016x}", **known.digests, **more}
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
        assert ledger.gate_failures("north-2026", before=10**6) == 1


def test_a_site_whose_account_does_not_hold_all_rounds_does_not_join(tmp_path: Path) -> None:
    path, workspace = a_site(tmp_path / "north", "north", epsilon=1)
    mine, spec = load_site(path)
    with pytest.raises(BudgetExceeded), joined(mine, spec, workspace):
        pass
    assert drawn(workspace) == []


@pytest.mark.parametrize(
    ("old", "new", "words_of_it"),
    [
        ("north, rows", "east, rows", "each name once"),
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


def test_fewer_sites_than_secure_aggregation_needs_are_refused(tmp_path: Path) -> None:
    alone = FEDERATION.replace("fewest: 2, colluding: 1", "fewest: 1, colluding: 0")
    with pytest.raises(CannotTrain, match="fewest is 1 of 3 sites; allowed: at least 2 of 3 for secure aggregation"):
        known_of(a_coordinator(tmp_path / "c", federation=alone)[0])


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


class Local:
    """The way to sites in this process, as messages: what Flower carries, without Flower."""

    def __init__(self, known: Federation, answers: dict[str, SiteService]) -> None:
        self.known, self.answers = known, answers

    def collect(self, call: Call) -> Collected:
        sent = {}
        for name, answer in self.answers.items():
            header = {"op": "round", "number": call.number, "attempt": call.attempt, **self.known.digests}
            told, body = unpacked(answer.masked(packed(header, call.parameters.tobytes())))
            if "refused" not in told:
                sent[name] = np.frombuffer(body, "<u4").astype(np.uint32)
        return summed(sent, self.known.plan, {})


def released(
    tmp_path: Path, federation: str, *, contract: str = CONTRACT
) -> tuple[Released, Federation, Workspace, list[str]]:
    """A federation that ran to its end, without Flower."""
    spec_path, workspace = a_coordinator(tmp_path / "c", federation=federation, contract=contract)
    known, told, answers = known_of(spec_path), list[str](), {}
    with ExitStack() as stack:
        for name in SITES:
            path, site_workspace = a_site(tmp_path / name, name, federation=federation, contract=contract)
            answers[name] = SiteService(stack.enter_context(joined(*load_site(path), site_workspace)))
        ledger = stack.enter_context(closing(ledger_of(workspace)))
        made = work(known, ledger, Local(known, answers), between=0, told=told.append)
        signer = Signer(workspace.signing_seed())
        return write_released(tmp_path / "m", known, made, ledger, signer), known, workspace, told


def test_a_release_says_who_took_part_and_a_forged_one_is_found(tmp_path: Path) -> None:
    model, known, workspace, told = released(tmp_path, FEDERATION)
    assert told == ["round 1 of 1"]
    assert (model.left_out, model.lost, float(model.epsilon) <= 8) == ({}, 0, True)
    key = workspace.public_key_file.read_text().strip()
    assert check_released(tmp_path / "m", known, public_key=key) == []
    account = tmp_path / "m" / "federation.json"
    assert str(tmp_path) not in account.read_text()
    account.write_bytes(account.read_bytes().replace(b'"present":[true', b'"present":[false'))
    assert [finding.field for finding in check_released(tmp_path / "m", known, public_key=key)] == ["signature"]
    other = known_of(a_coordinator(tmp_path / "o", federation=FEDERATION.replace("batch: 300", "batch: 200"))[0])
    account.write_bytes(account.read_bytes().replace(b'"present":[false', b'"present":[true'))
    assert {"spec.sha256", "plan"} <= {
        finding.field for finding in check_released(tmp_path / "m", other, public_key=key)
    }
    assert any("up to 1 sites may tell" in said for said in words(known))
    told_otherwise = [
        (("federation",), "other"),
        (("spec", "says", "trust", "colluding"), 0),
        (("contract", "id"), "other"),
        (("contract", "version"), "9.9.9"),
        (("trust",), ["nobody sees anything"]),
        (("cost", "delta"), "1e-9"),
        (("guarantee", "epsilon_record"), "0.1"),
    ]
    for at, value in told_otherwise:
        found = otherwise(tmp_path / "m", at, value, known, workspace)
        assert {at[0], ".".join(at[:2])} & found
    assert forged(tmp_path / "m", WEIGHTS, known, workspace) == ["what the sums lead to"]


def otherwise(folder: Path, at: tuple[str, ...], value: object, known: Federation, workspace: Workspace) -> set[str]:
    """The fields that are found wrong when a coordinator signs another account, which is put back."""
    kept = {name: (folder / name).read_bytes() for name in ("federation.json", "federation.sig", PAGE)}
    account = json.loads(kept["federation.json"])
    place = account
    for name in at[:-1]:
        place = place[name]
    place[at[-1]] = value
    sign(folder, account, workspace)
    key = Signer(workspace.signing_seed()).public_key
    found = {finding.field for finding in check_released(folder, known, public_key=key)}
    for name, held in kept.items():
        (folder / name).write_bytes(held)
    return found


def sign(folder: Path, account: dict[str, Any], workspace: Workspace) -> None:
    """Sign an account, and make its page again."""
    account["page"] = page_statement(account)
    (folder / PAGE).write_bytes(render_federation(account))
    signer = Signer(workspace.signing_seed())
    signature = {"public_key": signer.public_key, "signature": signer.sign("federation", account)}
    (folder / "federation.json").write_bytes(canonical_json(account))
    (folder / "federation.sig").write_bytes(canonical_json(signature))


def test_gates_are_said_to_be_unprotected(tmp_path: Path) -> None:
    gated = CONTRACT.replace("gates: []", 'gates: ["domain:ward"]')
    said = words(known_of(a_coordinator(tmp_path / "c", contract=gated)[0]))
    assert any(each.startswith("unprotected") and "domain:ward" in each for each in said)


def forged(folder: Path, name: str, known: Federation, workspace: Workspace) -> list[str]:
    """What is found when a coordinator signs other weights, or another table, than its sums lead to."""
    held = bytearray((folder / name).read_bytes())
    held[-2] ^= 1
    (folder / name).write_bytes(held)
    account = json.loads((folder / "federation.json").read_bytes())
    account["files"][name] = hashlib.sha256(held).hexdigest()
    sign(folder, account, workspace)
    key = Signer(workspace.signing_seed()).public_key
    return [finding.allowed for finding in check_released(folder, known, public_key=key)]


def test_tables_are_counted_over_all_sites(tmp_path: Path) -> None:
    """600 rows at three sites: with the noise of epsilon 8 the total of a table is off by less than 12 deviations."""
    tables, known, workspace, told = released(tmp_path, TABLES)
    assert told == ["round 1 of 2", "round 2 of 2"]
    key = workspace.public_key_file.read_text().strip()
    assert check_released(tmp_path / "m", known, public_key=key) == []
    assert float(tables.epsilon) <= 8
    lines = (tmp_path / "m" / "ward-long.csv").read_text().splitlines()
    assert lines[0] == "ward,long,noisy"
    assert [line.rpartition(",")[0] for line in lines[1:]] == ["A,no", "A,yes", "B,no", "B,yes", "C,no", "C,yes"]
    total = sum(float(line.rpartition(",")[2]) for line in lines[1:])
    deviation = float(known.counting.sigma_squared * 3 * 6) ** 0.5
    assert abs(total - 600) < 12 * deviation
    assert len((tmp_path / "m" / "age.csv").read_text().splitlines()) == 11
    assert forged(tmp_path / "m", "age.csv", known, workspace) == ["what the sums lead to"]


@pytest.mark.parametrize("cliques", ["[[ward, ward]]", "[[country]]", "[]", "[[age], [age]]"])
def test_tables_that_cannot_be_counted_are_refused(tmp_path: Path, cliques: str) -> None:
    with pytest.raises(SpecRefused, match="tables"):
        known_of(a_coordinator(tmp_path / "c", federation=TABLES.replace("[[ward, long], [age]]", cliques))[0])


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


def test_when_the_app_does_not_come_it_is_said(tmp_path: Path) -> None:
    waiting = sockets.awaited(tmp_path / "nobody", seconds=0.3, alive=lambda: None)
    with pytest.raises(sockets.NobodyConnected, match=r"within 0\.3 s"), waiting:
        pass


def test_without_flower_the_message_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing, match="make federation"):
        FlowerEngine(tmp_path / "nothing", tmp_path / "home")
    assert Certificates(tmp_path).key is None


def test_without_the_app_the_message_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "APP", tmp_path)
    engine = FlowerEngine(federation_environment(), tmp_path / "home")
    with pytest.raises(EngineMissing, match="from a clone"), engine.app(tmp_path / "s", "", None):
        pass
