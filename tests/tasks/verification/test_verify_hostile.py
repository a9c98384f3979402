"""Nothing that stands in a folder raises: files of other versions, structures exchanged, statements of any form."""

import copy
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contracts.canonical import readable_json
from tasks import verify as verification
from tasks.verify import _Verification
from tests.tasks.verification.forgery import Json, forge, load, of_kind, proof_head, sign_manifest
from tests.tasks.verification.parquet_bombs import BOMB, bomb
from tests.worlds.classifiers import anonymized_learning, dp_sgd, learning_first
from tests.worlds.versions import Version, Worlds, broken, named

STRANGE: tuple[Any, ...] = (None, [], {}, "", 0, -1, 10**40, 1.5, "x" * 5000, True, [[]], "1/0", "nan", 2**63, "é")


@pytest.mark.parametrize("make", [dp_sgd, learning_first, anonymized_learning])
@pytest.mark.parametrize("by", ["data/sex_x_age.parquet", "record.json"])
def test_a_file_of_another_version_in_the_place_of_what_was_drawn_is_found(
    versions: dict[str, Version], worlds: Worlds, make: Any, by: str, tmp_path: Path
):
    """The review's spliced checkpoint, signed again by its publisher; it raised, and named no file."""
    version = worlds.published(make()).copy(tmp_path / "copy")
    [drawn] = [name for name in version.files if name.startswith("measurements/")]
    (version.folder / drawn).write_bytes((versions["extract"].folder / by).read_bytes())
    report = forge(version).verify(deep=True)
    assert not report.ok
    assert drawn in named(report)


@pytest.mark.parametrize("kind", [["discrete_laplace"], {}, None, 3])
def test_an_event_of_no_known_form_in_the_charge_is_found(guild: Version, kind: Any):
    forge(guild, journal=lambda entries: of_kind(entries, "charge_reserved")["events"][0].update(kind=kind))
    report = guild.verify()
    assert not report.ok
    assert "PROOF.json" in named(report) | {"PROOF.json" for f in report.findings if "charge" in f.allowed}


CHECKS = {
    "_read_manifest": ({2}, "MANIFEST.json"),
    "_check_folder": ({1}, "MANIFEST.json"),
    "_check_contents": ({3}, "MANIFEST.json"),
    "_check_proof": ({4}, "PROOF.json"),
    "_check_record": ({5}, "record.json"),
    "_check_draws": ({6}, "record.json"),
    "_check_loss": ({7}, "record.json"),
    "_check_outcome": ({8, 9}, "record.json"),
    "_check_catalogue": ({10}, "croissant.json"),
    "_check_estimation": ({11}, "record.json"),
    "_check_asked": ({13}, "PROOF.json"),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), KeyError("\x1b[2J")])
def test_whatever_a_check_raises_is_a_finding_of_its_rule_that_names_a_file(
    guild: Version, monkeypatch: pytest.MonkeyPatch, check: str, error: Exception
):
    """No list of what a stranger's file can raise is whole."""

    def stop(self: object, *asked: int) -> None:
        raise error

    monkeypatch.setattr(_Verification, check, stop)
    online = "https://journal.example" if check == "_check_asked" else None
    report = guild.verify(online=online)
    rules, where = CHECKS[check]
    assert rules <= broken(report)
    told = [f for each in report.checks if each.rule in rules for f in each.findings]
    assert {f.where for f in told} == {where}
    assert all(type(error).__name__ in f.found and f.found.isprintable() for f in told)
    assert [each.rule for each in report.checks if each.rule <= 10] == list(range(1, 11))
    assert not report.ok


def test_a_record_that_asks_for_too_many_terms_fails_the_rule_that_would_add_them_up(
    guild: Version, monkeypatch: pytest.MonkeyPatch
):
    """The bound counts terms, which follow from the record alone; here it is so low that an honest one passes it."""
    monkeypatch.setattr(verification, "MOST_TERMS", 10)
    report = guild.verify()
    assert not report.ok
    told = [f for f in report.findings if f.field == "what its numbers ask for"]
    assert {each.rule for each in report.checks if set(told) & set(each.findings)} == {7}
    assert {(f.where, f.allowed) for f in told} == {("record.json", "what at most 10 terms compute")}
    assert [each.rule for each in report.checks] == list(range(1, 11))


def test_a_table_whose_pages_unpack_to_more_than_its_footer_says_is_not_unpacked(guild: Version):
    """A publisher signs a bomb: a page of a few bytes that unpacks to 64 MB, and a footer that says it is small."""
    name = next(name for name in guild.files if name.startswith("data/") and name.endswith(".parquet"))
    path = guild.folder / name
    path.write_bytes(bomb(pq.read_table(path)))
    forge(guild)
    told = [f for f in guild.verify().findings if f.where == name and f.field == "unpacked size"]
    assert told
    assert int(told[0].found.split()[0]) > BOMB


def test_a_checkpoint_that_is_no_earlier_one_is_not_listed_among_them(guild: Version):
    """That a journal begins with all of itself says nothing: without a key, any number of them fit."""
    path = guild.folder / "PROOF.json"
    proof = load(path)
    own = {"size": proof_head(proof).size, "root": proof_head(proof).root, "path": []}
    path.write_bytes(readable_json({**proof, "earlier": [*proof["earlier"], own]}))
    report = guild.verify()
    assert broken(report) == {4}
    assert {(f.where, f.field) for f in report.findings} == {("PROOF.json", "earlier")}


def nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value but its root."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [place for key, part in children for place in nodes(part, (*path, key))]
    return [path, *below] if path else below


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def changed(value: Any, rng: random.Random) -> Any:
    """Put something strange, or another part of the same file, at a place; or take it away, or double it."""
    made = copy.deepcopy(value)
    places = nodes(made)
    place, other = rng.choice(places), rng.choice(places)
    parent, key = at(made, place[:-1]), place[-1]
    match rng.randrange(4):
        case 0:
            del parent[key]
        case 1:
            parent[key] = copy.deepcopy(at(value, other))
        case 2 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        case _:
            parent[key] = rng.choice(STRANGE)
    return made


@pytest.mark.long
@pytest.mark.parametrize(("name", "turns"), [("town", 90), ("guild", 78), ("extract", 12)])
def test_statements_of_any_form_raise_nothing_though_their_publisher_signs_them(
    versions: dict[str, Version], tmp_path: Path, name: str, turns: int
):
    """180 structural changes: of the record, of its replay part alone, of the journal's entries.

    Fewer of the version whose tables take long to be refined again.
    """
    rng = random.Random(name)
    for turn in range(turns):
        version = versions[name].copy(tmp_path / str(turn))
        record = version.folder / "record.json"
        if turn % 3 == 0:
            record.write_bytes(readable_json(changed(load(record), rng)))
            sign_manifest(version.folder, version.signer)
        elif turn % 3 == 1:
            forged = load(record)
            forged["replay"] = changed(forged["replay"], rng)
            record.write_bytes(readable_json(forged))
            sign_manifest(version.folder, version.signer)
        else:
            proof: Json = load(version.folder / "PROOF.json")
            proof["entries"] = changed(proof["entries"], rng)
            (version.folder / "PROOF.json").write_bytes(readable_json(proof))
        assert len(version.verify().checks) == 10
