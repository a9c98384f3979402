"""Another generator, trainer or option than those that drew, signed again by the publisher: refused, or listed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel

from privacy.generators.calibration import FittedPlan, FitterRegistry
from privacy.generators.generator import Options
from privacy.generators.latent import PhasedOptions
from privacy.generators.p3gm import P3gm
from tasks.records.model.version_statements import ChargeStatement
from tasks.records.record import published_explanation
from tasks.verification.fitted.fitter_plan import NamedFitter, _alike
from tasks.verification.record_identity import OTHER
from tests.tasks.verification.draws.test_training_draws import OPTIONS, trained
from tests.tasks.verification.forgery import Json, as_forged, forge, load, told, with_words
from tests.worlds.classifiers import anonymized_learning, dp_sgd, learning_first
from tests.worlds.pictures import PictureScenario
from tests.worlds.synthetic_rows import SyntheticScenario, aim, gaussians
from tests.worlds.versions import AnyScenario, Version, Worlds

GENERATOR = "replay.product.generator"
READ_OPTIONS = "replay.product.options"


def columns() -> SyntheticScenario:
    """No options: any generator of marginals takes these, and only the plan tells them apart."""
    return replace(aim(), product="{kind: synthetic, generator: independent}", release="columns")


def mst() -> SyntheticScenario:
    """No options, and one budget, as `privbayes` plans it too."""
    return replace(aim(), product="{kind: synthetic, generator: mst}", release="tree")


def p3gm() -> AnyScenario:
    """A training after sums over rows, which `ae` plans alike."""
    terms: Any = {name: getattr(trained(), name) for name in ("calculus", "cap", "epsilon", "delta", "formats")}
    product = f"{{kind: synthetic, generator: p3gm, options: {{label: ward, {OPTIONS}}}}}"
    return replace(aim(), product=product, release="phased", **terms)


def naming(noun: str, name: str) -> Callable[[Json], None]:
    """Name another one, told by other code: pages are not compared, and nothing but the statement is left."""

    def change(record: Json) -> None:
        told(record, "software.code", "f" * 64)
        record["replay"]["product"][noun] = name

    return change


def copied(worlds: Worlds, scenario: AnyScenario, folder: Path) -> Version:
    return worlds.changed(worlds.published(scenario, here=True), as_forged).copy(folder / "v")


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "noun", "name", "field"),
    [
        (columns, "generator", "mst", GENERATOR),
        (columns, "generator", "privbayes", GENERATOR),
        (columns, "generator", "aim", GENERATOR),
        (columns, "generator", "my_generator_with_proofs", GENERATOR),
        (PictureScenario, "generator", "mst", READ_OPTIONS),
        (dp_sgd, "trainer", "learning_first", READ_OPTIONS),
        (dp_sgd, "trainer", "trained_with_proofs", "replay.product.trainer"),
    ],
)
def test_another_name_is_refused(
    worlds: Worlds, tmp_path: Path, scenario: Callable[[], AnyScenario], noun: str, name: str, field: str
):
    """One that is not registered, one that takes no such options, one whose plan with them is another."""
    version = copied(worlds, scenario(), tmp_path)
    stated = worlds.published(scenario(), here=True)
    report = stated.verify()
    assert report.ok, report.findings
    assert f"replay.product.{noun}" not in report.word
    report = forge(version, record=naming(noun, name)).verify()
    assert field in {finding.field for finding in report.findings}, report.findings


@pytest.mark.long
def test_a_name_that_no_package_registers_says_what_to_install(worlds: Worlds, tmp_path: Path):
    version = copied(worlds, columns(), tmp_path)
    forge(version, record=naming("generator", "my_generator_with_proofs"))
    (finding,) = (each for each in version.verify().findings if each.field == GENERATOR)
    assert "my_generator_with_proofs" in finding.found
    assert "a generator that is registered here: ae, aim, auto" in finding.allowed
    assert "install the package" in finding.remedy


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "name", "other"), [(p3gm, "p3gm", "ae"), (mst, "mst", "privbayes")])
def test_a_name_of_the_same_plan_is_the_publishers_word_until_the_fit_was_made_again(
    worlds: Worlds, tmp_path: Path, scenario: Callable[[], AnyScenario], name: str, other: str
):
    """`p3gm` and `ae` charge the same events, `mst` and `privbayes` one budget; only the fit made again tells."""
    version = copied(worlds, scenario(), tmp_path)
    for stated, holds in ((name, True), (other, False)):
        report = forge(version, record=naming("generator", stated)).verify()
        assert report.ok, report.findings
        assert GENERATOR in report.word
        deep = version.verify(deep=True)
        assert deep.ok == holds
        assert GENERATOR not in deep.word


WRITTEN = {"label": "ward", "dimensions": 6, "labels": "components", "decoder": "linear", "rows_about": 3000}


def classes() -> SyntheticScenario:
    """A count of norms is drawn because numbers are stretched, which nobody wrote."""
    product = (
        f"{{kind: synthetic, generator: p3gm, options: {{{', '.join(f'{k}: {v}' for k, v in WRITTEN.items())}}}}}"
    )
    return replace(aim(), product=product, release="classes")


class LaterOptions(PhasedOptions):
    """What a later version could give those that write nothing."""

    scale: Literal["measured", "declared"] = "declared"


def as_written(record: Json) -> None:
    """State the options as they were written, as older versions did, and the whole ones beside."""
    whole = record["replay"]["product"]["options"]
    told(record, "fields.product.options", dict(whole))
    record["replay"]["product"]["options"] = {name: whole[name] for name in WRITTEN}


@pytest.mark.long
def test_a_version_holds_after_a_default_has_changed(worlds: Worlds, monkeypatch: pytest.MonkeyPatch):
    """All options stand in it: what is planned and fitted again is what was charged and published."""
    version = worlds.published(classes(), here=True)
    stated = load(version.folder / "record.json")["replay"]["product"]["options"]
    assert stated == {**stated, **WRITTEN, "clip": None, "scale": "measured", "numbers": "auto"}
    monkeypatch.setattr(P3gm, "options", LaterOptions)
    version.assert_verifies(deep=True)
    assert {f"{READ_OPTIONS}.scale", f"{READ_OPTIONS}.dimensions"} <= set(version.verify().word)


def test_the_spec_keeps_its_options_as_they_were_written(worlds: Worlds, tmp_path: Path):
    """A default that changes must not make a due run be charged again: the digest is of what was written."""
    spec, _, plan, ledger = classes().prepared_of(tmp_path, FittedPlan)
    ledger.close()
    assert spec.product_options == WRITTEN
    assert set(plan.resolved_options) > set(spec.product_options)
    version = worlds.published(classes(), here=True)
    assert load(version.folder / "record.json")["replay"]["spec_digest"] == spec.digest


@pytest.mark.long
@pytest.mark.parametrize("made", ["0.0.9", "0.0.9 another-package"])
def test_options_as_they_were_written_hold_until_a_default_changes(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
):
    """Older records state no more. Then the report says which version planned them, if it is the name of one."""
    version = copied(worlds, classes(), tmp_path)

    def older(record: Json) -> None:
        as_written(record)
        told(record, "software.packages", {**record["declarations"]["software"]["packages"], "sudare": made})

    with_words(version, older)
    version.assert_verifies(deep=True)
    explanation = published_explanation(lambda name: (version.folder / name).read_bytes())
    assert explanation.values["product.options"]["scale"] == "measured"
    monkeypatch.setattr(P3gm, "options", LaterOptions)
    (finding,) = version.verify().findings
    assert (finding.field, finding.remedy.startswith(OTHER)) == (GENERATOR, True)
    assert ("ask the publisher, and verify with 0.0.9 too" in finding.remedy) == (made == "0.0.9")
    assert "another-package" not in finding.remedy


def test_a_finding_says_nothing_of_versions_where_one_version_made_and_verifies(worlds: Worlds, tmp_path: Path):
    version = copied(worlds, columns(), tmp_path)
    forge(version, record=naming("generator", "mst"))
    findings = version.verify().findings
    assert [each for each in findings if each.field == GENERATOR]
    assert not [each for each in findings if "ask the publisher, and verify" in each.remedy]


def listed() -> SyntheticScenario:
    """A list of all columns, which is what `independent` measures; it takes no such option."""
    cliques = ", ".join(f"[{name}]" for name in ("age", "arrived", "left", "ward", "floor", "bill", "insured", "one"))
    return replace(
        aim(), product=f"{{kind: synthetic, generator: fixed, options: {{cliques: [{cliques}]}}}}", release="listed"
    )


def network() -> SyntheticScenario:
    """One budget, as `mst` plans it, which has no degree."""
    product = "{kind: synthetic, generator: privbayes, options: {degree: 2}}"
    return replace(aim(), product=product, release="network")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [listed, network])
def test_an_option_that_another_one_does_not_have_proves_nothing(worlds: Worlds, scenario: Callable[[], AnyScenario]):
    """Another one could have been charged the same: the name is the publisher's word."""
    report = worlds.published(scenario(), here=True).verify()
    assert report.ok, report.findings
    assert GENERATOR in report.word


class Steps(BaseModel):
    """Options of a stand-in, whose plan is so many draws."""

    steps: int = 3


class MoreSteps(Steps):
    """The same with another default."""

    steps: int = 5


class Named:
    """A stand-in that plans as many draws as it has steps."""

    options: type[Steps] = Steps
    beside = 0

    def plan(self, task: object, options: Steps) -> Any:
        """Return so many draws."""
        return SimpleNamespace(events=(StandInEvent(),) * (options.steps - self.beside))


class Twin(Named):
    """One that plans as many with its own defaults."""

    options = MoreSteps
    beside = 2


def test_a_twin_is_found_by_its_own_defaults_and_by_the_options_in_common():
    """With the other's three steps it plans one draw, with its own five three of them."""
    place = "tests.tasks.verification.fitted.test_fitter_plan"
    registry = FitterRegistry("generator", {"named": f"{place}:Named", "twin": f"{place}:Twin"})
    fitter = NamedFitter(registry, "named", "record.json")
    task: Any = SimpleNamespace(modifiers=())
    charged = [{"kind": "stand_in"}] * 3
    for written, alone in (({"steps": 3}, False), ({}, False)):
        assert fitter.stands_alone(task, written, charged) == alone
    assert fitter.stands_alone(task, {"steps": 4}, [{"kind": "stand_in"}] * 4)


class StandInEvent:
    """A stand-in for an event."""

    def to_json(self) -> Json:
        return {"kind": "stand_in"}


@pytest.mark.long
@pytest.mark.parametrize(("name", "holds"), [("aim", True), ("mst", False)])
def test_a_name_is_no_proof_where_dropping_options_gives_another_one_the_same_plan(
    worlds: Worlds, tmp_path: Path, name: str, holds: bool
):
    """`mst` has none of AIM's options, and plans the same budget: a record that leaves them out could name it."""
    version = copied(worlds, aim(), tmp_path)

    def change(record: Json) -> None:
        naming("generator", name)(record)
        options = record["replay"]["product"]["options"]
        kept = options if holds else {key: options[key] for key in Options.model_fields}
        record["replay"]["product"]["options"] = kept

    report = forge(version, record=change).verify()
    assert report.ok, report.findings
    assert GENERATOR in report.word
    deep = version.verify(deep=True)
    assert deep.ok == holds
    assert GENERATOR not in deep.word


def test_planned_numbers_are_compared_up_to_the_rounding_of_processors():
    event = {"kind": "poisson_sampled_gaussian", "noise_multiplier": "1.25", "steps": 30, "moves": [1, 1]}
    assert _alike(event, {**event, "noise_multiplier": "1.2500000001"})
    for other in ({"noise_multiplier": "1.26"}, {"steps": 31}, {"moves": [1]}, {"kind": "budget"}, {"more": 1}):
        assert not _alike(event, {**event, **other})


@pytest.mark.parametrize("text", ["1e999999999", "NaN", "inf", "two", "9" * 401])
def test_a_charge_that_no_spec_writes_is_no_number(text: str):
    """Its fraction would take all memory."""
    charge = ChargeStatement(account="a", epsilon=text, delta="0", noise_epsilon=None)
    with pytest.raises(ValueError, match=r"replay\.charge"):
        assert charge.planned_for


KINDS: dict[str, Callable[[], AnyScenario]] = {
    "aim": aim,
    "gaussians": gaussians,
    "dp_sgd": dp_sgd,
    "learning_first": learning_first,
    "anonymized_learning": anonymized_learning,
}
PERTURBED = "replay.draws.parameters.perturbation"


def by_other_code(record: Json) -> None:
    """Pages are not compared then, so that nothing but the statement is left."""
    told(record, "software.code", "f" * 64)


def told_by_other_code(version: Version) -> None:
    """Change no more than that: it verifies."""
    as_forged(version)
    forge(version, record=by_other_code)
    assert version.verify().ok


@pytest.mark.long
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
):
    """The epsilon of each parameter is one: what the page tells of it follows from the noise of the draw."""
    version = worlds.changed(worlds.published(KINDS[kind](), here=True), told_by_other_code).copy(tmp_path / "v")

    def change(record: Json) -> None:
        record["replay"]["product"]["options"][name] = value

    report = forge(version, record=change).verify()
    assert not report.ok
    fields = {finding.field for finding in report.findings}
    assert any(field.startswith((READ_OPTIONS, "replay.draws")) for field in fields), report.findings


@pytest.mark.long
def test_a_clipping_norm_is_the_publishers_word(worlds: Worlds, tmp_path: Path):
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


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_each_written_option_is_listed_until_the_fit_was_made_again(worlds: Worlds, kind: str):
    """A fit on released values is made again by `--deep`; one on private rows never is.

    Options with the value that this version gives them anyway stand in the record, and one name stands for them.
    """
    scenario = KINDS[kind]()
    version = worlds.published(scenario, here=True)
    stated = load(version.folder / "record.json")["replay"]["product"]["options"]
    chosen = set(yaml.safe_load(scenario.product)["options"]) - (
        {"degree"} if kind == "aim" else set()
    )  # its default
    written = {f"{READ_OPTIONS}.{name}" for name in chosen} | {READ_OPTIONS}
    assert len(stated) > len(written) > 1
    listed = {
        deep: {name for name in version.verify(deep=deep).word if READ_OPTIONS in name} for deep in (False, True)
    }
    assert listed[False] == written
    assert listed[True] == ({READ_OPTIONS} if kind in ("aim", "gaussians") else written)
    assert (PERTURBED in version.verify().word) == (kind.endswith(("first", "learning")))
