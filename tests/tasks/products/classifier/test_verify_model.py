"""Versions of models: what is published, that it verifies; forged weights, records and charges are caught."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.release.classifier import ClassifierProduct
from privacy.classifiers.classifier import classifier_layout, read_classifier
from privacy.classifiers.safetensors import from_safetensors, to_safetensors
from privacy.grant.durable_draws import DurableDraws
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    all_events,
    assert_caught,
    assert_caught_by_deep,
    edit,
    forge,
    load,
    replay,
)
from tests.worlds.classifiers import (
    TERMS,
    anonymized_learning,
    anonymizing_first,
    dp_sgd,
    learning_first,
    with_product,
)
from tests.worlds.versions import Version, Worlds, broken, publish_version

WEIGHTS = "model/model.safetensors"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(dp_sgd())


@pytest.mark.long
def test_a_model_is_a_release_with_weights_inputs_card_record_and_proof(published: Version):
    report = published.verify(deep=True)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks] == list(range(1, 12))
    record = load(published.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    assert {WEIGHTS, "model/inputs.json", "model/card.md"} < set(published.files)
    joint = published.words["product.guarantees"]["joint"]
    assert joint["epsilon"] == published.words["guarantee.epsilon"]
    page = (published.folder / "record.html").read_text()
    parameters = published.words["product.network"]["parameters"]
    assert f"{parameters} weights and biases" in page
    assert "a classifier, published with differential privacy" in page


def test_the_published_weights_classify_by_the_published_inputs_alone(published: Version):
    """Whoever has the folder and nothing of ours encodes a row as inputs.json says, and gets the model's answer."""
    record, inputs = load(published.folder / "record.json"), load(published.folder / "model" / "inputs.json")
    contract = Contract.model_validate(record["replay"]["contract"])
    layout = classifier_layout(contract, ClassifierProduct.model_validate(record["replay"]["product"]))
    data = (published.folder / WEIGHTS).read_bytes()
    model = read_classifier(data, layout, "ward", None)
    codes = np.array([[0, 1, 2, 0, 1, 2, 1, 0]], dtype=np.uint8)
    vector = np.zeros(inputs["widths"][0])
    for each in inputs["inputs"]:
        code = int(codes[0, [column.name for column in contract.columns].index(each["column"])])
        start, stop = each["entries"]
        if "numbers" not in each:
            vector[start + code] = 1
        elif code < len(each["numbers"]):
            vector[start] = float(each["numbers"][code])
        else:
            vector[stop - 1] = 1
    tensors, _ = from_safetensors(data)
    logits = tensors["layers.0.weight"].astype(np.float64) @ vector + tensors["layers.0.bias"]
    mine = np.exp(logits) / np.exp(logits).sum()
    assert np.allclose(mine, model.probabilities(codes)[0], atol=1e-6)
    assert inputs["label"]["cells"] == list(contract.column("ward").labels)


OTHER: Json = {}
"""The digest of the weights that a forger wrote."""


def other_weights(folder: Path) -> None:
    tensors, about = from_safetensors((folder / WEIGHTS).read_bytes())
    content = to_safetensors({**tensors, "layers.0.bias": tensors["layers.0.bias"] + 1}, about)
    (folder / WEIGHTS).write_bytes(content)
    OTHER["sha256"] = hashlib.sha256(content).hexdigest()


def replayed(**changed: Any) -> Change:
    return replay(lambda r: r["model"].update(changed))


def restated(record: Json) -> None:
    """State the digest of the weights that are there, as a forger would."""
    record["replay"]["model"]["sha256"] = OTHER["sha256"]


FORGERIES = {
    "other weights": Forgery({9}, files=other_weights, says="SHA-256"),
    "other weights, stated": Forgery({9}, restated, files=other_weights, says="noisy values"),
    "another card": Forgery(
        {9}, files=lambda f: (f / "model/card.md").write_text("# Safe"), says="bytes that follow"
    ),
    "another range": Forgery({9}, replayed(range=["-9.0", "9.0", "-9.0", "9.0"]), says="range"),
    "a range of two numbers": Forgery({5}, replayed(range=["-9.0", "9.0"]), says="range"),
    "another width": Forgery({5}, replayed(widths=[13, 4]), says="widths"),
    "another place of the weights": Forgery({5}, replayed(weights="model/card.md"), says="replay.model.weights"),
    "a seed": Forgery({5}, replay(lambda r: r.update(seed="0" * 32)), says="replay.seed"),
    "no checkpoint": Forgery(
        {5}, replay(lambda r: [d.update(measurements=None) for d in r["draws"]]), says="product.measured"
    ),
    "inputs of another contract": Forgery(
        {9},
        files=lambda f: edit(f / "model/inputs.json", lambda i: i["label"]["cells"].reverse()),
        says="the bytes that follow",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(version: Version, name: str):
    FORGERIES[name].check_found(version)


def test_options_that_another_model_would_have_been_trained_by_are_caught_by_deep(version: Version):
    """The optimizer's rate stands in the learner's digest alone."""
    assert_caught_by_deep(forge(version, record=replay(lambda r: r["product"]["options"].update(learning_rate=0.5))))


@pytest.mark.parametrize(
    ("product", "where", "says"),
    [
        ("trainer: dp_sdg, label: ward", "product.trainer", "do you mean 'dp_sgd'"),
        ("trainer: dp_sgd, label: wrad", "product.label", "write 'ward'"),
        ("trainer: dp_sgd, label: age", "product.label", "a column of numbers"),
        ("trainer: dp_sgd, label: one", "product.label", "2 to 1000 cells"),
        ("trainer: dp_sgd, label: ward, columns: [age, bill]", "product.columns", "the label among them"),
        ("trainer: dp_sgd, label: ward, columns: [ward]", "product.columns", "at least one other column"),
        (f"trainer: dp_sgd, label: ward, options: {{{TERMS}, colour: 3}}", "product.options.colour", "colour"),
        ("trainer: dp_sgd, label: ward, options: {rows_about: 100, batch: 200}", "product.options.batch", "rows"),
        ("trainer: learning_first, label: ward, options: {parameter_epsilon: 10}", "charge.epsilon", "joint epsilon"),
        (
            "trainer: learning_first, label: ward, options: {lowest: 1, highest: 1}",
            "product.options",
            "lowest must lie below highest",
        ),
        (
            "trainer: learning_first, label: ward, options: {noise: gaussian, parameter_epsilon: 1}",
            "product.options.parameter_epsilon",
            "laplace",
        ),
        ("trainer: anonymized_learning, label: ward", "product", "rows_about"),
        (
            "trainer: anonymized_learning, label: ward, options: {rows_about: 3000, checkpoints: 3}",
            "product",
            "a multiple",
        ),
        ("trainer: anonymizing_first, label: ward, options: {generator: amm}", "product.generator", "no generator"),
        (
            "trainer: anonymizing_first, label: ward, options: {generator: mst, generator_options: {time_limit: 3}}",
            "product.options.generator_options",
            "drop it",
        ),
        (
            "trainer: anonymizing_first, label: ward, options: {generator: mst, generator_options: {colour: 3}}",
            "product.options.generator_options",
            "colour",
        ),
    ],
)
def test_products_that_cannot_be_meant_are_refused_before_any_charge(
    tmp_path: Path, product: str, where: str, says: str
):
    with pytest.raises(SpecRefused, match=re.escape(where)) as refused:
        with_product(f"{{kind: classifier, {product}}}").run(tmp_path)
    assert says in str(refused.value)


def test_csv_and_a_relation_without_poisson_samples_are_refused(tmp_path: Path):
    product = dp_sgd().product
    with pytest.raises(SpecRefused, match="csv with a model"):
        with_product(product, formats="[csv]").run(tmp_path / "csv")
    replaced = "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS}"
    with pytest.raises(SpecRefused, match="add_remove"):
        with_product(product, privacy=replaced).run(tmp_path / "replaced")


APPROACHES = {each.__name__: each for each in (anonymizing_first, learning_first, anonymized_learning)}


@pytest.fixture(scope="module")
def approaches(worlds: Worlds) -> dict[str, Version]:
    return {name: worlds.published(make()) for name, make in APPROACHES.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", APPROACHES)
def test_each_approach_verifies_and_states_both_guarantees(approaches: dict[str, Version], name: str):
    """The account is charged the joint one; the one of a parameter by itself is smaller, and reported only."""
    published = approaches[name]
    published.assert_verifies(deep=True)
    record = load(published.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    told = published.words["product.guarantees"]
    joint = told["joint"]["epsilon"]
    assert joint == published.words["guarantee.epsilon"]
    alone = told["per_parameter"]["epsilon"]
    if name == "anonymizing_first":
        assert alone == "none"
        assert record["replay"]["seed"] is not None
        assert any("trains again" in text for text in published.verify().cannot_tell)
    else:
        assert float(alone) < float(joint) / 3
        assert record["replay"]["seed"] is None


def test_the_epsilon_of_a_parameter_is_the_one_that_was_asked_for(approaches: dict[str, Version]):
    record = load(approaches["learning_first"].folder / "record.json")
    told = approaches["learning_first"].words
    assert float(told["product.guarantees"]["per_parameter"]["epsilon"]) == pytest.approx(0.3, rel=1e-6)
    limits = {"lowest": "-1.0", "highest": "1.0", "lowest_bias": "-0.25", "highest_bias": "0.5"}
    assert told["product.clamped"] == limits
    (draw,) = record["replay"]["draws"]
    parameters = told["product.network"]["parameters"]
    assert (draw["event"]["move"], draw["event"]["times"]) == (2**16, parameters)


def test_a_smaller_epsilon_of_a_parameter_than_follows_is_told_to_nobody(
    approaches: dict[str, Version], tmp_path: Path
):
    version = approaches["learning_first"].copy(tmp_path / "v")

    def change(record: Json) -> None:
        record["declarations"]["fields"]["product.guarantees"] = {"per_parameter": {"epsilon": "0.001"}}

    told = version.words["product.guarantees"]
    forge(version, record=change)
    assert version.words["product.guarantees"] == told


def test_a_model_whose_weights_leave_the_range_that_they_were_clamped_to_is_caught(
    approaches: dict[str, Version], tmp_path: Path
):
    version = approaches["learning_first"].copy(tmp_path / "v")
    other_weights(version.folder)
    assert_caught(forge(version, record=restated), {9}, "biases outside of the range -0.25 to 0.5")


def test_each_bias_lies_in_the_range_of_biases_and_each_weight_in_that_of_weights(approaches: dict[str, Version]):
    """So little epsilon clamps some number of each kind at both ends of its own range, which the plan calls noise."""
    tensors, about = from_safetensors((approaches["learning_first"].folder / "model/model.safetensors").read_bytes())
    limits = {"lowest": "-1.0", "highest": "1.0", "lowest_bias": "-0.25", "highest_bias": "0.5"}
    assert {name: about[name] for name in limits} == limits
    weights = np.concatenate([each.ravel() for name, each in tensors.items() if name.endswith("weight")])
    biases = np.concatenate([each.ravel() for name, each in tensors.items() if name.endswith("bias")])
    assert (weights.min(), weights.max()) == (-1.0, 1.0)
    assert biases.min() >= -0.25
    assert biases.max() <= 0.5


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("learning_first", {"times": 1}, "times"),
        ("learning_first", {"move": 1}, "move"),
        ("anonymized_learning", {"moves": [1]}, "moves"),
    ],
)
def test_a_sensitivity_that_is_understated_everywhere_is_caught(
    approaches: dict[str, Version], tmp_path: Path, name: str, changed: Json, says: str
):
    """Even where record, journal and charge agree: it is derived anew from the layers."""
    version = approaches[name].copy(tmp_path / "v")
    record, journal = all_events(**changed)
    assert_caught(forge(version, record=record, journal=journal), {6}, f"event.{says}")


def test_other_noisy_parameters_than_were_entered_are_caught(approaches: dict[str, Version], tmp_path: Path):
    version = approaches["learning_first"].copy(tmp_path / "v")
    (path,) = (version.folder / "measurements").iterdir()
    table = pq.read_table(path)
    values = table.column("value").to_numpy().copy()
    values[0] = (values[0] + 1) % 2**16
    pq.write_table(pa.Table.from_arrays([pa.array(values)], schema=table.schema), path, compression="zstd")
    assert {8, 9} <= broken(forge(version).verify())


def test_weights_that_no_training_on_the_made_up_rows_gives_are_caught_by_deep(
    approaches: dict[str, Version], tmp_path: Path
):
    """What has to be estimated first is checked by doing it again."""
    version = approaches["anonymizing_first"].copy(tmp_path / "v")
    other_weights(version.folder)
    assert_caught_by_deep(forge(version, record=restated))


@pytest.mark.long
def test_a_training_on_noisy_changes_goes_on_from_its_last_checkpoint(tmp_path: Path):
    """Ctrl-C after the first of two checkpoints: nothing is drawn twice, nothing is charged twice."""
    scenario = anonymized_learning()
    draw, stopped = DurableDraws.drawn, []

    def once(self: DurableDraws, asked: Any, *rest: Any, **named: Any) -> Any:
        if asked.key.endswith("/00001") and not stopped:
            stopped.append(asked.key)
            raise KeyboardInterrupt
        return draw(self, asked, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DurableDraws, "drawn", once)
        with pytest.raises(KeyboardInterrupt):
            scenario.run(tmp_path)
        made = publish_version(scenario, tmp_path)
    record = load(made.folder / "record.json")
    assert [draw["parameters"]["interval"] for draw in record["replay"]["draws"]] == [0, 1]
    assert made.verify(deep=True).ok
