"""Adaptive tables in a spec: what is wrong is refused by name and line, before any charge."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import SpecRefused
from contracts.release.adaptive.detail_levels import ALL, detail_cells
from contracts.release.adaptive.product import adaptive_product
from tests.worlds.adaptive import of_patients, of_wards
from tests.worlds.spines import without_totals

PLAIN = {"share": "0.1", "levels": "[[], [insured], [insured, floor]]", "thresholds": "[200, 500]"}
TOTAL = (
    '{unit: {kind: row, scope: block}, adjacency: replace_one, invariants: [{kind: total, value: 9, reference: "R"}]}'
)
HALVES = "{floor: {x: ['1', '2'], y: ['9']}}", "{floor: {x: ['1'], y: ['2', '9']}}"


def product(*, by: str = "[ward]", more: str = "", **adapt: str) -> dict[str, str]:
    written = ", ".join(f"{key}: {value}" for key, value in {**PLAIN, **adapt}.items() if value)
    return {"product": f"{{kind: adaptive{more}, tables: [{{by: {by}, adapt: {{{written}}}}}]}}"}


def tables(adapt: str) -> dict[str, str]:
    return {"product": f"{{kind: tables, mechanism: gaussian, tables: [{{columns: [ward], adapt: {adapt}}}]}}"}


AT = "product.tables[0].adapt"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown column": (
        product(levels="[[], [insurd]]", thresholds="auto"),
        f"{AT}.levels[1][0]",
        "the column 'insurd'",
    ),
    "an unknown group": (product(by="[wrad]"), "product.tables[0].by[0]", "the column 'wrad'"),
    "no group": (product(by="[]"), "product.tables[0].by", "an empty list"),
    "columns not nested": (product(levels="[[], [insured], [floor]]"), f"{AT}.levels[2]", "without 'insured'"),
    "bins not nested": (
        product(levels=f"[[], [{HALVES[0]}], [insured, {HALVES[1]}]]"),
        f"{AT}.levels[2]",
        "that lie in two of floor \\(2\\)",
    ),
    "no more cells": (product(levels="[[], [insured], [insured]]"), f"{AT}.levels[2]", "3 cells in insured after 3"),
    "bins that do not fit": (
        product(levels="[[], [{floor: 0..9 by 3}], [insured, floor]]"),
        f"{AT}.levels[1]",
        "which holds no numbers or days",
    ),
    "one level": (product(levels="[[insured]]", thresholds="auto"), f"{AT}.levels", "1 level"),
    "a group's column": (
        product(levels="[[], [ward], [ward, floor]]"),
        f"{AT}.levels[1]",
        "the column 'ward' of the groups",
    ),
    "thresholds that fall": (product(thresholds="[500, 200]"), f"{AT}.thresholds[1]", "200 at this place"),
    "equal thresholds": (product(thresholds="[200, 200]"), f"{AT}.thresholds[1]", "200 at this place"),
    "a threshold of none": (product(thresholds="[0, 200]"), f"{AT}.thresholds[0]", "0 at this place"),
    "too few thresholds": (product(thresholds="[200]"), f"{AT}.thresholds", "1 thresholds for 3 levels"),
    "another word": (product(thresholds="automatic"), f"{AT}.thresholds", "'automatic'"),
    "share 0": (product(share="0"), f"{AT}.share", "found: 0"),
    "share 1": (product(share="1"), f"{AT}.share", "found: 1"),
    "a negative share": (product(share="-0.1"), f"{AT}.share", "found: -0.1"),
    "no share": (product(share=""), f"{AT}.share", "nothing"),
    "no relative error": (product(thresholds="auto", relative_error="0"), f"{AT}.relative_error", "found: 0"),
    "an error beside thresholds": (product(relative_error="0.5"), f"{AT}.relative_error", "beside thresholds"),
    "refine": (product(more=", refine: {method: simplex}"), "product.refine", "`refine` beside `adapt`"),
    "a kept total": (product(more=", total: invariant"), "product.total", "`total` beside `adapt`"),
    "suppression": (
        product(more=", minimum_frequency: {k: 10}"),
        "product.minimum_frequency",
        "`minimum_frequency` beside `adapt`",
    ),
    "other noise": (product(more=", mechanism: uniform"), "product.mechanism", "'uniform'"),
    "a declared total": ({"privacy": TOTAL}, "product.tables", "a declared total, under replace_one"),
    "no delta": ({"delta": "0"}, "charge.delta", "delta 0"),
    "a tiny epsilon": ({"epsilon": "0.0000001"}, "charge.epsilon", "1e-7 for 2 draws"),
    "another kind": (tables("{share: 0.1}"), f"{AT}", "`adapt` in kind tables"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_a_charge(tmp_path: Path, name: str) -> None:
    """By file, line and key; the ledger is not even made."""
    changed, at, found = REFUSED[name]
    with pytest.raises(SpecRefused, match=found) as refused:
        replace(of_wards(), **changed).prepared_of(tmp_path, object)
    assert f"{at}\n" in str(refused.value)
    assert "spec.yaml:" in str(refused.value)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_every_cell_is_in_one_cell_of_each_level_and_every_row_has_labels_of_its_own(tmp_path: Path) -> None:
    """The maps of levels are nested; a row is found again by its labels, for any choice of levels."""
    spec, contract, _, ledger = of_patients().prepared_of(tmp_path, object)
    ledger.close()
    for table in adaptive_product(spec.product).tables:
        cells = detail_cells(table, contract)
        maps = [level.cell_of for level in cells.levels]
        for above, below in pairwise(maps):
            assert len({*zip(below.tolist(), above.tolist(), strict=True)}) == below.max() + 1
        for chosen in (np.arange(cells.groups) % len(maps), np.full(cells.groups, len(maps) - 1)):
            rows = cells.rows(chosen)
            assert np.unique(rows).size == rows.size == sum(cells.levels[each].cells for each in chosen)
            assert (np.diff(rows // cells.row_room) >= 0).all()
            assert rows.max() < cells.cells(cells.clique)
        assert all(cells.column(name).labels[0] == ALL for name in table.detail)


def test_an_adaptive_product_is_told_from_another(tmp_path: Path) -> None:
    spec, _, _, ledger = without_totals().prepared_of(tmp_path, object)
    ledger.close()
    with pytest.raises(TypeError, match="kind spine"):
        adaptive_product(spec.product)
