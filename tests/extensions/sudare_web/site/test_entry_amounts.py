"""The page of one entry: amounts in words, and the integers of the journal beneath."""

from __future__ import annotations

from decimal import Decimal

from fastapi.testclient import TestClient

from privacy.ledger.entries import GENESIS, Entry
from sudare_web.site.journal import readable


def test_amounts_of_an_entry_are_read_as_shares_and_decimals(client: TestClient) -> None:
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


def test_amounts_of_no_known_account_or_of_another_form_stay_as_they_are() -> None:
    """What cannot be told as a share is not left out: the field has no words, and the page shows its number."""
    body = {"costs": {"gone": 5}, "parts": [{"account": "here", "amount": 1}], "delta": 10**9}
    told = readable(Entry(1, GENESIS, "charge_returned", "", body), {"here": 4}.get)
    assert told == {
        "costs": [],
        "parts": [{"what": "share", "account": "here", "share": "25 %"}],
        "delta": [{"what": "delta", "delta": "1e-9"}],
    }
    assert readable(Entry(1, GENESIS, "noise_drawn", "", {"costs": 3}), {}.get) == {}
