"""Approvals before the charge, as people type them: approve, run; and what is refused by name."""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.orchestration import release_plainly
from privacy.ledger.journal.notes import COSIGNATURE, VerifierKey
from tasks.products.approvals import ApprovalMissing
from tasks.records.model.approval_statements import ApprovalsStatement, ApproverStatement, about, unsound
from tasks.storage.workspace.keys import create_signing_key
from tasks.verify import verify
from tests.console.conftest import Place, Typed
from tests.tasks.verification.forgery import as_forged, assert_caught, load, with_words
from tests.worlds.versions import Version

NAMES = ("board", "officer", "stranger")


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Three secret keys below tmp_path, and their public halves."""
    return {name: create_signing_key(tmp_path / name, f"office.example/{name}") for name in NAMES}


def asking(place: Place, name: str, keys: dict[str, str], needed: int = 2, *changes: tuple[str, str]) -> Path:
    spec = place.spec(name, *changes)
    by = "".join(f"    - {{name: The {who}, key: {keys[who]}}}\n" for who in ("board", "officer"))
    spec.write_text(f"{spec.read_text()}approvals:\n  needed: {needed}\n  folder: {name}-approvals\n  by:\n{by}")
    return spec


def sign(place: Place, keys: Path, who: str, spec: Path) -> Any:
    """Sign the plan of a spec with one of the secret keys in a folder."""
    said = place.type("approve", str(spec), "--key", str(keys / who), "--json")
    assert said.code == 0, said.err
    return said.json


def made(place: Place, spec: Path) -> Path:
    """Make the release, and return the folder of its first version."""
    release_plainly(spec, place.workspace.root)
    return place.workspace.releases / spec.stem / "v1"


def key_of(place: Place) -> str:
    return place.workspace.signer().public_key


def spent(place: Place) -> list[int]:
    with closing(place.workspace.open_ledger()) as ledger:
        return [state.remaining for state in ledger.accounts()]


@pytest.mark.services
def test_a_release_runs_once_enough_have_signed_and_the_record_has_their_signatures(
    place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path
):
    spec, before = asking(place, "signed", keys), spent(place)
    said = typed("run", str(spec), at=place.workspace)
    assert said.code == ApprovalMissing.exit_code
    assert "0 of 2 approvals" in said.err
    assert "sudare approve signed.yaml --key FILE" in said.err
    assert sign(place, tmp_path, "board", spec)["epsilon"] == "1"
    with pytest.raises(ApprovalMissing, match="not yet: The officer"):
        release_plainly(spec, place.workspace.root)
    sign(place, tmp_path, "stranger", spec)
    with pytest.raises(ApprovalMissing, match=r"which is none of `approvals\.by`"):
        release_plainly(spec, place.workspace.root)
    assert spent(place) == before
    sign(place, tmp_path, "officer", spec)
    folder = made(place, spec)
    assert spent(place) != before
    given = json.loads((folder / "record.json").read_bytes())["replay"]["approvals"]["given"]
    assert sorted(each["key"] for each in given) == sorted([keys["board"], keys["officer"]])
    report = verify(folder, public_key=key_of(place))
    assert report.ok, report.findings
    assert {"replay.approvals.by", "replay.approvals.needed"} <= set(report.word), (
        "no other file of the version has them"
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [(("epsilon: 1.0", "epsilon: 1.1"), "another spec"), (("[age]", "[age, sex]"), "another spec")],
)
def test_an_approval_of_another_plan_counts_for_nothing(
    place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path, change: tuple[str, str], found: str
):
    spec, before = asking(place, "moved", keys, 1), spent(place)
    sign(place, tmp_path, "board", spec)
    spec.write_text(spec.read_text().replace(*change))
    with pytest.raises(ApprovalMissing, match=found) as refused:
        release_plainly(spec, place.workspace.root)
    assert "moved-approvals" in refused.value.findings[1].where
    assert spent(place) == before


def test_another_folder_asks_for_new_signatures(place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path):
    """The folder is part of the spec: signatures that are copied into it are of another one."""
    spec = asking(place, "monthly", keys, 1)
    sign(place, tmp_path, "board", spec)
    spec.write_text(spec.read_text().replace("monthly-approvals", "later-approvals"))
    shutil.copytree(spec.parent / "monthly-approvals", spec.parent / "later-approvals")
    with pytest.raises(ApprovalMissing, match="another spec"):
        release_plainly(spec, place.workspace.root)


def test_one_who_signs_twice_is_one(place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path):
    spec = asking(place, "twice", keys)
    first = Path(sign(place, tmp_path, "board", spec)["approval"])
    first.with_name("again.json").write_bytes(first.read_bytes())
    with pytest.raises(ApprovalMissing, match="1 of 2"):
        release_plainly(spec, place.workspace.root)


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda file: file.update(at="2020-01-01"), "a signature that does not hold"),
        (lambda file: file.update(schema="sudare-approval/1", memo_sha256="0" * 64), "another form"),
        (lambda file: file.update(release="another"), "an approval of the release another"),
        (lambda file: file.update(contract_digest="0" * 64), "another contract"),
        (lambda file: file.update(plan_digest="0" * 64), "another plan of this spec"),
        (lambda file: file.pop("key"), "another form"),
    ],
)
def test_a_file_that_was_changed_counts_for_nothing(
    place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path, spoil: Callable[[Any], Any], found: str
):
    spec = asking(place, "changed", keys, 1)
    path = Path(sign(place, tmp_path, "board", spec)["approval"])
    content = json.loads(path.read_bytes())
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ApprovalMissing, match=found):
        release_plainly(spec, place.workspace.root)


def test_an_approver_is_shown_the_plan_that_is_signed(
    place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As `sudare plan` prints it; a person who says no has signed nothing."""
    spec, out = asking(place, "shown", keys), tmp_path / "given"
    command = ("approve", str(spec), "--key", str(tmp_path / "board"), "--out", str(out))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    refused = typed(*command, at=place.workspace)
    assert (refused.code, "nothing was signed" in refused.err, out.exists()) == (130, True, False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    said = typed(*command, at=place.workspace)
    assert said.code == 0, said.err
    assert said.out.startswith(typed("plan", str(spec), at=place.workspace).out)
    assert len(list(out.iterdir())) == 1


def test_a_spec_that_asks_for_no_approval_is_not_signed(place: Place, typed: Typed, tmp_path: Path):
    create_signing_key(tmp_path / "board", "office.example/board")
    said = typed("approve", str(place.spec("unasked")), "--key", str(tmp_path / "board"), at=place.workspace)
    assert (said.code, "add `approvals:` to the spec" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("written", "said"),
    [("needed: 3", "3 of 2 approvers"), ("needed: 0", "approvals.needed"), ("folder: a, also: b", "also")],
)
def test_what_no_approver_can_meet_is_refused(
    place: Place, typed: Typed, keys: dict[str, str], written: str, said: str
):
    spec = asking(place, "unmet", keys)
    text = spec.read_text()
    changed = text.replace("needed: 2", written) if "needed" in written else f"{text}  also: b\n"
    spec.write_text(changed)
    typed("plan", str(spec), at=place.workspace).assert_ended(2, said)


def test_a_key_twice_or_of_another_form_is_refused(place: Place, typed: Typed, keys: dict[str, str]):
    spec = asking(place, "keyed", keys)
    text = spec.read_text()
    spec.write_text(text.replace(keys["officer"], keys["board"]))
    assert "twice" in typed("plan", str(spec), at=place.workspace).err
    spec.write_text(text.replace(keys["officer"], "ssh-ed25519 AAAA"))
    assert "NAME+HASH+BASE64" in typed("plan", str(spec), at=place.workspace).err


@pytest.mark.long
def test_forged_approvals_of_a_version_are_found(place: Place, typed: Typed, keys: dict[str, str], tmp_path: Path):
    """The publisher signs everything again; the approvers' signatures are not the publisher's to make."""
    spec = asking(place, "forged", keys)
    for who in ("board", "officer"):
        sign(place, tmp_path, who, spec)
    folder = made(place, spec)
    version = Version(folder, place.workspace.signer()).copy(tmp_path / "v")
    version = as_forged(version)
    assert version.verify().ok
    spoils: tuple[Callable[[Any], Any], ...] = (
        lambda stated: stated["given"].pop(),
        lambda stated: stated["given"].append(stated["given"][0]),
        lambda stated: stated["given"][0].update(at="2020-01-01"),
        lambda stated: stated["given"][0].update(key=keys["stranger"]),
        lambda stated: stated["by"].pop(),
    )
    for number, spoil in enumerate(spoils):
        one = version.copy(tmp_path / f"v{number}")
        with_words(one, lambda record, spoil=spoil: spoil(record["replay"]["approvals"]))
        assert_caught(one, {5}, where="record.json")
    [charge] = [
        each["entry"]["body"]
        for each in load(folder / "PROOF.json")["entries"]
        if "spec_digest" in each["entry"]["body"]
    ]
    stated = ApprovalsStatement.model_validate(load(folder / "record.json")["replay"]["approvals"])
    assert not [*unsound(stated, about("forged", charge))]
    for name, other in (("epsilon", 1), ("account", "another"), ("rows_per_unit", 2), ("events", [])):
        assert len([*unsound(stated, about("forged", {**charge, name: other}))]) == 2
    assert len([*unsound(stated, about("another", charge))]) == 2
    name, short, public = keys["stranger"].split("+", 2)
    malformed = f"{name}+{'0' * 8 if short != '0' * 8 else '1' * 8}+{public}"
    cosigning = VerifierKey(name, bytes(32), COSIGNATURE).text
    for key, told in ((malformed, "a character was changed"), (cosigning, "key type: 4")):
        more = stated.model_copy(update={"by": (*stated.by, ApproverStatement(name="The stranger", key=key))})
        [(found, _)] = unsound(more, about("forged", charge))
        assert found.startswith("approver 3 of `by`")
        assert told in found
