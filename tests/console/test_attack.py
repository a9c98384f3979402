"""`sudare evaluate --attack` as people type it: what holds, what does not (exit 5), and what is refused.

Coins and noise repeat with each test; of fresh ones a sound claim is refuted with a chance of at most 1e-6.
"""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

WHY = ("--public-because", "public use sample <b>of</b> 1994")
FINE = (
    "    - [education, income]\n",
    "    - [age, education, occupation]\n    - [workclass, occupation, relationship]\n",
)
NAMED = ("--attribute", "income")


@pytest.fixture(scope="module")
def public(shared: Place) -> Path:
    """Rows that stand in for public ones: of the same columns, each with its neighbour's sex."""
    path, table = shared.adult / "public.parquet", pl.read_parquet(shared.adult / "adult.parquet").head(500)
    table = table.with_columns(pl.col("sex").shift(1, fill_value="Male"))
    table.write_parquet(path)
    with_people = table.with_columns((pl.int_range(pl.len()) // 2).cast(pl.Utf8).alias("person"))
    with_people.write_parquet(shared.adult / "people.parquet")
    return path


def written(place: Place, example: str, name: str, *changes: tuple[str, str]) -> str:
    text = (place.adult / example).read_text().replace(f"release: adult-{example[:-5]}", f"release: {name}")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (place.adult / f"{name}.yaml").write_text(text)
    return str(place.adult / f"{name}.yaml")


def entries(place: Place) -> int:
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        return int(ledger.execute("select count(*) from journal").fetchone()[0])


@pytest.mark.long
def test_sound_tables_keep_their_claim_and_no_account_pays(shared: Place, public: Path, typed: Typed):
    """Each attack says what it knows, how well it does and what the claim allows; scores and page are public."""
    spec, before = written(shared, "tables.yaml", "sound", FINE), entries(shared)
    words = ("--attack", "all", *NAMED, "--releases", "6", "--holdout", str(public), *WHY)
    said = typed("evaluate", spec, *words, "--json", at=shared.workspace)
    assert said.code == 0, said.err
    found = said.json
    assert (found["class"], found["claim_holds"], found["findings"]) == ("public", True, [])
    assert found["claim"] == {"epsilon": 1.0, "delta": 0.0, "adjacency": "add_remove"}
    assert list(found["attacks"]) == ["shadow", "attribute_inference"]
    for attack in found["attacks"].values():
        assert attack["low"] <= attack["advantage"] <= attack["high"]
        assert attack["allowed_advantage"] == pytest.approx((np.e - 1) / (np.e + 1), abs=1e-5)
        assert attack["knows"]
        assert attack["baseline"]
    guessed = found["attacks"]["attribute_inference"]["guessed"]
    assert min(guessed["members"], guessed["others"], guessed["without"]) > 0.5
    assert entries(shared) == before
    assert json.loads(Path(found["scores"]).read_bytes())["attacks"] == found["attacks"]
    assert Path(found["scores"]).parent.parent == shared.workspace.root / "public-scores"
    page = Path(found["page"]).read_text()
    assert "public use sample &lt;b&gt;of&lt;/b&gt; 1994" in page
    assert "no attack refuted the claim" in page
    assert list(shared.workspace.runs.glob("evaluation-*/s[hn]a*")) == []


def test_a_missing_extra_is_told_before_the_rows_are_read(
    shared: Place, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """The holdout is no Parquet file, which only reading it shows."""
    (tmp_path / "rows.parquet").write_bytes(b"no rows")
    words = ("--attack", "all", "--holdout", str(tmp_path / "rows.parquet"), *WHY)
    spec = written(shared, "tables.yaml", "extra", FINE)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    told = typed("evaluate", spec, *words, *NAMED, at=shared.workspace)
    told.assert_ended(1, "scikit-learn, which is not installed; install the extra: pip install 'sudare[evaluate]'")
    assert "scikit-learn" not in typed("evaluate", spec, *words, at=shared.workspace).err


@pytest.mark.long
def test_tables_without_noise_end_with_exit_5_and_what_to_do(
    shared: Place, public: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """The twin draws what it counts: it is found out, in words and in the file."""

    def exact(counts: Any, **_: Any) -> Any:
        return counts

    monkeypatch.setattr("privacy.grant.queries.marginal.noisy_counts", exact)
    spec = written(shared, "tables.yaml", "noiseless", FINE)
    words = ("--attack", "shadow", "--releases", "6", "--holdout", str(public), *WHY)
    said = typed("evaluate", spec, *words, at=shared.workspace)
    assert said.code == 5, said.err
    told = " ".join(said.out.split())
    assert "attack shadow: the claim does not hold found:" in told
    assert "allowed: what epsilon 1 at delta 0 allows" in told
    assert "do: publish nothing made so" in told


@pytest.mark.long
def test_a_model_is_attacked_in_three_ways(
    shared: Place, public: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """Options that are about the number of rows follow it, and that is said. Losses are tabulated coarsely."""
    monkeypatch.setattr("privacy.accounting.claim._POINTS", 20_000)
    spec = written(
        shared,
        "model.yaml",
        "telling",
        ("label: income", "label: income\n  columns: [age, sex, race, income]"),
        ("{rows_about: 48000}", "{rows_about: 48000, epochs: 1, checkpoints: 1, batch: 960}"),
    )
    words = ("--attack", "all", "--attribute", "sex", "--releases", "4", "--holdout", str(public), *WHY)
    said = typed("evaluate", spec, *words, "--json", at=shared.workspace)
    assert said.code == 0, said.err
    assert list(said.json["attacks"]) == ["shadow", "attribute_inference", "inversion"]
    assert said.json["adapted"] == ["batch 2", "rows_about 125"]
    assert said.json["releases"] == 4


@pytest.mark.long
def test_a_version_is_attacked_by_its_record_and_never_by_its_own_rows(shared: Place, public: Path, typed: Typed):
    """Its mechanism on public rows; its own rows, under whatever name, are confidential."""
    spec = written(shared, "tables.yaml", "charged", ("epsilon: 1.0", "epsilon: 0.3"))
    release_plainly(Path(spec), shared.workspace.root)
    folder, copy = str(shared.workspace.releases / "charged" / "v1"), shared.adult / "copy.parquet"
    words = ("--attack", "shadow", "--releases", "4", "--holdout", str(public), *WHY, "--json")
    said = typed("evaluate", folder, *words, at=shared.workspace)
    assert said.code == 0, said.err
    assert (said.json["version"], said.json["claim"]["epsilon"]) == (1, pytest.approx(0.3))
    pl.read_parquet(shared.adult / "adult.parquet").write_parquet(copy)  # other bytes
    for what, told in (
        (folder, "the rows that this version was made of"),
        (spec, "rows that a release was charged for"),
    ):
        refused = typed("evaluate", what, "--attack", "shadow", "--holdout", str(copy), *WHY, at=shared.workspace)
        refused.assert_ended(2, told)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("total", "adjacency: add_remove\n          invariants: []", "adjacency: replace_one\n          invariants: "
         "[{kind: total, value: 48842, reference: the documentation}]"),
        ("people", "{kind: row, scope: block}", "{kind: id, column: person, max_rows_per_unit: 3, scope: block}"),
    ],
)  # fmt: skip
def test_coins_follow_the_relation_of_the_contract(
    shared: Place, public: Path, typed: Typed, name: str, old: str, new: str
):
    """Under replace_one a coin decides between two rows, and the total follows; of a unit's rows one is taken."""
    text = (shared.adult / "adult.odcs.yaml").read_text()
    assert old in text
    text = text.replace(old, new)
    if name == "people":
        first = "      - name: age\n"
        text = text.replace(first, f"      - name: person\n        logicalType: string\n{first}")
    (shared.adult / f"{name}.odcs.yaml").write_text(text)
    changes = [("contract: adult.odcs.yaml", f"contract: {name}.odcs.yaml")]
    changes += [("total: noisy                                # no exact total is published", "total: invariant")] * (
        name == "total"
    )
    spec = written(shared, "tables.yaml", f"of-{name}", *changes)
    rows = public if name == "total" else shared.adult / "people.parquet"
    words = ("--attack", "shadow", "--releases", "4", "--holdout", str(rows), *WHY, "--json")
    said = typed("evaluate", spec, *words, at=shared.workspace)
    assert said.code == 0, said.err
    assert said.json["rows"] == (250 if name == "total" else 125)
    assert said.json["attacks"]["shadow"]["coins"] == 250
    assert said.json["adapted"] == (["total 125"] if name == "total" else [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--attack", "shadow", "--against", "adult.parquet"), "an attack on confidential rows"),
        (("--attack", "shadow"), "the rows to attack found: none"),
        (("--attack", "shadow", "--holdout", "public.parquet"), "as confidential as the rest"),
        (("--attack", "shadow", "--holdout", "adult.parquet", *WHY), "a source that the ledger has bound to people"),
        (("--attack", "shadwo", "--holdout", "public.parquet", *WHY), "do: write 'shadow'"),
        (("--attack", "inversion", "--holdout", "public.parquet", *WHY), "inversion of a release of kind tables"),
        (("--attack", "shadow", *NAMED, "--holdout", "public.parquet", *WHY), "leave it out"),
        (("--attack", "all", "--holdout", "public.parquet", *WHY), "found: no column"),
        (("--attack", "all", "--attribute", "incom", "--holdout", "public.parquet", *WHY), "write 'income'"),
        (("--attack", "shadow", "--holdout", "few.parquet", *WHY), "found: 60 rows allowed: at least 100"),
        (("--attack", "shadow", "--target", "sex", "--holdout", "public.parquet", *WHY), "no such option"),
        (("--attack", "shadow", "--holdout", "rows.yaml", *WHY), "what a release spec names is confidential"),
        (("--attribute", "sex", "--holdout", "public.parquet", *WHY), "add --attack, or leave it out"),
        (
            ("--attack", "shadow", "--releases", "3", "--holdout", "public.parquet", *WHY),
            "greater than or equal to 4",
        ),
    ],
)
def test_what_cannot_be_attacked_is_refused(
    shared: Place, public: Path, typed: Typed, words: tuple[str, ...], told: str
):
    pl.read_parquet(public).head(60).write_parquet(shared.adult / "few.parquet")
    spec = written(shared, "tables.yaml", "refused")
    named = [str(shared.adult / word) if word.endswith((".parquet", ".yaml")) else word for word in words]
    said = typed("evaluate", spec, *named, at=shared.workspace)
    assert told in " ".join(said.err.split())
    assert said.code == 2
