"""A release of a classifier as people type it: planned, verified, shown, scored, refused."""

import sqlite3
from pathlib import Path
from uuid import UUID

import pytest

from tests.console.conftest import Place, Said, Typed


def model(place: Place, name: str, *changes: tuple[str, str]) -> Path:
    """Write the example of a model under another name, with other texts in it."""
    text = (place.adult / "model.yaml").read_text().replace("release: adult-model", f"release: {name}")
    for old, new in (("epsilon: 1.0, delta: 1e-6", "epsilon: 0.1, delta: 1e-9"), *changes):
        assert old in text
        text = text.replace(old, new)
    path = place.adult / f"{name}.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def released(shared: Place) -> Said:
    short = ("{rows_about: 48000}", "{rows_about: 48000, epochs: 1, checkpoints: 2}")
    return shared.type("run", str(model(shared, "told", short)), "--json")


@pytest.fixture(scope="module")
def folder(released: Said) -> str:
    assert released.code == 0, released.err
    return str(released.json["folder"])


@pytest.mark.services
def test_the_flow_trains_in_a_step_of_its_own_which_prefect_knows(shared: Place, released: Said, folder: str):
    """A flow run and its task `train` are completed in Prefect's database; the auditors' record names the run."""
    assert "train" in released.err
    with sqlite3.connect(shared.workspace.prefect_home / "prefect.db") as database:
        steps = dict(database.execute("select name, state_type from task_run").fetchall())
        runs = dict(database.execute("select id, state_type from flow_run").fetchall())
    assert {state for name, state in steps.items() if name.startswith("train")} == {"COMPLETED"}
    assert not [name for name in steps if name.startswith(("measure", "refine", "synthesize"))]
    assert list(runs.values()) == ["COMPLETED"]
    for_auditors = "".join(path.read_text() for path in shared.workspace.records.rglob("*.json"))
    assert str(UUID(*runs)) in for_auditors


@pytest.mark.services
def test_a_model_is_verified_shown_and_scored(shared: Place, folder: str, typed: Typed):
    """One command each; scores stay in the private folder, and a model has no rows to sample."""
    verified = typed("verify", folder, "--key", str(shared.workspace.private / "keys" / "signing.pub"))
    assert verified.code == 0, verified.err
    assert "weights, contract of inputs and model card follow from what was published" in verified.out
    assert "model/model.safetensors" in typed("releases", "show", "told", at=shared.workspace).out
    source = str(shared.adult / "adult.parquet")
    scored = typed("evaluate", folder, "--against", source, "--show", "--json", at=shared.workspace)
    assert scored.code == 0, scored.err
    assert 0.5 < scored.json["found"]["accuracy"] < 1
    assert Path(scored.json["scores"]).is_relative_to(shared.workspace.private)
    for refused in (
        typed("sample", folder, "--rows", "5", "--to", str(shared.adult / "more.csv")),
        typed("evaluate", folder, "--against", source, "--target", "income", at=shared.workspace),
    ):
        assert refused.code == 2
        assert "classifier" in refused.err or "a model has its label" in refused.err


@pytest.mark.long
def test_the_plan_of_a_model_says_what_it_costs_and_what_it_is(shared: Place, typed: Typed):
    """Data-free, for people and as JSON."""
    said = typed("plan", str(model(shared, "planned-model")), "--json", at=shared.workspace)
    assert said.code == 0, said.err
    assert (said.json["kind"], said.json["trainer"], said.json["label"]) == ("classifier", "dp_sgd", "income")
    assert said.json["parameters"] == (said.json["widths"][0] + 1) * 2
    printed = typed("plan", str(model(shared, "planned-model")), at=shared.workspace)
    assert "weights and biases" in printed.out
    wrong = typed("plan", str(model(shared, "wrong-model", ("label: income", "label: incomes"))), at=shared.workspace)
    wrong.assert_ended(2, "write 'income'")
