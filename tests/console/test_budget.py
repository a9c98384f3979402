"""`sudare budget`: accounts and their terms, how many runs fit, when an account runs out, what stands in the way."""

import re
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from contracts.canonical import readable_json
from privacy.accounting.amounts import PICO
from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.books import forget_marks
from tests.console.conftest import OPEN, Place, Typed
from tests.privacy.ledger.ledgers import HALF, Counted, request


def _open(**changed: str) -> list[str]:
    words = list(OPEN)
    for option, value in changed.items():
        words[words.index(f"--{option}") + 1] = value
    return words


def test_an_account_is_opened_shown_and_not_opened_otherwise(place: Place, typed: Typed):
    """The same terms again change nothing; other terms are refused by the ledger."""
    shown = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json
    assert (shown["epsilon"], shown["delta"], shown["claim"]) == ("3", "1e-9", "0")
    assert shown["loss"]["remaining"] == shown["loss"]["cap"]
    assert shown["sources"] == [str(place.adult / "adult.parquet")]
    assert typed(*_open(), "--json", at=place.workspace).json == shown
    typed(*_open(epsilon="4"), at=place.workspace).assert_ended(4, "a cap never changes")


def test_an_account_is_opened_again_until_something_is_charged(place: Place, typed: Typed):
    """The refusal says how; --reopen does it, and the journal holds."""
    refused = typed(*_open(epsilon="4"), at=place.workspace)
    assert (refused.code, "say --reopen" in refused.err) == (4, True)
    opened = typed(*_open(epsilon="4"), "--reopen", "--json", at=place.workspace)
    assert (opened.code, opened.json["epsilon"]) == (0, "4")
    assert typed("budget", "history", "--verify", at=place.workspace).code == 0


def test_an_account_whose_row_was_edited_is_not_shown(place: Place, typed: Typed):
    """Exit 5, with the account, both amounts and the entry; nothing that was edited is taken for what it was."""
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        ledger.execute("update accounts set cap = cap * 2")
    for words in (("budget", "show"), ("budget", "show", "adult-1994"), ("plan", str(place.spec("edited")))):
        said = typed(*words, at=place.workspace)
        assert said.code == 5, said.out
        assert "account adult-1994: cap is " in said.err
        assert "in the journal, whose entry 1 was the last to change it" in said.err


def test_accounts_are_listed_for_people_and_for_programs(shared: Place, typed: Typed):
    """The same numbers in both."""
    [account] = typed("budget", "show", "--json", at=shared.workspace).json["accounts"]
    lines = typed("budget", "show", at=shared.workspace).out
    assert account["name"] in lines
    assert account["fits"]["laplace"] not in lines
    assert account["fits"]["laplace"] in typed("budget", "show", "--exact", at=shared.workspace).out
    assert account["loss"]["remaining"] not in lines
    assert account["loss"]["remaining"] in typed("budget", "show", "--exact", at=shared.workspace).out
    assert "us" not in typed("budget", "show", "adult-1994", at=shared.workspace).err


@pytest.mark.parametrize(
    ("amount", "named"),
    [({"epsilon": each}, "--epsilon") for each in ("0", "-1", "nan", "inf", "1e309", "1e999999999", "three", "")]
    + [({"delta": each}, "delta") for each in ("1", "-1e-9", "nan", "0", "1e-30")],
)
def test_an_amount_that_is_none_is_refused(shared: Place, typed: Typed, amount: dict[str, str], named: str):
    """Exit 2, and the option is named. A Rényi loss reads as an ε only at a δ above zero; 1e-30 rounds to zero."""
    typed(*_open(**amount), at=shared.workspace).assert_ended(2, named)


def test_a_pure_account_needs_no_delta(place: Place, typed: Typed):
    """Pure ε adds up as it is."""
    words = [word for word in _open(calculus="pure") if word not in ("--delta", "1e-9")]
    words[words.index("adult-1994")], words[words.index("1994")] = "adult-1995", "1995"
    said = typed(*words, "--json", at=place.workspace)
    assert said.code == 0
    shares = {"share_spent": "0 %", "share_left": "100 %", "used": "0 % of the budget is used"}
    assert said.json["loss"] == {"what": "ε", "cap": "3", "spent": "0", "remaining": "3", **shares}


def test_an_unknown_account_is_refused_with_those_there_are(shared: Place, typed: Typed):
    """Exit 4: the ledger refuses."""
    typed("budget", "show", "adult-1995", at=shared.workspace).assert_ended(4, "adult-1994")


def test_a_second_account_for_the_same_people_and_block_is_refused(place: Place, typed: Typed):
    """It would be a second cap on the same people."""
    words = _open()
    words[words.index("adult-1994")] = "again"
    typed(*words, at=place.workspace).assert_ended(4, "adult-1994")


def test_a_bound_source_never_changes_its_people(place: Place, typed: Typed):
    """Binding again is nothing; binding to other people or another block is refused."""
    bind = ["budget", "bind", str(place.adult / "adult.parquet"), "--population", "adults", "--block", "1994"]
    first = typed(*bind, at=place.workspace)
    assert (first.code, "not there yet" in first.err) == (0, False)
    for old, new in (("adults", "children"), ("1994", "1995")):
        typed(*(new if word == old else word for word in bind), at=place.workspace).assert_ended(4, "found:")
    bind[2] = "p.duckdb::t"
    to_come = typed(*bind, "--json", at=place.workspace)
    assert to_come.json["source"].endswith("/p.duckdb::t")
    assert "p.duckdb::t is not there yet" in to_come.err


def test_a_source_of_other_people_leaves_no_account_open(place: Place, typed: Typed):
    """Account and bindings are one transaction: neither an account nor the first of two bindings is left behind."""
    words = _open()
    for old, new in (("adult-1994", "others"), ("adults", "children")):
        words[words.index(old)] = new
    sources = ("--source", "new.parquet", "--source", str(place.adult / "adult.parquet"))
    refused = typed(*words, *sources, at=place.workspace)
    assert (refused.code, "a source never changes its people" in refused.err) == (4, True)
    assert [each["name"] for each in typed("budget", "show", "--json", at=place.workspace).json["accounts"]] == [
        "adult-1994"
    ]
    kinds = [each["kind"] for each in typed("budget", "history", "--json", at=place.workspace).json["entries"]]
    assert kinds == ["ledger_created", "account_opened", "source_bound"]
    assert typed(*words, *sources[:2], at=place.workspace).code == 0


@pytest.mark.parametrize("linked", [False, True])
def test_a_copy_is_not_bound_to_other_people(place: Place, typed: Typed, linked: bool):
    """The bytes decide, not the contract by which they would be read: at `open` and `bind`, of a hard link too."""
    origin, copy = place.adult / "adult.parquet", place.adult / "copy.parquet"
    if linked:
        copy.hardlink_to(origin)
    else:
        shutil.copyfile(origin, copy)
    words = _open(population="children")
    words[words.index("adult-1994")] = "others"
    bind = ("budget", "bind", str(copy), "--population")
    for refused in (
        typed(*words, "--source", str(copy), at=place.workspace),
        typed(*bind, "children", "--block", "1994", "--by", "day", at=place.workspace),
    ):
        assert refused.code == 4
        assert f"the bytes of {origin}, which is about adults" in refused.err
        assert "bind it to adults" in refused.err
    kinds = [each["kind"] for each in typed("budget", "history", "--json", at=place.workspace).json["entries"]]
    assert kinds == ["ledger_created", "account_opened", "source_bound"]
    assert typed(*bind, "adults", "--block", "1994", at=place.workspace).code == 0


def test_folders_and_tables_are_copies_by_their_files_and_files_without_rows_of_none(place: Place, typed: Typed):
    """A folder by all its files; a table of a database by its name, since another table is other rows."""

    def bind(source: str, people: str) -> int:
        words = ("budget", "bind", str(place.adult / source), "--population", people, "--block", "1994")
        return typed(*words, at=place.workspace).code

    files = ("a/1.csv", "h\nx\n"), ("b/1.csv", "h\nx\n"), ("c/1.csv", "h\ny\n"), ("e.csv", "h\n"), ("f.csv", "h\n")
    for name, text in (*files, ("a/README", "x\ny\n"), ("c/README", "x\ny\n")):
        (place.adult / name).parent.mkdir(exist_ok=True)
        (place.adult / name).write_text(text)
    shutil.copyfile(place.adult / "adult.parquet", place.adult / "d.duckdb")
    shutil.copyfile(place.adult / "d.duckdb", place.adult / "g.duckdb")
    first = ("a", "e.csv", "d.duckdb::t", "missing.csv")
    assert [bind(name, "adults") for name in first] == [0, 0, 0, 0]
    assert [bind(name, "children") for name in ("b", "g.duckdb::t")] == [4, 4]
    (place.adult / "a/README").unlink()
    assert bind("b", "children") == 4
    later = ("c", "f.csv", "g.duckdb::u", "d.duckdb::u", "missing-too.csv")
    assert [bind(name, "children") for name in later] == [0, 0, 0, 0, 0]
    shutil.copyfile(place.adult / "a/1.csv", place.adult / "c/1.csv")
    assert bind("c", "children") == 0  # it is theirs already


def test_history_shows_the_journal_and_checks_it(place: Place, typed: Typed):
    """Every entry with its hash; `--verify` says that it holds, or exits 5 and names the entry that does not."""
    said = typed("budget", "history", "--verify", "--json", at=place.workspace).json
    assert said["verified"] is True
    assert [entry["kind"] for entry in said["entries"]] == ["ledger_created", "account_opened", "source_bound"]
    assert "holds" in typed("budget", "history", "adult-1994", "--verify", at=place.workspace).out
    shown = typed("budget", "history", at=place.workspace).out.splitlines()
    assert [line.split()[1] for line in shown] == [f"{entry['at'][:13]}:00:00Z" for entry in said["entries"]]
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        ledger.execute("update accounts set spent = 1")
    broken = typed("budget", "history", "--verify", "--json", at=place.workspace)
    assert broken.code == 5
    assert broken.json["error"]["kind"] == "JournalBroken"


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, "body = replace(body, 'schema_version', 'version')"),
        (0, "body = 'garbled'"),
        (1, "body = replace(body, 'adults', 'others')"),
        (1, "body = 'garbled'"),
        (2, "body = '[]'"),
        (2, "at = '1999-01-01T00:00:00Z'"),
    ],
)
def test_an_entry_that_was_edited_is_named_and_nothing_of_the_journal_is_shown(
    place: Place, typed: Typed, number: int, change: str
):
    """Exit 5, for people and for programs; an entry that cannot be read is a finding and no fault."""
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        for action in ("update", "delete"):
            ledger.execute(f"drop trigger journal_refuses_{action}")
        assert ledger.execute(f"update journal set {change} where sequence = {number}").rowcount == 1
    said = typed("budget", "history", "--verify", at=place.workspace)
    assert said.code == 5
    assert f"journal entry {number}: " in said.err
    assert said.out == ""
    broken = typed("budget", "history", "--verify", "--json", at=place.workspace)
    assert (broken.code, broken.json["error"]["kind"]) == (5, "JournalBroken")
    places = {finding["where"] for finding in broken.json["error"]["findings"]}
    assert f"journal entry {number}" in places


def test_a_closed_account_says_so(place: Place, typed: Typed):
    """What it lost stays written."""
    assert typed("budget", "close", "adult-1994", "--json", at=place.workspace).json["status"] == "closed"
    assert "closed" in typed("budget", "show", at=place.workspace).out


@pytest.mark.parametrize("calculus", ["pure", "renyi"])
def test_a_part_of_delta_is_set_aside_for_selections_and_shown(place: Place, typed: Typed, calculus: str):
    """Not more than delta, and of a Rényi account not all of it; what is left stands beside the cap."""
    words = _open(calculus=calculus, delta="1e-6")
    words[words.index("adult-1994")], words[words.index("1994")] = "adult-1995", "1995"
    said = typed(*words, "--selection-delta", "1e-7", "--json", at=place.workspace)
    assert said.code == 0
    assert said.json["selections"] == {"delta": "1e-7", "spent": "0", "remaining": "1e-7"}
    told = typed("budget", "show", "adult-1995", at=place.workspace)
    assert "δ = 1e-7 left of 1e-7" in told.out
    for aside in ("2e-6", "nan", *(["1e-6"] if calculus == "renyi" else [])):
        typed(*words, "--selection-delta", aside, at=place.workspace).assert_ended(2, "--selection-delta")


@pytest.mark.services
@pytest.mark.parametrize("then", ["deleted", "an older copy"])
def test_a_ledger_that_forgot_a_version_of_its_store_opens_no_account_and_runs_nothing(
    place: Place, typed: Typed, tmp_path: Path, then: str
):
    """A deleted ledger, or an older copy that was put in its place, would give every cap a second time."""
    workspace, files = (
        place.workspace,
        [place.workspace.private / f"ledger.sqlite{end}" for end in ("", "-wal", "-shm")],
    )
    copy = tmp_path / "older.sqlite"
    shutil.copyfile(files[0], copy)
    with closing(workspace.open_ledger()) as ledger:
        ledger.reserve(request(account="adult-1994", source=next(iter(ledger.sources())), noise=(HALF,)))
        open_grant(ledger, "run-1").draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, HALF), key="a")
        ledger.allocate_version("run-1")
        proof = ledger.publish("run-1", "e" * 64, workspace.signer())
    version = workspace.releases / "people-tables" / "v1"
    version.mkdir(parents=True)
    (version / "PROOF.json").write_bytes(readable_json(proof))
    opening = [*OPEN, "--source", str(place.adult / "adult.parquet")]
    assert typed(*opening, at=workspace).code == 0
    for file in files:
        file.unlink(missing_ok=True)
    forget_marks(workspace.draws)
    if then == "an older copy":
        shutil.copyfile(copy, files[0])
    commands = [opening, ["run", str(place.adult / "tables.yaml")]]
    if then == "deleted":
        commands.append(["budget", "show"])  # by then there is a new one, without accounts
        for words in (["budget", "show"], ["budget", "history"], ["releases", "list"], ["plan", commands[1][1]]):
            looked = typed(*words, at=workspace)
            assert (looked.code, "there is no ledger at" in looked.err, files[0].exists()) == (1, True, False)
    for command in commands:
        said = typed(*command, at=workspace)
        assert said.code == 4, said
        assert "people-tables/v1/PROOF.json" in said.err
        assert "sudare budget restore" in said.err
    assert typed("budget", "history", "--verify", at=workspace).code == 5


def _schedule(place: Place, *entries: tuple[str, str]) -> None:
    file = place.workspace.root / "sudare.toml"
    lines = [f'"{spec}" = "{cron}"' for spec, cron in entries]
    file.write_text(file.read_text().partition("[schedule]")[0] + "\n".join(["[schedule]", *lines]) + "\n")


def test_scheduled_specs_are_reckoned_with(place: Place, typed: Typed):
    """Runs left are what is left over what one costs; the account is used up at one of the monthly runs after."""
    _schedule(place, (str(place.spec("monthly", ("epsilon: 1.0", "epsilon: 0.1"))), "0 6 1 * *"))
    account = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json
    [scheduled] = account["schedule"]
    cost, left = (round(float(text) * PICO) for text in (scheduled["cost"], account["loss"]["remaining"]))
    assert scheduled["runs_left"] == left // cost > 0
    assert account["runs_out"]["release"] == "monthly"
    assert account["runs_out"]["at"].endswith("-01T06:00:00")
    assert "when monthly is refused" in typed("budget", "show", "adult-1994", at=place.workspace).out
    assert account["runs_out"]["at"][:10] in typed("budget", "show", at=place.workspace).out


def test_a_spec_that_would_never_run_is_told_not_hidden(place: Place, typed: Typed):
    _schedule(place, ("nowhere.yaml", "0 6 1 * *"))
    [scheduled] = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["schedule"]
    assert scheduled["runs_left"] == 0
    assert "nowhere.yaml" in scheduled["trouble"]
    assert "no such file" in typed("budget", "show", "adult-1994", at=place.workspace).out


@pytest.mark.parametrize("cron", ["often", "0 6 31 2 *", "61 * * * *", ""])
def test_a_cron_that_is_none_is_refused_with_its_line(place: Place, typed: Typed, cron: str):
    _schedule(place, ("a.yaml", cron))
    typed("budget", "show", at=place.workspace).assert_ended(2, 'schedule."a.yaml"', "cron")


def test_what_still_fits_is_told_by_the_kind_of_noise(shared: Place, typed: Typed):
    """A Rényi account tells both; asking for what it tells fits, asking for a little more does not.

    Of Laplace noise it tells what fits as one draw; this release splits its ε over four, which cost less together.
    """
    account = typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json
    assert set(account["fits"]) == {"laplace", "gaussian"}
    for kind, mechanism in (("laplace", "laplace"), ("gaussian", "gaussian")):
        epsilon = float(account["fits"][kind])
        delta = "0" if kind == "laplace" else "1e-9"
        for factor, fits in ((1, True), (1.05, False) if kind == "gaussian" else (2, False)):
            spec = shared.spec(
                f"{kind}-{fits}".lower(),
                ("epsilon: 1.0", f"epsilon: {epsilon * factor:.12g}"),
                ("delta: 0", f"delta: {delta}"),
                ("mechanism: laplace", f"mechanism: {mechanism}"),
            )
            told = typed("plan", str(spec), "--json", at=shared.workspace).json["account"]
            assert told["fits"] is fits, (kind, factor, told)


@pytest.mark.long
def test_what_a_plan_says_that_an_account_can_give_is_admitted_at_exactly_that(place: Place, typed: Typed):
    """Of each kind, tables, synthetic rows, a model: asked for at that ε it fits, and a fifth above it does not."""
    for name in ("tables", "synthetic", "model"):
        written = (place.adult / f"{name}.yaml").read_text()
        spec = place.adult / f"{name}-largest.yaml"
        spec.write_text(written)
        largest = typed("plan", str(spec), "--json", at=place.workspace).json["account"]["largest_epsilon"]
        for factor, fits in ((1, True), (1.2, False)):
            spec.write_text(re.sub(r"epsilon: [0-9.]+", f"epsilon: {float(largest) * factor:.12g}", written, count=1))
            told = typed("plan", str(spec), "--json", at=place.workspace)
            assert (told.json["account"]["fits"], told.code) == (fits, 0 if fits else 4), (name, factor)


def test_a_schedule_ends_where_the_delta_of_selections_does(place: Place, typed: Typed):
    """Five daily runs of δ = 2e-8 fit into 1e-7; the loss holds hundreds. It is told why the sixth is refused."""
    copy, contract = place.adult / "texts.parquet", place.adult / "texts.odcs.yaml"
    pl.read_parquet(place.adult / "adult.parquet").head(-1).write_parquet(copy)
    written = yaml.safe_load((place.adult / "adult.odcs.yaml").read_text())
    [occupation] = [each for each in written["schema"][0]["properties"] if each["name"] == "occupation"]
    text = {"kind": "text", "max_bytes": 60, "nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}
    occupation["customProperties"] = [{"property": "domain", "value": text}]
    contract.write_text(yaml.safe_dump(written))
    words = ("--population", "jobs", "--block", "1994", "--unit", "row", "--source", str(copy), "--epsilon", "9")
    delta = ("--delta", "1e-6", "--calculus", "pure", "--adjacency", "add_remove", "--selection-delta", "1e-7")
    said = typed("budget", "open", "jobs", *words, *delta, at=place.workspace)
    assert said.code == 0, said.err
    spec = place.adult / "jobs.yaml"
    tables = [{"by": ["occupation"], "keys": "private", "of": ["count"]}]
    spec.write_text(
        yaml.safe_dump(
            {
                "release": "jobs",
                "contract": contract.name,
                "source": {"path": copy.name},
                "charge": {"account": "jobs", "epsilon": "0.01", "delta": "2e-8"},
                "product": {"kind": "statistics", "tables": tables},
                "publish": {"to": "releases/"},
            }
        )
    )
    _schedule(place, (str(spec), "0 6 * * *"))
    account = typed("budget", "show", "jobs", "--json", at=place.workspace).json
    [scheduled] = account["schedule"]
    assert (scheduled["trouble"], scheduled["runs_left"]) == (None, 5)
    assert (account["runs_out"]["release"], account["runs_out"]["of"]) == ("jobs", "selections of keys")
    days = datetime.fromisoformat(account["runs_out"]["at"]) - datetime.fromisoformat(scheduled["next"])
    assert days.days == 5
    told = " ".join(typed("budget", "show", "jobs", at=place.workspace).out.split())
    assert "not for its loss: the δ that is set aside for selections of keys is used up by then" in told
    assert typed("plan", str(spec), "--json", at=place.workspace).json["account"]["runs_left"] == 5
