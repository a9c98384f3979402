"""`sudare budget show` with a schedule: how many runs fit, when it runs out, what stands in the way."""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl
import pytest
import yaml

from privacy.accounting.amounts import PICO
from tests.console.conftest import Place, Typed


def _schedule(place: Place, *entries: tuple[str, str]) -> None:
    file = place.workspace.root / "sudare.toml"
    lines = [f'"{spec}" = "{cron}"' for spec, cron in entries]
    file.write_text(file.read_text().partition("[schedule]")[0] + "\n".join(["[schedule]", *lines]) + "\n")


def test_scheduled_specs_are_reckoned_with(place: Place, typed: Typed) -> None:
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


def test_a_spec_that_would_never_run_is_told_not_hidden(place: Place, typed: Typed) -> None:
    _schedule(place, ("nowhere.yaml", "0 6 1 * *"))
    [scheduled] = typed("budget", "show", "adult-1994", "--json", at=place.workspace).json["schedule"]
    assert scheduled["runs_left"] == 0
    assert "nowhere.yaml" in scheduled["trouble"]
    assert "no such file" in typed("budget", "show", "adult-1994", at=place.workspace).out


@pytest.mark.parametrize("cron", ["often", "0 6 31 2 *", "61 * * * *", ""])
def test_a_cron_that_is_none_is_refused_with_its_line(place: Place, typed: Typed, cron: str) -> None:
    _schedule(place, ("a.yaml", cron))
    typed("budget", "show", at=place.workspace).assert_ended(2, 'schedule."a.yaml"', "cron")


def test_what_still_fits_is_told_by_the_kind_of_noise(shared: Place, typed: Typed) -> None:
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
def test_what_a_plan_says_that_an_account_can_give_is_admitted_at_exactly_that(place: Place, typed: Typed) -> None:
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


def test_a_schedule_ends_where_the_delta_of_selections_does(place: Place, typed: Typed) -> None:
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
