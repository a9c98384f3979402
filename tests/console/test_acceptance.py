"""Releases with criteria as people type them: accepted and verified, or not published, with a code of its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.console.conftest import Place, Typed

pytestmark = pytest.mark.usefixtures("served")
_WIDE = "[workclass, education, marital-status, occupation, relationship, race, sex, income]"


def written(place: Place, name: str, *changes: tuple[str, str]) -> Path:
    """Write the example under another name, with few columns and other texts in it."""
    text = (place.adult / "accepted.yaml").read_text().replace("release: adult-accepted", f"release: {name}")
    few = (
        (_WIDE, "[race, sex, income]"),
        ("[[education, income], [sex, income]]", "[[race, income], [sex, income]]"),
    )
    for old, new in (*few, *changes):
        assert old in text
        text = text.replace(old, new)
    path = place.adult / f"{name}.yaml"
    path.write_text(text)
    return path


def charges(place: Place, release: str) -> list[tuple[str]]:
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        return ledger.execute("select status from charges where run_key like ?", (f"{release}-%",)).fetchall()


def test_the_example_is_accepted_and_says_by_which_candidate(shared: Place, typed: Typed) -> None:
    """Three columns at the example's charge: the first candidate is inside all bounds by 10 deviations and more."""
    released = shared.type("run", str(written(shared, "good")), "--json")
    assert released.code == 0, released.err
    verified = typed("verify", released.json["folder"], "--deep", "--key", released.json["public_key_file"])
    assert verified.code == 0, verified.err
    record = (Path(released.json["folder"]) / "record.html").read_text()
    assert "candidate 1, mst, met all criteria and is published" in record


def test_what_no_candidate_meets_is_not_published_and_stays_charged(shared: Place, typed: Typed) -> None:
    """Exit 7 in words and JSON; the same command again draws nothing, charges nothing and ends as before."""
    spec = written(shared, "bad", ("at_most: 0.05", "at_most: 0.00021"), ("epsilon: 1.0", "epsilon: 0.5"))
    first = shared.type("run", str(spec))
    assert first.code == 7, first.err
    assert "no candidate was accepted, and nothing is published" in first.err
    assert "sudare explain nothing-accepted" in first.err
    assert charges(shared, "bad") == [("opened",)]
    again = shared.type("run", str(spec), "--json")
    error = again.json["error"]
    assert (again.code, error["kind"], error["exit_code"]) == (7, "NothingAccepted", 7)
    words = " ".join(first.err.split())
    told = words[words.index("no candidate") : words.index("charged anew")]
    assert told in " ".join(again.out.split())
    assert charges(shared, "bad") == [("opened",)]
    assert not (shared.workspace.releases / "bad").exists()
    assert "the charge stays spent" in " ".join(typed("explain", "nothing-accepted").out.split())


def test_a_charge_that_does_not_fit_the_account_is_refused_before_anything_is_drawn(shared: Place) -> None:
    refused = shared.type("run", str(written(shared, "dear", ("epsilon: 1.0", "epsilon: 40"))))
    assert refused.code == 4, refused.err
    assert charges(shared, "dear") == []


def test_a_plan_says_how_many_rows_the_criteria_need(shared: Place) -> None:
    """Where nothing says how many there are; with `rows_about` the plan checks the bounds itself."""
    spec = written(shared, "narrow", ("at_most: 0.05", "at_most: 0.0001"))
    planned = shared.type("plan", str(spec))
    assert planned.code == 0
    said = " ".join(planned.out.split())
    assert "candidates mst, then aim" in said
    assert "rows or more; with fewer all is charged for nothing: write rows_about" in said
    known = written(
        shared,
        "known",
        ("at_most: 0.05", "at_most: 0.0001"),
        ("    criteria:", "    rows_about: 48000\n    criteria:"),
    )
    refused = shared.type("plan", str(known))
    assert refused.code == 2
    assert "below what the noise of the test makes of a perfect model" in refused.err
