"""Versions with copies: what is published of them, what is replayed, and what no forger can change."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from console.products.synthetic import SyntheticProductView
from contracts.errors import SpecRefused
from privacy.generators.rows import copy_seed, seed_text
from privacy.marginals.model import FORBIDDEN, STEPS
from privacy.marginals.portable import PostProcessingSeed
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, write_model
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import forge, load, replay
from tests.worlds.synthetic_rows import SyntheticScenario, aim
from tests.worlds.versions import Version, Worlds, broken

COPIES = 3


def scenario(product: str = "generator: mst, columns: [ward, floor, age, bill]") -> SyntheticScenario:
    return replace(aim(), product=f"{{kind: synthetic, {product}, copies: {COPIES}}}", release="copied")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(scenario())


@pytest.mark.long
def test_each_copy_is_a_file_with_a_derived_seed_and_all_of_it_is_checked(published: Version):
    """The rows and three copies; every one is sampled again, and every model fitted again."""
    replay = load(published.folder / "record.json")["replay"]
    assert [copy["data"] for copy in replay["copies"]] == [f"data/copied.{n}.parquet" for n in (1, 2, 3)]
    seed = PostProcessingSeed(int(replay["rows"]["seed"], 16))
    assert [copy["seed"] for copy in replay["copies"]] == [seed_text(copy_seed(seed, n)) for n in (1, 2, 3)]
    frames = [pl.read_parquet(published.folder / one["data"]) for one in (replay["rows"], *replay["copies"])]
    assert {frame.shape for frame in frames} == {(replay["rows"]["number"], 4)}
    assert not any(frames[0].equals(frame) for frame in frames[1:])
    published.assert_verifies(deep=True)


def test_the_record_says_how_copies_are_made_and_what_they_are_for(published: Version):
    """In the record, by its schema; the plan has a line that costs nothing."""
    record = load(published.folder / "record.json")
    assert list(Draft202012Validator(version_schemas()["record"]).iter_errors(record)) == []
    assert published.words["product.rows"]["copies"].startswith("3 copies of the rows")
    assert any("with each copy" in use for use in published.words["product.uses"])


def test_plan_and_version_show_copies(published: Version, tmp_path: Path):
    spec, _, plan, ledger = scenario().prepared(tmp_path)
    ledger.close()
    view = SyntheticProductView()
    assert ("copies", "3, each of a model of its own") in view.plan_facts(view.plan_object(spec, plan))
    (step,) = (step for step in plan.plan.steps if step.what == "models of copies")
    assert (step.count, step.share) == (3, 0.0)
    console = Console(file=StringIO(), width=200)
    view.print_version(console, load(published.folder / "record.json")["replay"])
    assert "3, data/copied.1.parquet" in console.file.getvalue()  # type: ignore[attr-defined]


def swap(folder: Path) -> None:
    """Publish the rows of one copy under the name of another."""
    paths = [folder / "data" / f"copied.{number}.parquet" for number in (1, 2)]
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)


def bend(folder: Path) -> None:
    """Move most rows of the second copy's model into one cell; its rows stay those of the model before."""
    _, arrays = model_of(folder)
    name = next(name for name in arrays if name.startswith("copy-0002-"))
    changed = arrays[name].copy()
    possible = np.flatnonzero(changed != FORBIDDEN)
    changed.flat[possible] = -4 * STEPS
    changed.flat[possible[-1]] = 0
    write_model(folder, {**arrays, name: changed})


@pytest.mark.parametrize("spoil", [swap, bend])
def test_copies_that_are_not_what_the_record_derives_are_found(spoil: Callable[[Path], None], version: Version):
    """Rows of another copy, rows of another model, a seed that was chosen."""
    spoil(version.folder)
    assert broken(forge(version).verify()) & {5, 6, 9}


def test_a_seed_of_a_copy_that_was_chosen_is_found(version: Version):
    chosen = replay(lambda r: r["copies"][0].update(seed="0" * 32))
    assert broken(forge(version, record=chosen).verify()) & {5, 6, 9}


def test_a_model_of_a_copy_that_no_noise_gives_is_found_by_deep(version: Version):
    bend(version.folder)
    assert any("copy 2" in finding.field for finding in forge(version).verify(deep=True).findings)


REFUSED = {
    "copies: 0": ("product.copies", "0", "from 2 to 100"),
    "copies: 1": ("product.copies", "1", "from 2 to 100"),
    "copies: 101": ("product.copies", "101", "from 2 to 100"),
    "copies: many": ("product.copies", "'many'", "from 2 to 100"),
    "copies: 5, rows: 10": ("product.rows", "10 rows of each copy", "at least"),
    "copies: 50, rows: 100000000": ("product.copies", "50 copies of 100,000,000 rows", "at most 134,217,728 rows"),
    "copies: 5, inside_bins: measured": ("product.copies", "beside counts inside bins", "filled uniformly"),
}


@pytest.mark.parametrize("keys", REFUSED)
def test_what_does_not_go_with_copies_names_its_line_and_charges_nothing(keys: str, tmp_path: Path):
    field, found, allowed = REFUSED[keys]
    asked = replace(scenario(), product=f"{{kind: synthetic, generator: mst, {keys}}}")
    with pytest.raises(SpecRefused) as refused:
        asked.prepared(tmp_path)
    (finding,) = refused.value.findings
    assert finding.where.rsplit(":", 1)[1].isdigit()
    assert finding.field.endswith(field.removeprefix("product."))
    assert found in finding.found
    assert allowed in finding.allowed
    assert not (tmp_path / "ledger.sqlite").exists(), "a refused spec reaches no ledger"


@pytest.mark.parametrize("generator", ["latent_factors", "gaussian_copula"])
def test_a_generator_whose_model_cannot_be_drawn_again_is_refused_by_name(generator: str, tmp_path: Path):
    with pytest.raises(SpecRefused) as refused:
        scenario(f"generator: {generator}").prepared(tmp_path)
    (finding,) = refused.value.findings
    assert generator.split(",")[0] in finding.found
    assert "cannot be drawn again" in finding.found
    assert "drop `copies:`" in finding.remedy
