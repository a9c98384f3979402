"""The pages of accounts, of their entries, and of runs that were charged and never published."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from console.main import execute
from privacy.accounting.calculus import PureCalculus
from privacy.grant.grant import open_grant
from privacy.ledger.entries import GENESIS, Entry
from privacy.ledger.terms import AccountState, AccountTerms
from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from sudare_web.site.asking import Site
from sudare_web.site.burn_down import Burnt, burn_down, segments
from sudare_web.site.journal import readable
from tasks.records.hazards.limits import LIMITS
from tasks.records.page.language import language, languages
from tasks.storage.workspace.settings import Workspace
from tests.extensions.sudare_web.site.conftest import Shown, copied

ACCOUNT = "adult-1994"


@pytest.fixture(scope="module")
def accounts(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """The site over a workspace with two more accounts: one of δ = 0, and one that is closed."""
    workspace = copied(shown.workspace, tmp_path_factory.mktemp("accounts") / "w")
    at = ("--workspace", str(workspace.root))
    for name, words in (("pure", ()), ("shut", ())):
        source = workspace.root / f"{name}.parquet"
        source.write_text(f"rows of {name}")
        people = ("--population", name, "--block", "1994", "--unit", "row", "--adjacency", "add_remove")
        cap = ("--calculus", "pure", "--epsilon", "3", "--delta", "0", "--source", str(source), *words)
        assert execute(["budget", "open", name, *people, *cap, *at]) == 0
    assert execute(["budget", "close", "shut", *at]) == 0
    site = make_site(workspace)
    yield site, workspace.root
    site.view.close()


@pytest.fixture(scope="module")
def reader(accounts: tuple[Site, Path]) -> TestClient:
    return TestClient(make_app(accounts[0]), base_url="http://localhost")


def _told(reader: TestClient, name: str) -> dict[str, Any]:
    told: dict[str, Any] = reader.get("/api/account", params={"name": name}).json()
    return told


def _page(reader: TestClient, name: str, language: str = "en") -> tuple[str, str]:
    """The page before what is folded away, and what is folded away."""
    page = reader.get("/account", params={"name": name, "lang": language}).text
    first, folded = page.split("<details>", 1)
    return first, folded


def test_an_account_burns_down_to_what_the_ledger_says(reader: TestClient):
    told = _told(reader, ACCOUNT)
    assert told["burn_down"][-1]["left"] == told["left"]
    assert [each["release"] for each in told["spent_by"]] == ["adult-tables", "adult-old"]
    assert len(told["charges"]) == len(told["burn_down"]) == 4
    assert 'role="img"' in reader.get("/account", params={"name": ACCOUNT}).text
    assert reader.get("/account", params={"name": "nobody's"}).status_code == 404


def test_shares_of_the_cap_are_those_of_the_ledger_and_drawn_a_segment_each(reader: TestClient):
    """Losses up and what is left down; the segments of the releases and of what is left fill the bar."""
    told, (first, _) = _told(reader, ACCOUNT), _page(reader, ACCOUNT)
    cap = Decimal(told["cap"])
    for each in (*told["spent_by"], *told["charges"]):
        exact = 100 * Decimal(each.get("spent") or each["amount"]) / cap
        assert 0 <= Decimal(each["share"].removesuffix(" %")) - exact < exact / 99
        assert f">{each['share']}</td>" in first
    assert 0 <= 100 * Decimal(told["left"]) / cap - Decimal(told["percent_left"].removesuffix(" %")) < Decimal("0.1")
    [bar] = re.findall(r'<svg class="segments".*?</svg>.*?</svg>', first, re.DOTALL)
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', bar)]
    assert len(widths) == len(told["spent_by"]) + 1
    assert sum(widths) == pytest.approx(1000, abs=0.5)


def test_segments_and_steps_carry_the_names_of_their_releases():
    """A long name of a step is cut, a short segment has none, markup is a text."""
    terms = AccountTerms("a", "p", "2024", "row", "add_remove", PureCalculus(), 10**13, 0)
    state = AccountState(terms, 10**13, 66 * 10**11, "open")
    taken = (("a" * 40, 4 * 10**12), ("<b>small</b>", 25 * 10**11), ("tiny", 10**11))
    steps = (("2024-01-01T00:00:00", 6 * 10**12, "a" * 40), ("2024-01-02T00:00:00", 59 * 10**11, "tiny"))
    names = re.findall(r"<p>([^<]*)</p>", str(segments(Burnt(steps, taken, ()), state, "words")))
    assert names == ["a" * 40, "&lt;b&gt;small&lt;/b&gt;"]
    words = {"label": "words", "now": "now", "out": "out"}
    steep = str(burn_down(state, steps, None, words, datetime(2024, 1, 3, tzinfo=UTC)))
    assert "a" * 17 + "…</text>" in steep
    assert "tiny" not in steep


def test_two_versions_together_lose_what_the_account_adds_up_or_the_sum_of_their_claims(
    reader: TestClient, accounts: tuple[Site, Path]
):
    """The smaller of two bounds, by a second derivation; the larger of both ε, which is no bound, is below them."""
    where, state = "/api/releases/adult-tables/compare", accounts[0].view.account(ACCOUNT)
    assert state is not None
    charges = {
        each["version"]: each for each in _told(reader, ACCOUNT)["charges"] if each["release"] == "adult-tables"
    }
    for first, second in ((1, 3), (2, 3), (1, 2)):
        [joint] = reader.get(where, params={"first": first, "second": second}).json()["together"]
        both = [charges[first], charges[second]]
        amount = sum(int(Decimal(each["amount"]).scaleb(12)) for each in both)
        order = state.terms.calculus.order  # type: ignore[union-attr]
        delta = Fraction(state.terms.delta, 10**18)
        rest = math.log(1 - 1 / order) - (math.log(delta) + math.log(order)) / (float(order) - 1)
        renyi, pure = amount / 10**12 + rest, sum(float(each["epsilon"]) for each in both)
        assert float(joint["epsilon"]) == pytest.approx(min(renyi, pure), abs=1e-9)
        assert float(joint["epsilon"]) > max(float(each["epsilon"]) for each in both)
        assert joint["delta"] == ("0" if pure < renyi else "1e-9")
    [alone] = reader.get(where, params={"first": 2, "second": 2}).json()["together"]
    assert (alone["epsilon"], alone["second"], alone["together"]) == ("0.5", "0 %", charges[2]["share"])


@pytest.mark.parametrize("name", [ACCOUNT, "pure", "shut"])
def test_the_page_says_what_budget_show_says(
    reader: TestClient, accounts: tuple[Site, Path], name: str, capsys: pytest.CaptureFixture[str]
):
    """What fits by kind of noise, and what each release and each charge claims."""
    capsys.readouterr()
    assert execute(["budget", "show", name, "--json", "--workspace", str(accounts[1])]) == 0
    shown, told = json.loads(capsys.readouterr().out), _told(reader, name)
    assert told["fits"] == shown["fits"]
    claims = [(each["release"], each["runs"], each["claims"]) for each in shown["releases"]]
    assert [(each["release"], each["runs"], each["claims"]) for each in told["spent_by"]] == claims
    charges = [(each["run_key"], each["epsilon"], each["delta"]) for each in shown["charges"]]
    assert [(each["run_key"], each["epsilon"], each["delta"]) for each in reversed(told["charges"])] == charges


@pytest.mark.parametrize("language", languages())
def test_units_of_the_calculus_are_folded_away(reader: TestClient, language: str):
    """Rényi losses, what is left of them and what each run took stand behind the fold alone."""
    told = _told(reader, ACCOUNT)
    first, folded = _page(reader, ACCOUNT, language)
    units = [told[name][:6] for name in ("left", "cap", "claim")] + [each["amount"][:6] for each in told["charges"]]
    assert [unit for unit in units if unit in first] == []
    assert [unit for unit in units if unit not in folded] == []
    for noise in ("laplace", "gaussian"):
        assert f"ε {told['fits'][noise]}" not in first
        assert f"ε {told['fits'][noise]}" in folded
    share = told["percent_spent"]
    assert share in first
    cards = reader.get("/accounts", params={"lang": language}).text
    assert f"ε {told['fits']['gaussian']}" not in cards
    assert share in cards
    assert told["left"][:6] not in cards


def test_an_account_that_is_closed_or_holds_laplace_noise_only_says_so(reader: TestClient):
    assert "an account of δ 0 holds Laplace noise only" in _page(reader, "pure")[1]
    assert _page(reader, "shut")[1].count("The account is closed.") == 2
    for code in languages():
        assert language(code).text("account.laplace_only") in _page(reader, "pure", code)[1]
    assert reader.get("/accounts", params={"lang": "en"}).text.count("The account is closed.") == 1


def test_claims_are_counted_in_the_database_for_both_databases(accounts: tuple[Site, Path]):
    """Each claim once, with how many runs claim it; charges that were given back are no claims."""
    claimed = accounts[0].view.claimed(ACCOUNT)
    assert [(each.release, each.epsilon // 10**10, each.runs) for each in claimed] == [
        ("adult-old", 20, 1),
        ("adult-tables", 30, 1),
        ("adult-tables", 50, 1),
        ("adult-tables", 100, 1),
    ]


def test_amounts_of_an_entry_are_read_as_shares_and_decimals(client: TestClient):
    """The integers stand folded beneath; a share follows from the amount and the cap that the same journal has."""
    listed = client.get("/api/journal", params={"kind": "account_opened"}).json()["entries"]
    opened = [client.get(f"/api/journal/{each['sequence']}").json()["entry"]["body"] for each in listed]
    caps = {body["name"]: body["cap"] for body in opened}
    for kind in ("account_opened", "charge_reserved", "noise_drawn"):
        line = client.get("/api/journal", params={"kind": kind}).json()["entries"][0]
        told = client.get(f"/api/journal/{line['sequence']}").json()
        page, body, amounts = client.get(f"/journal/{line['sequence']}").text, told["entry"]["body"], told["amounts"]
        if "epsilon" in body:
            [said] = amounts["epsilon"]
            assert Decimal(said["epsilon"]) * 10**12 == body["epsilon"]
            assert f"ε = {said['epsilon']}" in page
        parts = {each["account"]: each["amount"] for each in body.get("parts", [])} or body.get("costs", {})
        for said in [each for name in ("parts", "costs") for each in amounts.get(name, [])]:
            share = Decimal(said["share"].removesuffix(" %"))
            exact = Decimal(100 * parts[said["account"]]) / caps[said["account"]]
            assert exact <= share <= exact * Decimal("1.01")
            assert f"{said['share']} of the cap of {said['account']}" in page
        assert page.count("as the journal has it") == sum(map(bool, amounts.values())) > 0


def test_amounts_of_no_known_account_or_of_another_form_stay_as_they_are():
    """What cannot be told as a share is not left out: the field has no words, and the page shows its number."""
    body = {"costs": {"gone": 5}, "parts": [{"account": "here", "amount": 1}], "delta": 10**9}
    told = readable(Entry(1, GENESIS, "charge_returned", "", body), {"here": 4}.get)
    assert told == {
        "costs": [],
        "parts": [{"what": "share", "account": "here", "share": "25 %"}],
        "delta": [{"what": "delta", "delta": "1e-9"}],
    }
    assert readable(Entry(1, GENESIS, "noise_drawn", "", {"costs": 3}), {}.get) == {}


MARKS = ("1" * 64, "2" * 64)


def _crash_twice(workspace: Workspace) -> None:
    """Charge and open two attempts at a release on two snapshots, and leave them."""
    ledger = workspace.open_ledger()
    try:
        [charge, *_] = reversed(ledger.charges(account="adult-1994"))
        for mark in MARKS:
            few = charge.request.events[:1]
            asked = replace(charge.request, run_key=f"never-{mark[0]}", release="adult-never", events=few)
            ledger.reserve(replace(asked, snapshot_hash=mark))
            open_grant(ledger, f"never-{mark[0]}")
    finally:
        ledger.close()


def test_a_run_that_was_never_published_is_public_as_the_limit_says(shown: Shown, tmp_path: Path):
    """Release and status on the account's page, and in the journal marks that tell the two snapshots apart."""
    workspace = copied(shown.workspace, tmp_path / "w")
    _crash_twice(workspace)
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    charges = client.get("/api/account", params={"name": "adult-1994"}).json()["charges"]
    assert [each["status"] for each in charges if each["release"] == "adult-never"] == ["opened", "opened"]
    found = client.get("/api/journal", params={"release": "adult-never", "kind": "charge_reserved"}).json()["entries"]
    told = [client.get(f"/api/journal/{each['sequence']}").json()["entry"]["body"] for each in found]
    assert {body["snapshot_hash"] for body in told} == set(MARKS)
    assert client.get("/releases/adult-never").status_code == 404
    assert "a run that was never published" in next(limit.text for limit in LIMITS if limit.number == 12)
