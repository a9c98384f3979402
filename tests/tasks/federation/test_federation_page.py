"""The page of a federation: what it says, that it is made the same again, and that another one is found."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from contracts.canonical import canonical_json
from privacy.ledger.journal.signing import Signer
from tasks.federation.federation_page import PAGE, page_statement, render_federation
from tasks.federation.federation_release import check_released
from tasks.storage.workspace.settings import Workspace
from tests.tasks.federation.test_federation_sites import released
from tests.worlds.federations import FEDERATION

EVIL = '<img src=x onerror="alert(1)">&'


def account_of(folder: Path) -> dict[str, Any]:
    account: dict[str, Any] = json.loads((folder / "federation.json").read_bytes())
    return account


class Read(HTMLParser):
    """The text of a page, and its elements."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.said, self.found = list[str](), list[tuple[str, dict[str, str | None]]]()
        self.feed(page.decode())
        self.text = re.sub(r"\s+", " ", " ".join(self.said))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_a_page_says_who_took_part_what_it_cost_and_who_is_trusted(tmp_path: Path) -> None:
    """The account of one round, told again as one of 12 rounds, of which east missed three and south one."""
    released(tmp_path, FEDERATION)
    account = account_of(tmp_path / "m")
    one = account["rounds"][0]
    account["rounds"] = [{**one, "present": [True, number not in (2, 3, 7), number != 12]} for number in range(1, 13)]
    account["cost"]["lost_attempts"] = 2
    page = Read(render_federation(account))
    for said in (
        "A classifier of long",
        "east 300 9 of 12 2–3, 7",
        "south 200 11 of 12 12",
        "north 200 12 of 12 none",
        "2 attempts lost, and paid",
        "Sites had no keys",
        f"δ = {account['guarantee']['delta']}",
        *(each.removeprefix("unprotected: ") for each in account["trust"]),
        *account["files"].values(),
        account["spec"]["sha256"],
        account["contract"]["sha256"],
        account["key_id"],
    ):
        assert said in page.text, said
    strips = [attributes for tag, attributes in page.found if tag == "rect" and attributes.get("height") == "1"]
    assert [(each["x"], each["width"]) for each in strips] == [
        ("0", "12"), ("0", "1"), ("3", "3"), ("7", "5"), ("0", "11"),
    ]  # fmt: skip
    assert {tag for tag, _ in page.found}.isdisjoint({"script", "link", "iframe", "object", "img"})
    assert render_federation(account) == render_federation(json.loads(json.dumps(account)))


def test_every_text_of_a_page_is_escaped(tmp_path: Path) -> None:
    """Names, words and files that are HTML: nothing of them becomes an element or an attribute."""
    released(tmp_path, FEDERATION)
    account = account_of(tmp_path / "m")
    plain = Read(render_federation(account)).found

    def evil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: evil(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [evil(part, key) for part in value]
        return (
            EVIL
            if isinstance(value, str) and key in {"federation", "id", "version", "name", "label", "account"}
            else value
        )

    told = evil(account)
    told["trust"] = [EVIL + said if not said.startswith("unprotected") else said + EVIL for said in told["trust"]]
    told["files"] = {EVIL + name: held for name, held in told["files"].items()}
    page = render_federation(told)
    assert b"<img" not in page
    assert Read(page).text.count(EVIL) > 8
    shape = [(tag, sorted(attributes)) for tag, attributes in Read(page).found]
    assert shape == [(tag, sorted(attributes)) for tag, attributes in plain]


def test_another_page_is_found(tmp_path: Path) -> None:
    """Another byte; and a page that its coordinator signed, with another loss, or another word."""
    _, known, workspace, _ = released(tmp_path, FEDERATION)
    folder, key = tmp_path / "m", workspace.public_key_file.read_text().strip()
    held, account = (folder / PAGE).read_bytes(), account_of(tmp_path / "m")
    assert page_statement(account) == account["page"]

    def found(page: bytes, **stated: str) -> list[tuple[str, str]]:
        signed = {**account, "page": {**account["page"], **stated}}
        sign_alone(folder, signed, workspace)
        (folder / PAGE).write_bytes(page)
        return [(each.field, each.found) for each in check_released(folder, known, public_key=key)]

    assert found(held) == []
    assert found(held.replace(b"Not protected", b"Protected")) == [("the page", "other bytes")]
    loss = account["guarantee"]["epsilon_person"].encode()
    other = held.replace(b'<data value="' + loss, b'<data value="0.1')
    assert found(other, sha256=hashlib.sha256(other).hexdigest()) == [("the page", "other numbers")]
    assert found(other, sha256=hashlib.sha256(other).hexdigest(), code="0" * 64) == [("the page", "other numbers")]
    other = held.replace(b"Not protected", b"Protected")
    assert found(other, sha256=hashlib.sha256(other).hexdigest()) == [("the page", "other bytes")]
    (folder / PAGE).unlink()
    assert [each.field for each in check_released(folder, known, public_key=key)] == ["its files"]


def sign_alone(folder: Path, account: dict[str, Any], workspace: Workspace) -> None:
    """Sign an account, and leave its page as it is."""
    signer = Signer(workspace.signing_seed())
    signature = {"public_key": signer.public_key, "signature": signer.sign("federation", account)}
    (folder / "federation.json").write_bytes(canonical_json(account))
    (folder / "federation.sig").write_bytes(canonical_json(signature))
