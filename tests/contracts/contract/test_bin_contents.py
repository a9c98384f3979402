"""Values inside bins: as the weights say to within a row, the same from the same words, never out of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.decoding import MOST_WEIGHT, BinContents, Decoder
from contracts.contract.odcs import load_contract
from tests.worlds.tables import contract_yaml, property_yaml

PAY = property_yaml(
    "pay",
    "integer",
    "{kind: integer, bounds: [-10, 1000], bins: {edges: [-10, 0, 100, 1000]}, nulls: {policy: category}, "
    "provenance: {kind: declared}}",
)
PRICE = property_yaml(
    "price",
    "number",
    "{kind: decimal, bounds: [0, 10], bins: {edges: [0, 2.5, 10]}, nulls: {policy: category}, "
    "provenance: {kind: declared}}",
)
PAID = PRICE.replace("name: price", "name: paid").replace("edges: [0, 2.5, 10]", "edges: [0, 1.25, 10]")
INSIDE = BinContents(np.array([0, 10, 11, 60, 110, 500]), np.array([5, 3, 0, 1, 7, 1]))
"""Cuts at -10, 0, 1, 50, 100 and 490: a spike at 0, and nothing from 1 to 49."""


def contract(folder: Path, properties: str, privacy: str = "") -> Contract:
    path = folder / "pay.odcs.yaml"
    path.write_text(
        contract_yaml(
            "pay",
            f"{{unit: {{kind: row, scope: block}}, adjacency: add_remove{privacy}}}",
            properties,
            description="description: {purpose: Tests.}",
        )
    )
    return load_contract(path)


def words(stream: int, count: int) -> NDArray[np.uint64]:
    return np.random.Philox(key=7, counter=[0, 0, 0, stream]).random_raw(count)


def test_values_follow_the_weights_to_within_a_row_a_leaf(tmp_path: Path):
    """Systematic sampling: of n rows of a bin a leaf of share p has n p, rounded down or up."""
    decoder = Decoder(contract(tmp_path, PAY), ["pay"], {"pay": INSIDE})
    codes = np.repeat([0, 1, 2, 3], [40, 401, 83, 9])[:, None]
    (found,) = decoder.decode(codes, piece=0, words=words)
    values = found.numbers
    assert found.missing.sum() == 9
    low = values[(codes[:, 0] == 0)]
    assert low.min() >= -10
    assert low.max() < 0
    middle = values[codes[:, 0] == 1]
    assert (middle == 0).sum() in (300, 301)
    assert ((middle >= 50) & (middle < 100)).sum() == 401 - (middle == 0).sum()
    high = values[codes[:, 0] == 2]
    assert ((high >= 100) & (high < 490)).sum() in (72, 73)
    assert high.max() <= 1000
    again = decoder.decode(codes, piece=0, words=words)[0].numbers
    assert np.array_equal(again, values)
    other = decoder.decode(codes, piece=1, words=words)[0].numbers
    assert not np.array_equal(other, values), "each piece has words of its own"


def test_rows_of_a_bin_are_in_random_order(tmp_path: Path):
    """The first half of the rows is like the second; n = 2,000, false-alarm rate 1e-9 (6.1 deviations)."""
    decoder = Decoder(contract(tmp_path, PAY), ["pay"], {"pay": INSIDE})
    (found,) = decoder.decode(np.ones((2000, 1), np.int64), piece=0, words=words)
    zeros = (found.numbers[:1000] == 0).sum()
    # Of 1,500 zeros among 2,000 rows the first half has a hypergeometric number: mean 750, variance 93.8.
    assert abs(zeros - 750) < 6.1 * np.sqrt(93.8)


def test_an_order_between_columns_is_kept_and_values_stay_on_their_leaves(tmp_path: Path):
    """Columns in one order share the larger number of decimals; a leaf covers its finer numbers too."""
    both = contract(tmp_path, PRICE + PAID, ", constraints: [{less_or_equal: [price, paid]}]")
    inside = BinContents(np.array([0, 1, 10, 25, 50, 90]), np.array([2, 0, 1, 1, 1, 1]))
    decoder = Decoder(both, ["price", "paid"], {"price": inside})
    codes = np.stack([np.repeat([0, 1, 0], 300), np.repeat([1, 1, 0], 300)], axis=1)
    price, paid = decoder.decode(codes, piece=0, words=words)
    assert price.form.scale == paid.form.scale == 2
    assert (price.numbers <= paid.numbers).all()
    first = price.numbers[codes[:, 0] == 0]
    # The leaf of 0 has 0.00 to 0.09, that of weight 0 has 0.10 to 0.99; a last turn between neighbours may go there.
    assert (first < 10).mean() > 0.5
    assert (price.numbers[codes[:, 0] == 1] >= 250).all()


@pytest.mark.parametrize(
    "wrong",
    [
        replace(INSIDE, weights=np.array([5, 3, 0, 1, 7])),
        replace(INSIDE, weights=np.array([5, 3, -1, 1, 7, 1])),
        replace(INSIDE, weights=np.array([0, 3, 0, 1, 7, 1])),
        replace(INSIDE, weights=np.array([MOST_WEIGHT + 1, 3, 0, 1, 7, 1])),
        replace(INSIDE, cuts=np.array([0, 10, 10, 60, 110, 500])),
        replace(INSIDE, cuts=np.array([0, 9, 11, 60, 110, 500])),
        replace(INSIDE, cuts=np.array([1, 10, 11, 60, 110, 500])),
        replace(INSIDE, cuts=np.array([0, 10, 11, 60, 110, 5000])),
        BinContents(np.array([], dtype=np.int64), np.array([], dtype=np.int64)),
    ],
)
def test_contents_of_other_bins_are_refused(tmp_path: Path, wrong: BinContents):
    made = contract(tmp_path, PAY)
    with pytest.raises(ValueError, match="contents of the bins of pay"):
        Decoder(made, ["pay"], {"pay": wrong})
    with pytest.raises(ValueError, match="no such column"):
        Decoder(made, ["pay"], {"income": INSIDE})
