"""Pictures of the site: thumbnails of published figures, and the tree of an entry's audit path."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from console.site.path_tree import path_tree
from console.site.thumbnails import HEIGHT, WIDTH, thumbnail
from privacy.ledger.journal.merkle import reached_by_proof
from tasks.records.page.language import language
from tests.console.site.shown_folder import folder_of_version
from tests.console.site.test_accessibility import KINDS
from tests.worlds.versions import Worlds


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_version_of_each_kind_has_a_picture_of_its_own_figures(worlds: Worlds, kind: str) -> None:
    """An image without style, script or words, whose shapes lie inside it; each kind has more than one shape."""
    folder, record = folder_of_version(worlds.published(KINDS[kind](), here=True).folder)
    root = ElementTree.fromstring(thumbnail(folder, record))
    shapes = [each for each in root if each.tag.endswith("rect")]
    assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {"svg", "rect", "path"}
    assert len(shapes) > 1
    for each in shapes:
        x, y, width, height = (float(each.attrib[name]) for name in ("x", "y", "width", "height"))
        assert -0.1 <= x <= x + width <= WIDTH + 0.1
        assert -0.1 <= y <= y + height <= HEIGHT + 0.1


def test_bars_of_a_thumbnail_are_as_high_as_the_published_counts(client: TestClient) -> None:
    """The ages of the example: the first data file by name."""
    told = client.get("/api/releases/adult-tables/v3/tables", params={"file": "data/age.parquet"}).json()["preview"]
    counts = [float(row[1].replace(",", "")) for row in told["cells"]]
    drawn = client.get("/releases/adult-tables/v3/thumbnail.svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    heights = [float(found) for found in re.findall(r' height="([\d.]+)" fill', drawn.text)]
    assert len(heights) == len(counts)
    assert [height / HEIGHT for height in heights] == pytest.approx([each / max(counts) for each in counts], rel=1e-3)


@pytest.mark.parametrize("record", [None, [], {}, {"replay": None}, {"replay": {"model": {"widths": ["x", -1]}}}])
def test_a_version_without_figures_has_a_line(worlds: Worlds, record: object) -> None:
    """Of a classifier whose record says nothing of its layers; whoever wrote the folder wrote the record."""
    folder, _ = folder_of_version(worlds.published(KINDS["classifier"](), here=True).folder)
    assert thumbnail(folder, record).count(b"<path") == 1


def test_the_tree_of_an_entry_has_each_node_of_the_path_and_what_it_covers(client: TestClient) -> None:
    """From the entry to the root; every node that was hashed on the way stands in it, by its first digits."""
    told = client.get("/api/journal/11").json()
    proof, page = told["proof"], client.get("/journal/11").text
    [tree] = re.findall(r'<svg class="tree".*?</svg>', page, re.DOTALL)
    reached = reached_by_proof(told["hash"], 11, proof["size"], proof["path"])
    for node in (*reached, *proof["path"]):
        assert f"{node[:10]}…" in tree
    assert tree.count("<rect") == len(reached) + len(proof["path"])
    assert "entries 0 to 7" in tree
    assert "signed root" in tree


def test_a_path_that_does_not_fit_is_not_drawn() -> None:
    assert path_tree("ab" * 32, 1, 4, ["cd" * 32], language("en").text) is None
