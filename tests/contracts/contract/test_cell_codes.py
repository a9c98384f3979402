"""Codes of cells are row-major numbers; structural zeros are found among them as the dense mask has them."""

from math import prod
from pathlib import Path

import numpy as np
import pytest

from contracts.contract.cell_codes import ImpossibleCells, cell_codes, digit
from contracts.contract.odcs import load_contract
from tests.worlds.sparse_tables import sparse
from tests.worlds.tables import second

SHAPE = (3, 1, 7, 4)


def test_codes_and_digits_are_numpy_s_row_major_indices():
    codes = np.arange(prod(SHAPE))
    digits = np.unravel_index(codes, SHAPE)
    for place, part in enumerate(digits):
        assert np.array_equal(digit(codes, SHAPE, place), part)
    assert np.array_equal(cell_codes(digits, SHAPE), codes)


def test_the_largest_domain_has_exact_codes():
    """2^21 * 2^21 * (2^21 - 1) cells: the last one's code is one less, without overflow."""
    shape = (2**21, 2**21, 2**21 - 1)
    last = cell_codes([np.array([size - 1]) for size in shape], shape)
    assert last[0] == prod(shape) - 1
    assert [int(digit(last, shape, place)[0]) for place in range(3)] == [size - 1 for size in shape]


@pytest.mark.parametrize("clique", [("wage", "trade"), ("trade", "hired", "wage"), ("hired",), ("hired", "trade")])
def test_the_impossible_cells_are_those_of_the_dense_mask(tmp_path: Path, clique: tuple[str, ...]):
    path = tmp_path / "contract.odcs.yaml"
    path.write_text(second().contract)
    contract = load_contract(path)
    mask = contract.impossible(clique).reshape(-1)
    impossible = ImpossibleCells.of(contract, clique)
    assert np.array_equal(impossible.among(np.arange(mask.size)), mask)
    assert impossible.count == mask.sum()
    assert impossible.shape == contract.shape(clique)


def test_overlapping_structural_zeros_are_counted_once(tmp_path: Path):
    path = tmp_path / "contract.odcs.yaml"
    more = '[{trade: [painter], wage: ["[20, 50]"]}, {trade: [painter, mason], hired: [2020-Q1]}]'
    path.write_text(second().contract.replace('[{trade: [painter], wage: ["[20, 50]"]}]', more))
    contract = load_contract(path)
    clique = ("trade", "wage", "hired")
    mask = contract.impossible(clique).reshape(-1)
    impossible = ImpossibleCells.of(contract, clique)
    assert len(impossible.boxes) == 2
    assert impossible.count == mask.sum()
    assert np.array_equal(impossible.among(np.arange(mask.size)), mask)


def test_constraints_between_columns_exclude_the_cells_of_the_dense_mask(tmp_path: Path):
    """c0 <= c2, and c1 determines c0, beside a structural zero: any order of the columns, counted once."""
    scenario = sparse((6, 4, 7), zeros="[{c1: ['2'], c2: ['7']}]")
    mapping = "{'1': '1', '2': '3', '3': '3', '4': '6'}"
    constraints = (
        f"constraints: [{{less_or_equal: [c0, c2]}}, {{determines: {{by: c1, column: c0, mapping: {mapping}}}}}]"
    )
    path = tmp_path / "contract.odcs.yaml"
    path.write_text(scenario.contract.replace("gates: []", f"gates: [], {constraints}"))
    contract = load_contract(path)
    for clique in (("c0", "c1", "c2"), ("c2", "c0", "c1"), ("c0", "c1"), ("c2", "c0"), ("c1", "c2"), ("c1",)):
        mask = contract.impossible(clique).reshape(-1)
        impossible = ImpossibleCells.of(contract, clique)
        assert np.array_equal(impossible.among(np.arange(mask.size)), mask), clique
        assert impossible.count == mask.sum()
        assert impossible.some == bool(contract.zero_cliques(clique))
    assert contract.impossible(("c0", "c1", "c2")).sum() > 100
