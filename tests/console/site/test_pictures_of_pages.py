"""Pictures of the site: the tree of an entry's audit path."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

from console.site.path_tree import path_tree
from privacy.ledger.journal.merkle import reached_by_proof
from tasks.records.page.language import language


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
