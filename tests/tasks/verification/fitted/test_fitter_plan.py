"""A record that names another generator or trainer than the one that drew, signed again by the publisher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.records.model.version_statements import ChargeStatement
from tasks.verification.fitted.fitter_plan import _alike
from tasks.verify import verify
from tests.tasks.verification.draws.test_training_draws import OPTIONS, trained
from tests.tasks.verification.forgery import Json, as_forged, forge, told
from tests.worlds.classifiers import dp_sgd
from tests.worlds.synthetic_rows import SyntheticScenario, aim
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
    return as_forged(worlds.published(scenario, here=True).copy(folder / "v"))


@pytest.mark.parametrize(
    ("scenario", "noun", "name", "field"),
    [
        (columns, "generator", "mst", GENERATOR),
        (columns, "generator", "privbayes", GENERATOR),
        (columns, "generator", "aim", GENERATOR),
        (columns, "generator", "my_generator_with_proofs", GENERATOR),
        (aim, "generator", "mst", READ_OPTIONS),
        (dp_sgd, "trainer", "learning_first", READ_OPTIONS),
        (dp_sgd, "trainer", "trained_with_proofs", "replay.product.trainer"),
    ],
)
def test_another_name_is_refused(
    worlds: Worlds, tmp_path: Path, scenario: Callable[[], AnyScenario], noun: str, name: str, field: str
) -> None:
    """One that is not registered, one that takes no such options, one whose plan with them is another."""
    version = copied(worlds, scenario(), tmp_path)
    stated = worlds.published(scenario(), here=True)
    report = verify(stated.folder, public_key=stated.key)
    assert report.ok, report.findings
    assert f"replay.product.{noun}" not in report.word
    forge(version, record=naming(noun, name))
    report = verify(version.folder, public_key=version.key)
    assert field in {finding.field for finding in report.findings}, report.findings


def test_a_name_that_no_package_registers_says_what_to_install(worlds: Worlds, tmp_path: Path) -> None:
    version = copied(worlds, columns(), tmp_path)
    forge(version, record=naming("generator", "my_generator_with_proofs"))
    (finding,) = (each for each in verify(version.folder, public_key=version.key).findings if each.field == GENERATOR)
    assert "my_generator_with_proofs" in finding.found
    assert "a generator that is registered here: ae, aim, auto" in finding.allowed
    assert "install the package" in finding.remedy


@pytest.mark.parametrize(("scenario", "name", "other"), [(p3gm, "p3gm", "ae"), (mst, "mst", "privbayes")])
def test_a_name_of_the_same_plan_is_the_publishers_word_until_the_fit_was_made_again(
    worlds: Worlds, tmp_path: Path, scenario: Callable[[], AnyScenario], name: str, other: str
) -> None:
    """`p3gm` and `ae` charge the same events, `mst` and `privbayes` one budget; only the fit made again tells."""
    version = copied(worlds, scenario(), tmp_path)
    for stated, holds in ((name, True), (other, False)):
        forge(version, record=naming("generator", stated))
        report = verify(version.folder, public_key=version.key)
        assert report.ok, report.findings
        assert GENERATOR in report.word
        deep = verify(version.folder, public_key=version.key, deep=True)
        assert deep.ok == holds
        assert GENERATOR not in deep.word


def test_planned_numbers_are_compared_up_to_the_rounding_of_processors() -> None:
    event = {"kind": "poisson_sampled_gaussian", "noise_multiplier": "1.25", "steps": 30, "moves": [1, 1]}
    assert _alike(event, {**event, "noise_multiplier": "1.2500000001"})
    for other in ({"noise_multiplier": "1.26"}, {"steps": 31}, {"moves": [1]}, {"kind": "budget"}, {"more": 1}):
        assert not _alike(event, {**event, **other})


@pytest.mark.parametrize("text", ["1e999999999", "NaN", "inf", "two", "9" * 401])
def test_a_charge_that_no_spec_writes_is_no_number(text: str) -> None:
    """Its fraction would take all memory."""
    charge = ChargeStatement(account="a", epsilon=text, delta="0", noise_epsilon=None)
    with pytest.raises(ValueError, match=r"replay\.charge"):
        assert charge.planned_for
