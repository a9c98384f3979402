"""Forgeries by a coordinator with the right key: account, page and files that are changed consistently are found."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.ledger.journal.signing import Signer
from tasks.federation.federation_outputs import WEIGHTS
from tasks.federation.federation_page import PAGE, page_statement, render_federation
from tasks.federation.federation_release import check_released, page_told
from tasks.federation.federation_run import Federation
from tasks.federation.generator_outputs import MODEL
from tasks.federation.statement_checks import draw_digest, file_names, reserves, sum_read
from tasks.storage.workspace.settings import Workspace
from tests.tasks.federation.test_federation_sites import released
from tests.worlds.federations import FEDERATION, GENERATOR, MARGINALS, TABLES

Json = dict[str, Any]
CHEAP = {"event": {"kind": "zero_concentrated", "rho": "1/1000000"}, "times": 1}
FIRST = "round-00000.npy"


@dataclass(frozen=True)
class Forger:
    """Who signs what they like, in a copy of a release."""

    folder: Path
    known: Federation
    workspace: Workspace

    @property
    def account(self) -> Json:
        account: Json = json.loads((self.folder / "federation.json").read_bytes())
        return account

    @property
    def key(self) -> str:
        return self.workspace.public_key_file.read_text().strip()

    def signs(self, account: Json, *, page: bool = True) -> list[Finding]:
        """What is found of another account, whose page is made again where it can be."""
        if page:
            account["page"] = page_statement(account)
            (self.folder / PAGE).write_bytes(render_federation(account))
        signer = Signer(self.workspace.signing_seed())
        signature = {"public_key": signer.public_key, "signature": signer.sign("federation", account)}
        (self.folder / "federation.json").write_bytes(canonical_json(account))
        (self.folder / "federation.sig").write_bytes(canonical_json(signature))
        return self.found()

    def found(self) -> list[Finding]:
        return check_released(self.folder, self.known, public_key=self.key)

    def fields(self, change: Callable[[Json], object], *, page: bool = True) -> list[str]:
        account = self.account
        change(account)
        return [each.field for each in self.signs(account, page=page)]

    def holds(self, name: str, data: bytes) -> list[tuple[str, str]]:
        """What is found where a file holds other bytes, and the account names them."""
        (self.folder / name).write_bytes(data)
        account = self.account
        account["files"][name] = hashlib.sha256(data).hexdigest()
        return [(Path(each.where).name, each.field) for each in self.signs(account)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Forger]:
    made: dict[str, Forger] = {}

    def of(federation: str) -> Forger:
        if federation not in made:
            folder = tmp_path_factory.mktemp("federation")
            _, known, workspace, _ = released(folder, federation)
            made[federation] = Forger(folder / "m", known, workspace)
            assert made[federation].found() == []
        return made[federation]

    return of


@pytest.fixture
def forger(kept: Callable[[str], Forger], tmp_path: Path) -> Callable[[str], Forger]:
    def of(federation: str) -> Forger:
        whole = kept(federation)
        rmtree(tmp_path / "copy", ignore_errors=True)
        return Forger(copytree(whole.folder, tmp_path / "copy"), whole.known, whole.workspace)

    return of


def put(*path: Any) -> Callable[[Json], None]:
    """Change one place of an account: names on the way, and the value."""
    *way, last, value = path

    def change(account: Json) -> None:
        place: Any = account
        for name in way:
            place = place[name]
        place[last] = value

    return change


def test_an_event_of_ones_own_does_not_make_a_loss_cheaper(forger: Callable[[str], Forger]) -> None:
    """P3GM is charged several kinds of events. One more that is cheap, and the epsilon that it alone would cost."""
    forgers = forger(GENERATOR)
    first = forgers.account["cost"]["events"][0]["event"]
    for more in (CHEAP, {"event": first}):
        for epsilon in ("0.01", forgers.account["cost"]["epsilon"]):
            assert forgers.fields(lambda told, m=more, e=epsilon: told["cost"].update(m, epsilon=e)) == ["cost"]
            forger(GENERATOR)
    assert forgers.fields(put("cost", "epsilon", "0.9")) == ["cost.epsilon"]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (put("cost", "events", []), ["cost"]),
        (put("cost", "epsilon", "0.01"), ["cost.epsilon"]),
        (put("cost", "epsilon", "7.9999999999990"), ["cost.epsilon"]),
        (put("cost", "times", 1), ["cost.times"]),
        (put("guarantee", "epsilon_person", "0.01"), ["guarantee"]),
        (put("guarantee", "more", "x"), ["guarantee"]),
        (put("more", "nobody is trusted"), ["its keys"]),
        (put("spec", "more", "x"), ["spec"]),
        (put("plan", "more", "x"), ["plan"]),
        (put("plan", "trust", "secure_aggregation", 1), ["plan"]),
        (put("key_id", "0" * 16), ["key_id"]),
        (put("cost", "lost_attempts", -5), ["cost.lost_attempts"]),
        (put("cost", "lost_attempts", 3), ["cost.lost_attempts"]),
        (put("cost", "lost_attempts", True), ["cost.lost_attempts"]),
        (put("rounds", 0, "present", [2, 0, 0]), ["rounds"]),
        (put("rounds", 0, "present", [1, 1, 1]), ["rounds"]),
        (put("rounds", 0, "present", [True] * 9), ["rounds"]),
        (put("rounds", 0, "present", [True, False, False]), ["rounds"]),
        (put("rounds", 0, "more", "x"), ["rounds"]),
        (put("rounds", 0, "sha256", "0" * 64), ["rounds.sha256"]),
        (put("rounds", 0, "present", [True, True, False]), ["rounds.sha256"]),
        (put("files", {}), ["files"]),
        (put("files", "extra.csv", "0" * 64), ["files"]),
    ],
)
def test_another_account_is_found(
    forger: Callable[[str], Forger], change: Callable[[Json], None], fields: list[str]
) -> None:
    assert forger(FEDERATION).fields(change) == fields


@pytest.mark.parametrize("name", ["guarantee", "trust", "page", "key_id", "files", "rounds", "schema"])
def test_an_account_says_all_of_it(forger: Callable[[str], Forger], name: str) -> None:
    assert forger(FEDERATION).fields(lambda account: account.pop(name), page=False) == ["its keys"]


@pytest.mark.parametrize("epsilon", ["NaN", "sNaN", "Infinity", "-1", "much", 8, None, [], {}])
def test_an_epsilon_that_is_no_number_is_a_finding(forger: Callable[[str], Forger], epsilon: object) -> None:
    assert forger(FEDERATION).fields(put("cost", "epsilon", epsilon), page=False) == ["cost.epsilon"]


@pytest.mark.parametrize("part", ["spec", "cost", "rounds", "files", "page", "plan"])
@pytest.mark.parametrize("value", [None, 5, "x", [], [[]], {}, {"x": {}}])
def test_parts_of_another_form_are_findings(forger: Callable[[str], Forger], part: str, value: object) -> None:
    assert forger(FEDERATION).fields(put(part, value), page=False) != []


def test_an_account_that_says_a_thing_twice_is_found(forger: Callable[[str], Forger]) -> None:
    """Readers of JSON take the last of two equal keys, or the first; so bytes are those that the values give."""
    forgers = forger(FEDERATION)
    path = forgers.folder / "federation.json"
    path.write_bytes(path.read_bytes().replace(b'{"contract"', b'{"cost":{"epsilon":"0.01"},"contract"', 1))
    assert [each.field for each in forgers.found()] == ["its bytes"]


def test_what_is_no_account_at_all_is_a_finding(forger: Callable[[str], Forger]) -> None:
    forgers = forger(FEDERATION)
    for data in (b"", b"[]", b"5", b"null", b"[" * 100_000, b'{"cost": NaN}', b"\xff"):
        (forgers.folder / "federation.json").write_bytes(data)
        assert [each.field for each in forgers.found()] in (["release"], ["signature"])


def test_the_page_of_other_code_shows_the_numbers_of_the_account(forger: Callable[[str], Forger]) -> None:
    """Its words are not compared, which the check says; numbers are, as values and as they are shown."""
    forgers = forger(FEDERATION)
    held, account = (forgers.folder / PAGE).read_bytes(), forgers.account
    assert page_told(forgers.folder) == "page: byte for byte what this code makes of federation.json"

    def found(page: bytes) -> list[str]:
        (forgers.folder / PAGE).write_bytes(page)
        told = account | {"page": {"sha256": hashlib.sha256(page).hexdigest(), "code": "0" * 64}}
        return [each.found for each in forgers.signs(told, page=False)]

    assert found(held) == []
    assert found(held.replace(b"Not protected", b"All protected")) == []
    assert page_told(forgers.folder) == "page: made by other code, main numbers compared, words not"
    shown = re.sub(rb'(<data value="[^"]+">)[^<]+(</data>)', rb"\g<1>0.001\2", held)
    one_more = held.replace(b"<main", b'<data value="0.1">0.1</data><main')
    for other in (
        shown,
        re.sub(rb'(<data value="[^"]+">)[^<]+(</data>)', rb"\g<1><b>0.001</b>\2", held, count=1),
        one_more,
        one_more.replace(b'<data value="0.1"', b'<DATA value="0.1"'),
        one_more.replace(b'<data value="0.1"', b"<data  value='0.1'"),
        re.sub(rb'<data value="[^"]+">([^<]+)</data>', rb"\1", held),
    ):
        assert other != held
        assert found(other) == ["other numbers"]


def test_a_page_that_no_account_names_is_refused(forger: Callable[[str], Forger]) -> None:
    forgers = forger(FEDERATION)
    (forgers.folder / PAGE).write_bytes(b"<h1>no loss at all</h1>")
    assert [each.field for each in forgers.found()] == ["the page"]
    assert forgers.fields(lambda account: account.pop("page"), page=False) == ["its keys"]
    statement = {"sha256": "0" * 64, "code": "0" * 64}
    for other in (statement | {"more": "x"}, statement | {"code": 5}, {"sha256": "0" * 64}, "0" * 64):
        assert forgers.fields(put("page", other), page=False) == ["page"]


def test_files_that_nobody_made_are_found(forger: Callable[[str], Forger], tmp_path: Path) -> None:
    """Beside the account's, in the account, below, or as a link; and one that is gone."""
    forgers = forger(MARGINALS)
    beside = forgers.folder / "extra.csv"
    beside.write_text("age,ward\n3,A\n")
    assert [each.field for each in forgers.found()] == ["its files"]
    listed = hashlib.sha256(beside.read_bytes()).hexdigest()
    assert forgers.fields(put("files", "extra.csv", listed)) == ["files"]
    forger(MARGINALS)
    (forgers.folder / "below").mkdir()
    assert [each.field for each in forgers.found()] == ["its files"]
    (forgers.folder / "below").rmdir()
    (forgers.folder / FIRST).rename(tmp_path / FIRST)
    assert [each.field for each in forgers.found()] == ["its files"]
    (forgers.folder / FIRST).symlink_to(tmp_path / FIRST)
    assert [each.field for each in forgers.found()] == ["its files"]
    assert forgers.fields(lambda account: account["files"].pop("rows.json")) == ["files"]


@pytest.mark.parametrize("federation", [FEDERATION, TABLES, GENERATOR, MARGINALS])
def test_what_a_run_makes_is_known_before(forger: Callable[[str], Forger], federation: str) -> None:
    whole = forger(federation)
    assert set(whole.account["files"]) == file_names(whole.known)
    assert reserves(whole.known) == {FEDERATION: 2, TABLES: 2, GENERATOR: 2, MARGINALS: 1}[federation]


def test_a_sum_of_another_form_is_found(forger: Callable[[str], Forger]) -> None:
    """Fractions, which the reader once cut off; other whole numbers; two dimensions; bytes after the numbers."""
    forgers = forger(MARGINALS)
    steps = sum_read((forgers.folder / FIRST).read_bytes())
    assert draw_digest(forgers.account["rounds"][0]["present"], steps) == forgers.account["rounds"][0]["sha256"]
    fractions = steps + np.where(steps >= 0, 1, -1) * np.linspace(0, 0.9, steps.size)

    def saved(array: Any) -> bytes:
        written = io.BytesIO()
        np.save(written, array)
        return written.getvalue()

    honest = saved(steps.astype("<i8"))
    forms = (fractions, steps.astype(">i8"), steps.astype("<i4"), steps[None], steps[:, None])
    for data in (*map(saved, forms), honest + b"more", honest[:-1], b"", b"no array"):
        assert forgers.holds(FIRST, data) == [(FIRST, "numbers")]
    assert (FIRST, "rounds.sha256") in forgers.holds(FIRST, saved(-steps))
    assert forgers.holds(FIRST, honest) == []


def test_more_than_the_numbers_in_a_product_is_found(forger: Callable[[str], Forger]) -> None:
    """Weights that are no numbers, bytes of a classifier's file and keys of a model's that say something else."""
    forgers = forger(FEDERATION)
    whole = (forgers.folder / WEIGHTS).read_bytes()
    assert forgers.holds(WEIGHTS, whole[:-4] + np.array([np.nan], "<f4").tobytes()) != []
    size = int.from_bytes(whole[:8], "little")
    spaced = (size + 8).to_bytes(8, "little") + whole[8 : 8 + size] + b" " * 8 + whole[8 + size :]
    assert forgers.holds(WEIGHTS, spaced) != []
    assert forgers.holds(WEIGHTS, whole) == []
    rows = forger(MARGINALS)
    told = json.loads((rows.folder / MODEL).read_bytes())
    assert rows.holds(MODEL, json.dumps(told | {"more": "x"}).encode()) == [(MODEL, "numbers")]
