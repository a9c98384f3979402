"""Replay: what published numbers must be, derived here by another route."""

import hashlib
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest

from contracts.contract.contract import Contract
from contracts.release.tables.tables import TableSpec, TablesProduct
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.tables import Refined
from tasks.records.model.version_statements import TableStatement
from tasks.verification.refinement_replay import (
    Difference,
    check_choice,
    first_difference,
    label_codes,
    refined_again,
    uncertainty_columns,
    values_sha256,
)
from tasks.verification.table_meaning import Meaning

EVENT = DiscreteLaplace(Fraction(1, 2), (1,))
AB = TableSpec(columns=("a", "b"), name="a_x_b")


def contract(**terms: object) -> Contract:
    def column(name: str, *values: str) -> dict[str, object]:
        domain = {
            "kind": "categories",
            "values": list(values),
            "nulls": {"policy": "map", "to": values[0]},
            "provenance": {"kind": "declared"},
        }
        return {"name": name, "logical_type": "string", "domain": domain}

    return Contract.model_validate(
        {
            "apiVersion": "v3.1.0",
            "id": "c",
            "version": "1",
            "name": "c",
            "table": "t",
            "columns": [column("a", "x", "y", "z"), column("b", "p", "q")],
            "unit": {"kind": "row", "scope": "block"},
            "adjacency": "add_remove",
            **terms,
        }
    )


def table(**changed: object) -> TableStatement:
    stated = {
        "name": "t",
        "columns": ["a", "b"],
        "method": "simplex",
        "lambda": None,
        "chosen": None,
        "estimated_rmse": {},
        "disagreement": None,
        "integers": True,
        "total": None,
        "notes": [],
        "suppressed": None,
        "data": "data/t.parquet",
        "measurements": "measurements/t.parquet",
        "sha256": "0" * 64,
        "levels": [],
        **changed,
    }
    return TableStatement.model_validate(stated)


def test_rows_stand_in_row_major_order():
    """Against itertools.product, whose last factor runs fastest."""
    codes = [label_codes(contract(), ("a", "b"), place).tolist() for place in (0, 1)]
    assert list(zip(*codes, strict=True)) == list(product(range(3), range(2)))
    assert label_codes(contract(), ("b",), 0).tolist() == [0, 1]


def test_the_first_difference_is_found_and_counted():
    left = np.array([1, 2, 3, 4])
    assert first_difference(left, left.copy()) is None
    assert first_difference(left, np.array([1, 0, 3, 0])) == Difference(2, 2, 0, 2)
    nan = np.array([1.0, np.nan])
    for tolerance in (0.0, 1e-9):
        assert first_difference(nan, nan, tolerance=tolerance) is None  # both missing
        difference = first_difference(nan, np.array([1.0, 2.0]), tolerance=tolerance)
        assert difference is not None
        assert (difference.row, difference.count) == (2, 1)
    close = np.array([1.0, 1.0 + 1e-12])
    assert first_difference(close, np.ones(2)) is not None
    assert first_difference(close, np.ones(2), tolerance=1e-9) is None


def test_digests_are_of_little_endian_bytes():
    assert values_sha256(np.array([1, -1])) == hashlib.sha256(bytes([1, *bytes(7)]) + b"\xff" * 8).hexdigest()
    one = bytes([0, 0, 0, 0, 0, 0, 0xF0, 0x3F])
    assert values_sha256(np.array([1.0])) == hashlib.sha256(one).hexdigest()


def test_uncertainty_agrees_with_sums_over_the_distribution():
    scale = Fraction(2, 5)
    weights = {x: exp(-abs(x) * float(scale)) for x in range(-300, 301)}
    mass = {x: weight / sum(weights.values()) for x, weight in weights.items()}
    half = next(q for q in range(300) if sum(mass[x] for x in range(-q, q + 1)) >= 0.95)
    noisy = np.array([5, -3])
    columns = uncertainty_columns(noisy, DiscreteLaplace(scale, (1,)), np.array([False, True]))
    assert columns["variance"] == pytest.approx(sum(x * x * p for x, p in mass.items()))
    assert columns["lower"].tolist() == [5 - half, -3 - half]
    assert columns["upper"].tolist() == [5 + half, -3 + half]
    assert columns["structural_zero"].tolist() == [False, True]


def meaning(about: Contract, **refine: object) -> Meaning:
    terms = {"kind": "tables", "mechanism": "laplace", "tables": [["a", "b"]], "refine": refine}
    return Meaning(about, TablesProduct.model_validate(terms))


def again(noisy: list[int], about: Contract, total: int | None, **refine: object) -> Refined:
    values = np.array(noisy, dtype=np.int64)
    return refined_again([values], AB, meaning(about, **refine), total=total, events=[EVENT])


def test_refinement_keeps_the_total_and_the_structural_zeros():
    zero = contract(structural_zeros=[{"a": ["y"], "b": ["q"]}])
    noisy = [4, 9, 3, 50, -6, 2]
    counts = again(noisy, zero, 20, method="simplex").values.reshape(-1)
    assert counts.sum() == 20
    assert counts[3] == 0
    assert counts.min() >= 0
    assert again(noisy, zero, None, method="none").values.reshape(-1).tolist() == [4, 9, 3, 0, -6, 2]
    shrunk = again(noisy, contract(), 20, method="negative_l2", **{"lambda": "0.5"}, integers=False).values
    assert shrunk.sum() == pytest.approx(20)


EXTREME = [2**63 - 1, -(2**63), 2**62, -1, 0, 5]


@pytest.mark.parametrize(
    ("refine", "total", "noisy"),
    [
        ({"method": "simplex"}, None, [1] * 6),
        ({"method": "neighbourhood"}, 5, [1] * 6),
        ({"method": "negative_l2", "lambda": "auto"}, 1, EXTREME),
        ({"method": "negative_l2", "sparsity": "0.5"}, 1, EXTREME),
        ({"method": "empirical_bayes"}, 5, EXTREME),
        ({"method": "auto"}, 5, EXTREME),
    ],
)
def test_what_cannot_be_refined_is_a_value_error(refine: dict[str, object], total: int | None, noisy: list[int]):
    with pytest.raises(ValueError, match=r"."):
        again(noisy, contract(), total, **refine)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"method": "simplex"}, "method"),
        ({"lambda": "0.5"}, "lambda"),
        ({"lambda": None}, "lambda"),
        ({"chosen": None}, "chosen"),
        ({"chosen": {"of": "lambda", "by": "sparsity"}}, "chosen"),
        ({"estimated_rmse": {}}, "estimated_rmse"),
        ({"estimated_rmse": {"negative_l2": "0.1"}}, "estimated_rmse of negative_l2"),
        ({"total": 41}, "total"),
        ({"notes": ["all counts are exact"]}, "notes"),
        ({"suppressed": 0}, "suppressed"),
    ],
)
def test_a_choice_is_made_again_and_another_one_is_found(changed: dict[str, object], says: str):
    made = again([9, 1, -2, 30, 0, 4], contract(), 40, method="negative_l2", **{"lambda": "auto"})
    error = f"{made.estimated_rmse['negative_l2']:.6g}"
    stated = {
        "method": "negative_l2",
        "lambda": str(made.lambda_),
        "chosen": {"of": "lambda", "by": "auto"},
        "estimated_rmse": {"negative_l2": error},
        "total": 40,
    }
    assert check_choice(table(**stated), made, where="record.json") == []
    (finding,) = check_choice(table(**{**stated, **changed}), made, where="record.json")
    assert says in finding.field


def test_the_sign_of_zero_is_a_difference():
    """0 and -0 are equal as numbers; a bit that nobody compares could tell of a row."""
    found, expected = np.array([1.0, -0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    difference = first_difference(found, expected)
    assert difference is not None
    assert (difference.row, difference.count) == (2, 1)
    assert first_difference(found, found) is None
    assert first_difference(np.array([0, 5]), np.array([0, 5])) is None
