"""Options of a fit that the publisher changes and signs again: refused, or listed as the publisher's word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.tasks.verification.forgery import Json, as_forged, forge, load, told
from tests.worlds.classifiers import anonymized_learning, dp_sgd, learning_first
from tests.worlds.synthetic_rows import aim, gaussians
from tests.worlds.versions import AnyScenario, Version, Worlds

pytestmark = pytest.mark.long

KINDS: dict[str, Callable[[], AnyScenario]] = {
    "aim": aim,
    "gaussians": gaussians,
    "dp_sgd": dp_sgd,
    "learning_first": learning_first,
    "anonymized_learning": anonymized_learning,
}
OPTIONS = "replay.product.options"
PERTURBED = "replay.draws.parameters.perturbation"


def by_other_code(record: Json) -> None:
    """Pages are not compared then, so that nothing but the statement is left."""
    told(record, "software.code", "f" * 64)


def told_by_other_code(version: Version) -> None:
    """Change no more than that: it verifies."""
    as_forged(version)
    forge(version, record=by_other_code)
    assert version.verify().ok


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("learning_first", "parameter_epsilon", 0.001),
        ("learning_first", "lowest_bias", -9.0),
        ("learning_first", "epochs", 4),
        ("learning_first", "publish_noise", "perhaps"),
        ("anonymized_learning", "bias_limit", 0.25),
        ("anonymized_learning", "rows_about", 6000),
        ("anonymized_learning", "checkpoints", 4),
        ("dp_sgd", "gradient_norm", 5.0),
        ("dp_sgd", "batch", 400),
        ("dp_sgd", "no_such_option", 1),
        ("aim", "no_such_option", 1),
        ("aim", "rounds", "many"),
        ("gaussians", "dimensions", -2),
    ],
)
def test_an_option_that_does_not_lead_to_what_was_drawn_is_refused(
    worlds: Worlds, tmp_path: Path, kind: str, name: str, value: object
) -> None:
    """The epsilon of each parameter is one: what the page tells of it follows from the noise of the draw."""
    version = worlds.changed(worlds.published(KINDS[kind](), here=True), told_by_other_code).copy(tmp_path / "v")

    def change(record: Json) -> None:
        record["replay"]["product"]["options"][name] = value

    forge(version, record=change)
    report = version.verify()
    assert not report.ok
    fields = {finding.field for finding in report.findings}
    assert any(field.startswith((OPTIONS, "replay.draws")) for field in fields), report.findings


def test_a_clipping_norm_is_the_publishers_word(worlds: Worlds, tmp_path: Path) -> None:
    """Noise is a multiple of it, and no event holds it: whoever changes option and plan together is not found."""
    version = worlds.changed(worlds.published(dp_sgd(), here=True), as_forged).copy(tmp_path / "v")

    def change(record: Json) -> None:
        by_other_code(record)
        record["replay"]["product"]["options"]["gradient_norm"] = 5
        for draw in record["replay"]["draws"]:
            draw["training"]["plan"]["clipping_norm"] = "5"

    forge(version, record=change)
    for deep in (False, True):
        report = version.verify(deep=deep)
        assert report.ok, report.findings
        assert {"replay.product.options.gradient_norm", "replay.draws.training.plan.clipping_norm"} <= set(
            report.word
        )


@pytest.mark.parametrize("kind", KINDS)
def test_each_written_option_is_listed_until_the_fit_was_made_again(worlds: Worlds, kind: str) -> None:
    """A fit on released values is made again by `--deep`; one on private rows never is.

    Options with the value that this version gives them anyway stand in the record, and one name stands for them.
    """
    scenario = KINDS[kind]()
    version = worlds.published(scenario, here=True)
    stated = load(version.folder / "record.json")["replay"]["product"]["options"]
    chosen = set(yaml.safe_load(scenario.product)["options"]) - (
        {"degree"} if kind == "aim" else set()
    )  # its default
    written = {f"{OPTIONS}.{name}" for name in chosen} | {OPTIONS}
    assert len(stated) > len(written) > 1
    listed = {deep: {name for name in version.verify(deep=deep).word if OPTIONS in name} for deep in (False, True)}
    assert listed[False] == written
    assert listed[True] == ({OPTIONS} if kind in ("aim", "gaussians") else written)
    assert (PERTURBED in version.verify().word) == (kind.endswith(("first", "learning")))
