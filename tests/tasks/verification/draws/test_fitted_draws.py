"""Votes, residuals and draws of a package, made by a fit: checked, deep too, and what is forged is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from privacy.generators.weighted_rows import WeightedRows
from privacy.marginals.graph import CellDomain
from tasks.verification.fitted.model_distance import compare_models
from tests.tasks.verification.forgery import Json, as_forged, forge
from tests.worlds.synthetic_rows import SyntheticScenario, aim
from tests.worlds.versions import Version, Worlds

OPTIONS = "{label: ward, members: 60, rounds: 7, seed: 3}"


def evolved(options: str = OPTIONS, more: str = "") -> SyntheticScenario:
    product = f"{{kind: synthetic, generator: private_evolution, options: {options}{more}}}"
    return replace(aim(), product=product, release="evolved")


def forged(worlds: Worlds, folder: Path, change: Callable[[Json], object]) -> Version:
    version = worlds.changed(worlds.published(evolved(), here=True), as_forged).copy(folder / "v")
    forge(version, record=change)
    return version


def fields(version: Version, *, deep: bool = False) -> set[str]:
    return {finding.field for finding in version.verify(deep=deep).findings}


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "more"),
    [(OPTIONS, ""), ("{members: 60, rounds: 3, children: 0}", ""), (OPTIONS, ", inside_bins: measured")],
)
def test_a_version_of_votes_holds_and_its_fit_made_again_is_its_model(worlds: Worlds, options: str, more: str):
    """Votes have a file each; nothing of generator or options is left as the publisher's word."""
    version = worlds.published(evolved(options, more), here=True)
    word = version.verify().word
    assert {"replay.product.options.members", "replay.draws.candidates", "replay.draws.label"} <= set(word)
    report = version.verify(deep=True)
    assert report.ok, report.findings
    told = ("replay.product.generator", "replay.product.options.", "replay.draws.")
    assert not [name for name in report.word if name.startswith(told)]
    assert (version.folder / "measurements" / "votes-0001.parquet").is_file()
    assert pq.read_table(version.folder / "data" / "evolved.parquet").num_rows > 0


@pytest.mark.long
def test_the_record_says_that_no_metric_was_computed_on_counts(worlds: Worlds):
    """Neither metric is given; each says what was drawn in the place of counts."""
    told = worlds.published(evolved(), here=True).words
    assert told["utility.expected_error"] == told["utility.error_against_noisy"] == "none"
    said = {each["metric"]: each["computed_on"] for each in told["utility.computed_on"]}
    nothing = "nothing: no cells of a table were counted; drawn were 7 rounds of noisy votes"
    assert said["expected_error"] == said["error_against_noisy"] == nothing


def test_the_record_promises_no_tables_of_columns_that_nobody_counted(worlds: Worlds):
    """Votes are no marginals: the words are those of generators that learn from rows."""
    told = worlds.published(evolved(), here=True).words
    assert "measured marginal" not in told["product.known_bias"]
    assert told["product.known_bias"].startswith("the model keeps the noisy sums over rows")
    assert not any("tables of the measured columns" in use for use in told["product.uses"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda draw: draw["event"].update(moves=[2]), "replay.draws[0].event.moves"),
        (lambda draw: draw.update(label="nobody"), "replay.draws[0].label"),
        (lambda draw: draw.update(clique=["ward"]), "replay.draws[0].clique"),
        (lambda draw: draw.update(shape=[6, 10]), "replay.draws[0].shape"),
    ],
)
def test_what_a_draw_of_votes_cannot_state_is_refused(
    worlds: Worlds, tmp_path: Path, change: Callable[[Json], object], field: str
):
    assert field in fields(forged(worlds, tmp_path, lambda record: change(record["replay"]["draws"][0])))


def test_forged_votes_are_refused(worlds: Worlds, tmp_path: Path):
    """One vote more, in a file whose every digest is made again: it is not what was entered when it was drawn."""
    version = worlds.changed(worlds.published(evolved(), here=True), as_forged).copy(tmp_path / "v")
    path = version.folder / "measurements" / "votes-0003.parquet"
    table = pq.read_table(path)
    noisy = table.column("noisy").to_numpy() + np.eye(1, len(table), dtype=np.int64)[0]
    pq.write_table(
        table.set_column(0, table.schema.field(0), [noisy]), path, compression="zstd", use_dictionary=False
    )
    forge(version)
    assert "SHA-256 of column noisy" in fields(version)


@pytest.mark.long
def test_other_candidates_another_seed_and_fewer_rounds_do_not_come_to_the_draws(worlds: Worlds, tmp_path: Path):
    """Only the fit made again can tell: it asks for votes for the candidates that follow from seed and votes."""

    def candidates(record: Json) -> None:
        record["replay"]["draws"][4]["candidates"] = "0" * 64

    def seed(record: Json) -> None:
        record["replay"]["product"]["options"]["seed"] = 4

    def children(record: Json) -> None:
        record["replay"]["product"]["options"]["children"] = 2

    for number, change in enumerate((candidates, seed, children)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert "the fit" in fields(forged(worlds, folder, change), deep=True)


def test_rows_fitted_again_must_be_the_same_number_by_number():
    """One vote more, a code beside, a row less, or one more in all: what decoders may differ by, these may not."""
    codes = np.arange(6, dtype=np.int64).reshape(3, 2)
    model = WeightedRows(CellDomain(("a", "b"), (6, 6)), 1000, codes, np.array([900, 80, 20]))
    assert compare_models(model, replace(model), []) == []
    bent = [
        (replace(model, weights=np.array([900, 81, 20])), "array weights"),
        (replace(model, codes=codes[:, ::-1].copy()), "array codes"),
        (replace(model, codes=codes[:2], weights=model.weights[:2]), "shapes"),
        (replace(model, rows=1001), "array rows"),
    ]
    for other, field in bent:
        assert field in {finding.field for finding in compare_models(other, model, [])}


def factors(generator: str = "latent_factors") -> SyntheticScenario:
    return replace(aim(), product=f"{{kind: synthetic, generator: {generator}}}", release="factors")


@pytest.mark.long
@pytest.mark.parametrize("generator", ["latent_factors", "gaussian_copula"])
def test_a_version_of_residuals_holds_and_its_fit_made_again_comes_to_its_model(worlds: Worlds, generator: str):
    """All numbers in one file; nothing of generator or options is left as the publisher's word. The copula has a sum
    over rows besides.
    """
    version = worlds.published(factors(generator), here=True)
    report = version.verify(deep=True)
    assert report.ok, report.findings
    assert "replay.product.generator" not in report.word
    assert [name for name in report.word if name.startswith("replay.product.options")] == ["replay.product.options"]
    assert (version.folder / "measurements" / "residuals.parquet").is_file()


@pytest.mark.long
def test_moves_that_are_not_the_worst_neighbours_are_refused(worlds: Worlds, tmp_path: Path):
    version = as_forged(worlds.published(factors(), here=True).copy(tmp_path / "v"))

    def change(record: Json) -> None:
        moves = record["replay"]["draws"][0]["event"]["moves"]
        record["replay"]["draws"][0]["event"]["moves"] = moves[:1]

    forge(version, record=change)
    assert "replay.draws[0].event.moves" in {finding.field for finding in version.verify().findings}


PACKAGE = Path(__file__).parents[3] / "plug_ins" / "tally_package"
ROOT = Path(__file__).parents[4]
PUBLISH = """
import json, sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.records.record import published_explanation
from tasks.verify import verify
from tests.tasks.verification.forgery import forge, load
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.versions import publish_version

folder = Path(sys.argv[1])
scenario = SyntheticScenario(product="{kind: synthetic, generator: tallied}", delta="0")
version = publish_version(scenario, folder, here=True)
report = version.verify(deep=True)
record = load(version.folder / "record.json")
draw = record["replay"]["draws"][-1]
words = published_explanation(lambda name: (version.folder / name).read_bytes()).values
croissant = load(version.folder / "croissant.json")
found = {}

def broken(name, **changed):
    copy = version.copy(folder / name)
    for part, value in changed.items():
        forge(copy, record=lambda r: r["replay"]["draws"][-1].update({part: value}))
    return copy

def rules(copy):
    said = copy.verify()
    return sorted(check.rule for check in said.checks if check.findings)

found["cell"] = rules(broken("cell", cell=0))
found["kind"] = rules(broken("kind", kind="marginal"))
other = broken("value")
path = other.folder / draw["measurements"]
table = pq.read_table(path)
pq.write_table(pa.Table.from_arrays([pa.array([7])], schema=table.schema), path, compression="zstd")
forge(other)
found["value"] = rules(other)
print(json.dumps({
    "ok": report.ok, "findings": [str(each) for each in report.findings], "draw": draw, "found": found,
    "skipped": [str(each) for check in report.checks for each in check.skipped],
    "measured": words["product.measured"][-1], "entry": words["ledger.draws"][-1],
    "described": [file["description"] for file in croissant["distribution"]],
    "folder": str(version.folder), "key": version.key,
}))
"""
CHECK = """
import json, sys
from tasks.verify import verify

report = verify(__import__("pathlib").Path(sys.argv[1]), public_key=sys.argv[2])
print(json.dumps({"ok": report.ok, "findings": [str(each) for each in report.findings]}))
"""


def answer(script: str, *arguments: str, packages: tuple[Path, ...]) -> dict[str, Any]:
    kept = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*packages, ROOT)))}
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env=kept, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    return said


@pytest.fixture(scope="module")
def tallied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answer(PUBLISH, str(tmp_path_factory.mktemp("tally")), packages=(PACKAGE,))


@pytest.mark.services
def test_it_is_published_and_verifies_to_the_end(tallied: dict[str, Any]):
    """The fit is made again from the published values; nothing is skipped that concerns a draw."""
    assert tallied["ok"], tallied["findings"]
    assert not [each for each in tallied["skipped"] if "tally" in each or "the fit" in each]
    assert (tallied["draw"]["kind"], tallied["draw"]["cell"]) == ("tally", 4)
    assert tallied["measured"]["file"] == tallied["draw"]["measurements"]
    assert tallied["entry"]["what"] == "tally"
    assert "A noisy number of rows, as it was drawn." in tallied["described"]


@pytest.mark.services
def test_what_its_checks_ask_is_found(tallied: dict[str, Any]):
    """Another cell, another number, and another kind, each signed again by the publisher."""
    assert 6 in tallied["found"]["cell"]
    assert 8 in tallied["found"]["value"]
    assert 5 in tallied["found"]["kind"]


@pytest.mark.services
def test_without_the_package_its_kind_is_named(tallied: dict[str, Any]):
    said = answer(CHECK, tallied["folder"], tallied["key"], packages=())
    assert not said["ok"]
    assert any("tally" in finding for finding in said["findings"]), said["findings"]
