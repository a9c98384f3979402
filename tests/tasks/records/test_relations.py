"""Which relations between columns synthetic rows keep is one sentence, in the four places where people read."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

import sudare
from console.run import _print
from tasks.records.relations import ALONE, kept_relations
from tests.worlds.synthetic_rows import SyntheticScenario, fixed, gaussians
from tests.worlds.versions import Version, Worlds


def auto() -> SyntheticScenario:
    """Rows of which so few are expected that every pair would be noise: `auto` takes `independent`."""
    product = "{kind: synthetic, generator: auto, columns: [ward, age, bill], options: {rows_about: 30}}"
    return replace(SyntheticScenario(), product=product, epsilon="0.1", release="auto")


def replay_of(version: Version) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((version.folder / "record.json").read_bytes())["replay"]
    return found


def draw(kind: str, *clique: str, key: str = "measurement-0001", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "clique": list(clique), "key": key, **more}


def replay(*draws: dict[str, Any], **product: Any) -> dict[str, Any]:
    return {"product": {"kind": "synthetic", **product}, "draws": list(draws)}


@pytest.mark.long
def test_rows_of_independent_columns_say_so_on_page_label_terminal_and_in_python(
    worlds: Worlds, capsys: pytest.CaptureFixture[str]
):
    """`generator: auto` that takes `independent` keeps no relation, and whoever reads of it reads that first."""
    version = worlds.published(auto())
    assert kept_relations(replay_of(version)) == ALONE
    page = (version.folder / "record.html").read_text()
    assert ALONE in page[: page.index("<nav ")]
    label = (version.folder / "label.html").read_text()
    assert ALONE in label[: label.index("</header>")]
    assert f"relations: {ALONE}" in repr(sudare.Release(version.folder))
    outcome = {
        **dict.fromkeys(("account", "account_delta", "copy", "delta", "epsilon", "epsilon_cap"), ""),
        **{"release": "auto", "version": 1, "folder": str(version.folder), "status": "published", "repeated": False},
        **{"also_charged": [], "used": "67 % of the budget is used", "can_give": None, "public_key_file": "k"},
    }
    _print(Console(width=200), outcome)
    assert ALONE in capsys.readouterr().out


def test_rows_of_marginals_name_the_pairs_that_were_measured(worlds: Worlds):
    """Two pairs, and one column that enters with neither: no relation but these two is promised."""
    said = str(kept_relations(replay_of(worlds.published(fixed()))))
    assert said.startswith("3 pairs of columns were measured together (floor × ward, arrived × left, age × bill)")
    many = replay(draw("marginal", "a", "b", "c", "d"))
    assert "6 pairs of columns were measured together (a × b, a × c, a × d, ...)" in str(kept_relations(many))


def test_rows_of_sums_votes_and_networks_have_a_sentence_of_their_own(worlds: Worlds):
    """Networks first: their sums over rows come from the same fit."""
    assert "noisy sums over whole rows" in str(kept_relations(replay_of(worlds.published(gaussians()))))
    assert "A neural network learned" in str(kept_relations(replay(draw("sums"), draw("training"))))
    assert "noisy votes" in str(kept_relations(replay(draw("votes"))))
    assert "All pairs" in str(kept_relations(replay(draw("residuals"))))
    assert "draws of gossip" in str(kept_relations(replay(draw("marginal", "a"), draw("gossip"))))


def test_what_is_not_rows_has_no_such_sentence():
    assert kept_relations({"product": {"kind": "tables"}, "draws": []}) is None
