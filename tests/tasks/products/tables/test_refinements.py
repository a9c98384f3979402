"""Every refinement that a spec can ask for, from the spec to a version that verify replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import load
from tests.worlds.tables import refined_by
from tests.worlds.versions import Version, publish_version

KEPT = {
    "{method: none}": ("none", None),
    "{method: negative_l2, lambda: auto, integers: false}": ("negative_l2", {"of": "lambda", "by": "auto"}),
    "{method: negative_l2, sparsity: 0.4}": ("negative_l2", {"of": "lambda", "by": "sparsity"}),
    "{method: empirical_bayes}": ("empirical_bayes", None),
    "{method: neighbourhood, integers: false}": ("neighbourhood", None),
    "{method: auto}": ("mixture", {"of": "weights", "by": "auto"}),
}


def told(version: Version) -> dict[str, Any]:
    """What the record tells people of each table's refinement."""
    entries = version.words["product.tables"]
    return {entry["table"]: entry for entry in entries}


@pytest.mark.parametrize("refine", KEPT)
def test_each_refinement_is_published_and_replayed(tmp_path: Path, refine: str) -> None:
    """Gaussian noise, structural zeros, tables whose ordered column comes first or stands alone."""
    version = publish_version(refined_by(refine), tmp_path)
    version.assert_verifies()
    method, chosen = KEPT[refine]
    replay = load(version.folder / "record.json")["replay"]
    for table in replay["tables"]:
        assert table["chosen"] == chosen
        assert method in (None, table["method"])
        data = pq.read_table(version.folder / table["data"])
        counts, lower, upper = (data[name].to_numpy() for name in ("count", "lower", "upper"))
        zeros = pq.read_table(version.folder / table["measurements"])["structural_zero"].to_numpy()
        for column in (counts, lower, upper):
            assert not column[zeros].any()
        assert (lower <= counts).all()
        assert (counts <= upper).all()
        if table["method"] != "none":
            assert counts.min() >= 0
            assert lower.min() >= 0
            assert counts.sum() == pytest.approx(max(0, replay["total"]["value"]))


def test_the_record_says_what_was_chosen_and_why_it_is_free(versions: dict[str, Version]) -> None:
    for name, what in (("chosen", "lambda has the least error"), ("extract", "the method has the least error")):
        for entry in told(versions[name]).values():
            assert entry["chosen"].startswith(what)
            assert "costs nothing" in entry["chosen"]
            assert entry["method"] in entry["estimated_rmse"]
    candidates = {"simplex", "negative_l2", "empirical_bayes", "neighbourhood"}
    assert set(told(versions["extract"])["sex_x_age"]["estimated_rmse"]) == candidates
    assert {entry["chosen"] for entry in told(versions["guild"]).values()} == {"none"}


def test_the_page_shows_the_choice_and_the_expected_error(versions: dict[str, Version]) -> None:
    page = (versions["chosen"].folder / "record.html").read_text(encoding="utf-8")
    assert "lambda has the least error" in page
    assert "Expected error (RMSE)" in page
    assert "Expected error (RMSE)" not in (versions["town"].folder / "record.html").read_text(encoding="utf-8")
