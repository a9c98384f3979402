"""From codes to published values: inside their cells, in the declared order, the same from the same words."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.decoding import ROUNDS, Decoded, Decoder, below, too_fine
from contracts.contract.odcs import load_contract
from contracts.sql.encoding import encode_select
from tasks.records.files.write import arrow_array
from tests.contracts.contract.test_constraints import contract as stays
from tests.contracts.samples import write

ROWS = 4000


def words(stream: int, count: int) -> NDArray[np.uint64]:
    return np.random.Philox(key=7, counter=[0, 0, 0, stream]).random_raw(count)


def some_codes(contract: Contract, rows: int, seed: int = 1) -> NDArray[np.int64]:
    """Random codes of all columns that lie in no excluded cell."""
    rng = np.random.default_rng(seed)
    names = [column.name for column in contract.columns]
    codes = np.stack([rng.integers(contract.column(name).size, size=rows) for name in names], axis=1)
    for clique in contract.zero_cliques():
        places = [names.index(name) for name in clique]
        codes = codes[~contract.impossible(clique)[tuple(codes[:, place] for place in places)]]
    return codes


def by_name(pieces: tuple[Decoded, ...]) -> Mapping[str, Decoded]:
    return {decoded.form.name: decoded for decoded in pieces}


@pytest.mark.parametrize(
    "constraints",
    [
        "[]",
        "[{less_or_equal: [low, high]}, {less_or_equal: [price, paid]}, {less_or_equal: [begin, end]}]",
        "[{less_or_equal: [paid, price]}]",
    ],
)
def test_what_is_published_encodes_to_the_codes_that_it_was_made_from(tmp_path: Path, constraints: str):
    """For every kind of column, through DuckDB, with and without orders; a cell of nulls gives a missing value."""
    contract = stays(tmp_path, constraints)
    names = [column.name for column in contract.columns]
    codes = some_codes(contract, ROWS)
    decoded = Decoder(contract, names).decode(codes, piece=0, words=words)
    table = pa.table({each.form.name: arrow_array(each) for each in decoded})
    with duckdb.connect() as connection:
        connection.register("rows", table)
        again = connection.execute(encode_select(contract, columns_present=names, relation="rows")).fetchnumpy()
    for place, name in enumerate(names):
        assert (np.asarray(again[name]) == codes[:, place]).all(), name


def test_declared_orders_hold_for_the_values_inside_overlapping_bins(tmp_path: Path):
    """Three orders at once, of numbers, decimals with other edges, and days; missing values are left out."""
    orders = [("low", "high"), ("price", "paid"), ("begin", "end")]
    contract = stays(tmp_path, str([{"less_or_equal": list(pair)} for pair in orders]))
    free = stays(tmp_path, "[]")
    codes = some_codes(contract, ROWS)
    for made, holds in ((contract, True), (free, False)):
        found = by_name(Decoder(made, [c.name for c in made.columns]).decode(codes, piece=0, words=words))
        for low, high in orders:
            both = ~found[low].missing & ~found[high].missing
            assert both.sum() > ROWS / 8
            assert (found[low].numbers <= found[high].numbers)[both].all() == holds


CHAIN = """\
apiVersion: v3.1.0
kind: DataContract
id: chain
name: Chain
version: 1.0.0
status: active
schema:
  - name: chain
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          unit: {kind: row, scope: block}
          adjacency: add_remove
          constraints: [CONSTRAINTS]
    properties:
"""


def chain(folder: Path, length: int, top: int) -> Contract:
    pairs = ", ".join(f"{{less_or_equal: [c{place}, c{place + 1}]}}" for place in range(length - 1))
    domain = f"{{kind: integer, bounds: [0, {top}], bins: {{width: {top + 1}}}, nulls: {{policy: map, to: 0}}, "
    columns = "".join(
        f"      - name: c{place}\n        logicalType: integer\n        customProperties:\n"
        f"          - property: domain\n            value: {domain}provenance: {{kind: declared}}}}\n"
        for place in range(length)
    )
    return load_contract(write(folder, "chain.odcs.yaml", CHAIN.replace("CONSTRAINTS", pairs) + columns))


def test_a_long_chain_in_one_bin_is_put_in_order_where_drawing_again_does_not_do_it(tmp_path: Path):
    """Seven values in order by chance: one row in 5040, so that ROUNDS draws leave most rows to the last step."""
    contract = chain(tmp_path, 7, 10**6)
    names = [column.name for column in contract.columns]
    found = Decoder(contract, names).decode(np.zeros((500, 7), np.int64), piece=0, words=words)
    values = np.stack([each.numbers for each in found])
    assert ROUNDS < 100
    assert (np.diff(values, axis=0) >= 0).all()
    assert (values >= 0).all()
    assert (values <= 10**6).all()


@pytest.mark.stat
def test_two_values_in_one_bin_are_uniform_over_the_pairs_in_order(tmp_path: Path):
    """20 × 20 values, 210 pairs in order, n = 210,000: no pair's count is off by 250 of 1000 (8 sd; false alarm below
    1e-12). Uniform and then swapped, the diagonal would have half its share; drawn one after the other, (19, 19) 10
    times its share."""
    contract = chain(tmp_path, 2, 19)
    codes = np.zeros((210_000, 2), np.int64)
    low, high = (each.numbers for each in Decoder(contract, ["c0", "c1"]).decode(codes, piece=0, words=words))
    counts = np.bincount(low * 20 + high, minlength=400).reshape(20, 20)
    assert not np.tril(counts, -1).any()
    assert np.abs(counts[np.triu_indices(20)] - 1000).max() < 250
    x, y = np.random.default_rng(1).integers(20, size=(2, 210_000))
    swapped = np.bincount(np.minimum(x, y) * 20 + np.maximum(x, y), minlength=400).reshape(20, 20)
    assert np.abs(swapped[np.triu_indices(20)] - 1000).max() >= 250


def test_a_draw_is_the_exact_product_of_word_and_width():
    """Against whole numbers of any size; the ends of the range are reached and never passed."""
    drawn = np.random.default_rng(2).integers(2**64, size=1000, dtype=np.uint64)
    drawn[:2] = 0, 2**64 - 1
    for width in (1, 2, 3, 10**6, 2**32 - 1, 2**32, 2**32 + 1, 10**15):
        low = np.full(1000, -17, dtype=np.int64)
        found = below(low, low + width - 1, drawn)
        assert found.tolist() == [-17 + int(word) * width // 2**64 for word in drawn.tolist()]


def test_pieces_columns_and_rounds_have_words_of_their_own(tmp_path: Path):
    """No stream is asked for twice; the same codes in another piece give other values."""
    contract = stays(tmp_path, "[{less_or_equal: [low, high]}]")
    asked: list[int] = []

    def noted(stream: int, count: int) -> NDArray[np.uint64]:
        asked.append(stream)
        return words(stream, count)

    codes = some_codes(contract, 500)
    decoder = Decoder(contract, [column.name for column in contract.columns])
    first, second = (decoder.decode(codes, piece=piece, words=noted) for piece in (0, 1))
    assert len(set(asked)) == len(asked)
    assert (by_name(first)["low"].numbers != by_name(second)["low"].numbers).any()


def test_each_logical_type_has_its_published_type(tmp_path: Path):
    """Listed values keep their type where all labels are values of it, written in the one usual way."""
    listed = {
        ("integer", '["1", "2"]'): pa.int64(),
        ("integer", '["1", "02"]'): pa.dictionary(pa.int8(), pa.string()),
        ("boolean", '["true", "false"]'): pa.bool_(),
        ("date", '["2024-01-31", "2024-02-29"]'): pa.date32(),
        ("string", '["1", "2"]'): pa.dictionary(pa.int8(), pa.string()),
    }
    for (logical, values), kind in listed.items():
        domain = (
            f"{{kind: categories, values: {values}, nulls: {{policy: category}}, provenance: {{kind: declared}}}}"
        )
        text = CHAIN.replace("CONSTRAINTS", "") + (
            f"      - name: c\n        logicalType: {logical}\n        customProperties:\n"
            f"          - property: domain\n            value: {domain}\n"
        )
        contract = load_contract(write(tmp_path, "listed.odcs.yaml", text))
        (decoded,) = Decoder(contract, ["c"]).decode(np.array([[0], [1], [2]]), piece=0, words=words)
        array = arrow_array(decoded)
        assert array.type == kind
        assert array.null_count == 1
    typed = stays(tmp_path, "[]")
    decoded = by_name(
        Decoder(typed, [c.name for c in typed.columns]).decode(some_codes(typed, 50), piece=0, words=words)
    )
    assert {
        name: str(arrow_array(each).type) for name, each in decoded.items() if name in ("low", "price", "begin")
    } == {"low": "int64", "price": "double", "begin": "date32[day]"}
    assert set((decoded["price"].numbers[~decoded["price"].missing] % 1).tolist()) == {0}
    days = decoded["begin"].numbers[~decoded["begin"].missing] + date(1970, 1, 1).toordinal()
    assert date(2024, 1, 15) <= date.fromordinal(int(days.min()))
    assert date.fromordinal(int(days.max())) <= date(2024, 4, 10)


def test_codes_that_are_no_cells_and_cells_without_an_order_are_refused(tmp_path: Path):
    decoder = Decoder(stays(tmp_path, "[{less_or_equal: [price, paid]}]"), ["price", "paid"])
    with pytest.raises(ValueError, match="codes must lie between 0 and 2"):
        decoder.decode(np.array([[3, 0]]), piece=0, words=words)
    with pytest.raises(ValueError, match="cannot be put in the declared order"):
        decoder.decode(np.array([[1, 0]]), piece=0, words=words)


def test_decimals_that_a_double_does_not_tell_apart_are_found(tmp_path: Path):
    domain = "{kind: decimal, bounds: [0, TOP], bins: {edges: [0, 0.0000001, TOP]}, nulls: {policy: map, to: 0}, "
    text = CHAIN.replace("CONSTRAINTS", "") + (
        "      - name: c\n        logicalType: number\n        customProperties:\n          - property: domain\n"
        f"            value: {domain}provenance: {{kind: declared}}}}\n"
    )
    for top, fine in (("1000", False), ("10000000000", True)):
        contract = load_contract(write(tmp_path, "fine.odcs.yaml", text.replace("TOP", top)))
        assert too_fine(contract.column("c")) is fine
