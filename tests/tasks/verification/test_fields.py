"""Every part of the record follows from what is published, or the report lists it as the publisher's word."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.records.record import published_explanation
from tasks.verification.outcomes import NOT_COMPARED
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES
from tasks.verify import _Verification
from tests.tasks.products.tables.test_minimum_frequency import suppressing
from tests.tasks.verification.forgery import Json, as_forged, forge, load, of_kind, told, with_words
from tests.worlds.classifiers import dp_sgd
from tests.worlds.sparse_tables import small
from tests.worlds.spines import with_teams, with_totals
from tests.worlds.statistics import pure as statistics
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import first, second
from tests.worlds.versions import AnyScenario, Version, Worlds, broken

Path_ = tuple[str | int, ...]
KINDS: dict[str, Callable[[], AnyScenario]] = {
    "dense": second,
    "suppressed": suppressing,
    "sparse": small,
    "synthetic": aim,
    "classifier": dp_sgd,
    "statistics": statistics,
    "spine": with_totals,
    "spines": with_teams,
}
OWN_FIELDS = {
    "synthetic": {"product.expected_error", "product.model"},
    "classifier": {"ledger.draws", "product.measured"},
}
"""Fields that neither record nor journal nor manifest give: what stands in files."""
_WRITTEN = {"synthetic": ("rounds",), "classifier": ("rows_about", "epochs", "checkpoints", "reserve", "batch")}
OF_OPTIONS = {
    kind: {"replay.product.options", *(f"replay.product.options.{name}" for name in names)}
    for kind, names in _WRITTEN.items()
}
"""The options that differ from the defaults, and one name for the others."""
OF_A_PLAN = {"synthetic": {"replay.product.generator"}}
"""AIM's plan is one budget, as that of others."""
_AT = ("replay", "product", "options")
_OF_AIM = ("degree", "init", "max_model_megabytes", "rounds", "time_limit")
_OF_TRAINING = ("learning_rate", "max_memory_megabytes", "rows_at_once", "seed", "time_limit")
UNCONFIRMED: dict[str, set[Path_]] = {
    "synthetic": {("replay", "notes"), *((*_AT, name) for name in _OF_AIM)},
    "classifier": {
        ("replay", "charge", "epsilon"),
        ("replay", "draws", 0, "shape", 0),
        *((*_AT, name) for name in _OF_TRAINING),
    },
    "spine": {
        ("replay", "product", "spine", "file"),
        ("replay", "product", "spine", "unbalanced"),
        ("replay", "product", "invariants", "wing", "column"),
        ("replay", "product", "invariants", "wing", "reference"),
    },
    "spines": {
        ("replay", "product", "spine", "file"),
        ("replay", "product", "spine", "unbalanced"),
        ("replay", "product", "other_spines", 0, "file"),
        ("replay", "product", "other_spines", 0, "unbalanced"),
        ("replay", "product", "invariants", "wing", "column"),
        ("replay", "product", "invariants", "wing", "file"),
        ("replay", "product", "invariants", "wing", "reference"),
    },
}
"""What a spec asked for may be more than it cost, what a fit noted, and options that no event and no number shows:
they are listed. The size of a checkpoint that is not published stands beside them."""
ON_PRIVATE_ROWS = {
    "classifier": {f"replay.draws.training.plan.{name}" for name in ("clipping_norm", "expected_batch_size")}
}
"""What only the training itself would show."""
OF_A_PUBLIC_FILE = {kind: {".".join(map(str, path)) for path in UNCONFIRMED[kind]} for kind in ("spine", "spines")}
"""How the file of places was named and read, and where its totals are published."""
DECLARED = {
    *(f"declarations.source.{name}" for name in ("by", "engine", "files", "format", "select", "select_types")),
    *(f"declarations.software.{name}" for name in ("code", "commit", "container", "dirty", "distributions")),
    *(f"declarations.software.{name}" for name in ("distributions_sha256", "packages", "platform", "python")),
    *(f"declarations.{name}" for name in ("claim_source", "earlier_charges", "formats")),
    "declarations.second_epsilon",
    "auditor_commitment",
    *(f"replay.charge.{name}" for name in ("delta", "epsilon")),
}
NAMED = {("replay", "distances"), ("replay", "model", "sha256")}
"""Entries of one form under names, looked at in one loop: the last one stands for the others."""
_REPLAY = {
    "contract": ("contract",),
    "charge": ("adjacency", "contract_digest", "due", "rows_per_unit", "spec_digest"),
    "amounts": ("after", "amount", "before", "calculus", "cap", "claim"),
}
OF_ALL_KINDS: dict[str, str] = {name: group for group, names in _REPLAY.items() for name in names}
"""What no product checks by itself: the contract is held against its digest, the charge and its amounts against the
journal. The first kind is tried with every leaf; in the others one of each group shows the same check."""


@pytest.fixture(scope="module", params=KINDS)
def published(request: pytest.FixtureRequest, worlds: Worlds) -> tuple[str, Version]:
    kind: str = request.param
    return kind, worlds.published(KINDS[kind](), here=True)


@pytest.fixture(scope="module")
def tables(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Version:
    version = worlds.published(second(), here=True)
    return as_forged(version.copy(tmp_path_factory.mktemp("forged") / "v"))


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every leaf of a JSON value; of a list the first entry stands for the others."""
    if isinstance(value, dict) and value:
        for key, part in list(value.items())[-1 if path in NAMED else 0 :]:
            yield from leaves(part, (*path, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same form."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if len(value) in (32, 64) and not value.strip("0123456789abcdef"):
            return value[1:] + ("1" if value[0] == "0" else "0")
        case str() if value[:1].isdigit():
            return f"9{value}"
        case str():
            return f"{value}1"
        case list():
            return [*value, *value[:1], "more"]
        case dict():
            return {**value, "more": 1}
    return 7


def at(record: Json, path: Path_, change: Callable[[Any], Any]) -> Json:
    edited = copy.deepcopy(record)
    place: Any = edited
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = change(place[path[-1]])
    return edited


class Noticed(BaseException):
    """A rule does not hold; no check takes it for an error of its own."""


def is_noticed(version: Version) -> bool:
    """Whether a version does not verify: the rules after the first that does not hold are not checked."""
    close = _Verification._close

    def closed(self: _Verification, findings: Any, skipped: Any = (), **rule: Any) -> None:
        if findings or skipped:
            raise Noticed
        close(self, findings, skipped, **rule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Verification, "_close", closed)
        try:
            return not version.verify().ok
        except Noticed:
            return True


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_each_leaf_of_the_record_that_is_changed_is_found_or_is_the_publishers_word(
    worlds: Worlds, tables: Version, tmp_path: Path, kind: str
):
    """One by one, descriptions made and everything signed again by the publisher; by other code, so no page helps."""
    of_first = set[Path_]() if KINDS[kind] is second else set(leaves(load(tables.folder / "record.json")))
    version = worlds.published(KINDS[kind](), here=True).copy(tmp_path / "v")
    forge(version, record=lambda r: told(r, "software.code", "f" * 64))
    record = load(version.folder / "record.json")
    version.assert_verifies()
    unnoticed, groups = [], set[str]()
    for path in leaves(record):
        group = OF_ALL_KINDS.get(str(path[1])) if path[0] == "replay" else None
        if path[0] == "declarations" or (path in of_first and group in groups):
            continue
        groups |= {group} if group else set()
        forge(version, record=lambda r, path=path: (r.clear(), r.update(at(record, path, changed))))
        if not is_noticed(version):
            unnoticed.append(path)
    assert set(unnoticed) == {("auditor_commitment",), *UNCONFIRMED.get(kind, ())}  # rule 12 is about the first


def test_what_is_the_publishers_word_is_a_short_list(published: tuple[str, Version]):
    """A value that joins it is a decision: each is a fact that no other file of the version holds."""
    kind, version = published
    record = load(version.folder / "record.json")
    report = version.verify()
    own, about = OWN_FIELDS.get(kind, set()), record["declarations"]["about"]
    declared = {f"declarations.about.{name}" for name in about} | {f"declarations.fields.{name}" for name in own}
    weighty = [name for name in report.word if name.startswith("that ")]
    assert weighty == list(report.word[:4]), "what weighs most is read first"
    assert weighty[0].startswith(("that one row is one person", "that one id is one person"))
    of_record = {name for name in report.word if not name.startswith(("journal.", "that "))}
    noted = {f"replay.{name}" for name in ("formulas", "notes") if record["replay"].get(name) is not None}
    options = OF_OPTIONS.get(kind, set()) | OF_A_PLAN.get(kind, set())
    assert of_record == DECLARED | declared | noted | options | ON_PRIVATE_ROWS.get(
        kind, set()
    ) | OF_A_PUBLIC_FILE.get(kind, set())
    assert report.to_json()["publishers_word"] == list(report.word)


def test_the_record_holds_no_word_that_code_writes(published: tuple[str, Version]):
    """No field for people stands in it; what people read is made of it."""
    _, version = published
    record = load(version.folder / "record.json")
    explanation = published_explanation(lambda name: (version.folder / name).read_bytes())
    content = (version.folder / "record.json").read_text(encoding="utf-8")
    for path in ("guarantee.definition", "unit.neighbours", "ledger.refresh_rule", "noise.entropy"):
        assert str(explanation.values[path]) not in content
    assert set(record) == {
        *("schema", "release", "version", "supersedes", "files", "declarations", "replay", "auditor_commitment")
    }


def test_a_declaration_that_is_changed_passes_and_is_listed(tables: Version, tmp_path: Path):
    """Everybody who reads the report sees that it is the publisher's word, whatever it says now."""
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: told(record, "source.select", "SELECT 1"))
    report = version.verify()
    assert report.ok, report.findings
    assert "declarations.source.select" in report.word


@pytest.mark.parametrize("path", ["guarantee.definition", "unit.unit", "ledger.refresh_rule", "no.such"])
def test_a_field_that_follows_from_the_version_is_not_declared(tables: Version, tmp_path: Path, path: str):
    version = tables.copy(tmp_path / "v")

    def declare(record: Json) -> None:
        record["declarations"]["fields"][path] = "P[T gives S] <= exp(0.1) P[T' gives S]"

    with_words(version, declare)
    report = version.verify()
    assert broken(report) == {10}
    assert f"declarations.fields.{path}" in {finding.field for finding in report.findings}
    with_words(version, lambda record: told(record, "software.code", "f" * 64))
    report = version.verify()
    assert NOT_COMPARED in report.cannot_tell
    assert [finding.field for finding in report.findings] == [f"declarations.fields.{path}"]


def test_words_by_other_code_are_explained_by_this_one(tables: Version, tmp_path: Path):
    """Pages are not compared then; what people are told here follows from the same statement all the same."""
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: told(record, "software.code", "f" * 64))
    report = version.verify()
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    assert all(name in NOT_COMPARED for name in {*DESCRIPTIONS, *FIXED_FILES})
    before, after = (
        published_explanation(lambda name, folder=folder: (folder / name).read_bytes()).values
        for folder in (tables.folder, version.folder)
    )
    told_otherwise = {path for path in before if before[path] != after[path]}
    of_the_code = {"noise.code"} | {path for path in before if "audits." in path}
    assert told_otherwise <= of_the_code


JOURNAL_WORD = {
    "journal.at",
    "journal.account_opened.delta",
    "journal.account_opened.spent",
    *(f"journal.{kind}.salt" for kind in ("account_opened", "charge_reserved", "grant_opened", "noise_drawn")),
    "journal.charge_reserved.parts.returnable",
    "journal.charge_reserved.snapshot_hash",
    "journal.grant_opened.draws_folder",
}
"""Hours and salts; the δ of a pure account; what it took over; what could be given back; a keyed hash; a name."""
SET_BY_FORGE = {("version_published", "manifest"), ("version_published", "earlier")}
"""Fields that `forge` sets itself; other tests are about them."""


def otherwise(value: Any) -> Any:
    """Another value of the same form, further away than amounts are rounded."""
    return 2 * value + 1 if type(value) is int else changed(value)


@pytest.mark.long
def test_each_field_of_an_entry_that_is_changed_is_found_or_is_the_publishers_word(worlds: Worlds, tmp_path: Path):
    """One by one, chained and signed again by the publisher; the first entry of a kind stands for the others."""
    version = worlds.published(first(), here=True).copy(tmp_path / "v")
    with_others = forge(version.copy(tmp_path / "w"), record=lambda r: told(r, "software.code", "f" * 64))
    report = with_others.verify()
    assert report.ok, report.findings
    assert {name for name in report.word if name.startswith("journal.")} == JOURNAL_WORD
    entries = [proven["entry"] for proven in load(with_others.folder / "PROOF.json")["entries"]]
    bodies = {entry["kind"]: entry["body"] for entry in reversed(entries)}
    unnoticed = set()
    for path in leaves(bodies):
        if path[:2] in SET_BY_FORGE:
            continue

        def edit(entries: list[Json], path: Path_ = path) -> None:
            body = of_kind(entries, str(path[0]))
            body.update(at(body, path[1:], otherwise))

        forged = forge(with_others.copy(tmp_path / "-".join(map(str, path))), journal=edit)
        if not is_noticed(forged):
            unnoticed.add(".".join(("journal", *(step for step in path if isinstance(step, str)))))
    assert unnoticed == JOURNAL_WORD - {
        "journal.at",
        "journal.charge_reserved.parts.returnable",
    }  # nothing was taken before
