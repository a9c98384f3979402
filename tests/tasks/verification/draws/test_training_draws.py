"""Versions made by DP-SGD: checkpoints as draws, lost attempts, and what a forger cannot say of them."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from contracts.contract.contract import Contract, Unit
from privacy.accounting.calculus import RenyiCalculus
from tasks.records.draws.draws import TrainingDraw
from tasks.verification.draws.sensitivity_training import check_trainings
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, resample, write_model
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    all_events,
    assert_caught_by_deep,
    both,
    cell,
    draw_of,
    drawn,
    edit,
    forge,
    load,
    replay,
    told,
)
from tests.worlds.pictures import PictureScenario
from tests.worlds.synthetic_rows import SyntheticScenario, aim
from tests.worlds.trained_generator import INTERRUPT_AT, NAME, installed
from tests.worlds.versions import Version, broken, publish_version


def trained() -> SyntheticScenario:
    product = f"{{kind: synthetic, generator: {NAME}}}"
    privacy = "{unit: {kind: row, scope: block}, adjacency: add_remove, ZEROS}"
    return replace(
        aim(),
        privacy=privacy,
        product=product,
        formats="[parquet]",
        release="trained",
        delta="1e-6",
        calculus=RenyiCalculus(Fraction(5)),
        cap=(20 * 10**12, 10**12),
        epsilon="3",
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Version]:
    with installed(tmp_path_factory.mktemp("packages")):
        yield publish_version(trained(), tmp_path_factory.mktemp("trained"))


@pytest.mark.long
def test_a_version_of_a_training_verifies_and_its_model_follows_from_the_last_checkpoint(published: Version):
    """The reserve was not needed and stays charged; the generator is run again on the published checkpoint."""
    published.assert_verifies(deep=True)
    record = load(published.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    draws = record["replay"]["draws"]
    assert [draw["training"]["interval"] for draw in draws] == [0, 1, 2]
    assert [draw["measurements"] for draw in draws[:2]] == [None, None]
    (measured,) = published.words["product.measured"]
    assert measured["file"] == draws[2]["measurements"] == "measurements/0002-checkpoint.parquet"
    assert "clipped to norm 1" in measured["trained"]
    assert "DP-SGD" in published.words["noise.mechanism"]
    assert "gradients of its rows clipped to norm 1" in (published.folder / "record.html").read_text()


def plans(**changed: Any) -> Change:
    def change(record: Json) -> None:
        for draw in record["replay"]["draws"]:
            draw["training"]["plan"].update(changed)

    return change


CHECKPOINT = "measurements/0002-checkpoint.parquet"
FORGERIES = {
    "another checkpoint": Forgery(
        {8}, files=cell(CHECKPOINT, "value", 3, 10**6), says="as it was entered when it was drawn"
    ),
    "more noise than the plan has": Forgery({6}, *all_events(noise_multiplier="50"), says="by the training's plan"),
    "fewer steps": Forgery({6}, *all_events(steps=1), says="by the training's plan"),
    "a plan of more noise, and events of it": Forgery(
        {6}, record=plans(noise_multiplier="50"), says="by the training's plan"
    ),
    "an interval twice": Forgery({6}, record=drawn(1, "training", interval=0), says="intervals in order"),
    "another learner for one interval": Forgery(
        {6}, record=drawn(1, "training", learner="0" * 64), says="one plan and one learner"
    ),
    "a plan with a key more": Forgery({6}, record=plans(speed=3), says="exactly"),
    "no training": Forgery(
        {6},
        record=lambda r: (draw_of(r, 1).pop("training"), draw_of(r, 1).update(kind="marginal")),
        says="as a draw of kind marginal has",
    ),
    "the last checkpoint untold": Forgery(
        {5}, record=lambda r: told(r, "fields.product.measured", []), says="product.measured"
    ),
    "an earlier checkpoint's file": Forgery(
        {6},
        record=both(drawn(1, measurements=CHECKPOINT), drawn(2, measurements=None)),
        says="the last one is published",
    ),
    "a choice's place": Forgery({5}, record=drawn(1, index=0), says="index"),
    "intervals in another order": Forgery({6}, record=replay(lambda r: r["draws"].reverse()), says="journal"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(version: Version, name: str):
    FORGERIES[name].check_caught(version)


@pytest.mark.parametrize("terms", [{"adjacency": "replace_one"}, {"rows": 2}])
def test_a_training_under_another_relation_is_refused(published: Version, terms: Json):
    """Poisson-sampled noise is accounted for under add_remove with one row a unit; nothing else is believed."""
    record = load(published.folder / "record.json")
    draws = [(place, TrainingDraw.model_validate(draw)) for place, draw in enumerate(record["replay"]["draws"])]
    contract = Contract.model_validate(record["replay"]["contract"])
    assert check_trainings(draws, contract, where="record.json") == []
    unit = {"kind": "id", "column": "who", "scope": "block", "max_rows_per_unit": terms.get("rows", 1)}
    other = contract.model_copy(
        update={"adjacency": terms.get("adjacency", "add_remove"), "unit": Unit.model_validate(unit)}
    )
    (finding,) = check_trainings(draws, other, where="record.json")
    assert "add_remove with one row a unit" in finding.allowed


@pytest.mark.long
def test_an_interrupted_interval_is_paid_again_and_the_version_says_so(tmp_path: Path):
    """Ctrl-C in the second interval: its first attempt is a draw that was lost, out of the reserve."""
    with installed(tmp_path / "packages"):
        INTERRUPT_AT.append(12)
        with pytest.raises(KeyboardInterrupt):
            trained().run(tmp_path / "run")
        made = publish_version(trained(), tmp_path / "run")
        made.assert_verifies(deep=True)
        record = load(made.folder / "record.json")
        draws = record["replay"]["draws"]
        assert [draw["training"]["interval"] for draw in draws] == [0, None, 1, 2]
        assert draws[1]["key"] == "training/00001/lost-1"
        assert "lost and paid again" in made.words["ledger.draws"][1]["what"]
        facts = made.words["unprotected.run_time_facts"]
        assert "that 1 interval(s) of a training were interrupted, and made again" in facts
        Draft202012Validator(version_schemas()["record"]).validate(record)
        version = made.copy(tmp_path / "v")
        edit(version.folder / "record.json", plans(reserve=0))
        assert 6 in broken(forge(version).verify())


OPTIONS = "rows_about: 3000, dimensions: 6, hidden: [16], epochs: 3, checkpoints: 3, reserve: 1, batch: 200"


@pytest.mark.long
@pytest.mark.parametrize(("generator", "of_pictures"), [("p3gm", False), ("ae", False), ("p3gm", True)])
def test_sums_and_a_training_in_one_charge_verify(tmp_path: Path, generator: str, of_pictures: bool):
    """P3GM and its autoencoder, on a mixed table and on pictures with labels: both phases, fitted again."""
    label = "shape" if of_pictures else "ward"
    product = f"{{kind: synthetic, generator: {generator}, options: {{label: {label}, {OPTIONS}}}}}"
    terms = {name: getattr(trained(), name) for name in ("calculus", "cap", "epsilon", "delta", "formats")}
    made_from = PictureScenario(product=product) if of_pictures else replace(trained(), product=product)
    made = publish_version(replace(made_from, **terms), tmp_path)
    made.assert_verifies(deep=True)
    kinds = [draw["kind"] for draw in load(made.folder / "record.json")["replay"]["draws"]]
    assert kinds[-3:] == ["training"] * 3
    assert set(kinds[:-3]) == {"sums"}
    page = (made.folder / "record.html").read_text()
    assert f"{len(kinds) - 3} sums over rows and 1 training" in page


@pytest.mark.long
def test_a_model_that_is_not_the_checkpoint_s_is_caught_by_deep(version: Version):
    _, arrays = model_of(version.folder)
    write_model(version.folder, {**arrays, "biases-01": arrays["biases-01"] + 2**22})
    resample(version.folder)
    (version.folder / "data" / "trained.csv").unlink()
    assert_caught_by_deep(forge(version))


def test_another_learner_is_caught_by_deep(version: Version):
    """Its digest stands nowhere else; the generator run again describes its own."""

    def change(record: Json) -> None:
        for draw in record["replay"]["draws"]:
            draw["training"]["learner"] = "0" * 64

    edit(version.folder / "record.json", change)
    assert_caught_by_deep(forge(version), "another training")


@pytest.mark.services
def test_verify_and_help_do_not_load_torch():
    """It takes seconds; only a training, or the fit again of one, needs it."""
    code = "import sys, tasks.verify, console.verify, tasks.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
