"""Pairs of synthetic rows with joined bins over those with declared bins, and what a larger share takes from them.

Rows and contract are those of `_synthetic_values`. With joined bins a share of the charge counts and adds up all nine
columns of numbers. Errors are the mean L1 distance of all pairs of declared cells over the number of rows. Beside
them stand the root mean square errors of the means of age and income.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._synthetic_bench import ratio_of_means
from benchmarks._synthetic_data import ACS_ROWS
from benchmarks._synthetic_values import (
    ACS_CONTRACT,
    COLUMNS,
    EPSILON,
    VALUES_DELTA,
    Numbers,
    _exact,
    _fitted,
    _numbers,
    _taken_in,
    _three,
)
from benchmarks.results import Row, Setting, machine
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.contract.odcs import load_contract
from contracts.release.synthetic import SyntheticProduct
from privacy.generators.generator import Model
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource

DECLARED: Final = "declared"
SHARES: Final = ("0.1", "0.2", "0.4", "0.6")
JOINED_SEEDS: Final = {"mst": {**dict.fromkeys(SHARES, 4), DECLARED: 2}}
"""How many, of each way and share. With declared bins a fit takes many times as long."""


def pairs_of_joined(data: Path, kept: Path, method: str) -> list[Row]:
    """Measure the pairs of a generator with declared and with joined bins, at several shares.

    Args:
        data: holds nist_acs/.
        kept: where what is measured is kept.
        method: the generator.
    """
    contract, seeds = load_contract(ACS_CONTRACT), JOINED_SEEDS[method]
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = _taken_in(folder, data, contract, _product(method, SHARES[0]))
        exact = _exact(folder, contract)
        truth = np.array([_three(exact[column])[0] for column in COLUMNS])
        real = _pairs(table, contract)

        def measured(share: str, seed: int) -> dict[str, Any]:
            path = kept / f"joined-{method}-{share}-{seed}.json"
            if not path.exists():
                model = _fitted(folder, contract, table, _product(method, share), seed)
                path.write_text(json.dumps(_errors(model, contract, real, seed)))
            return dict(json.loads(path.read_text()))

        found = {share: [measured(share, seed) for seed in range(1, count + 1)] for share, count in seeds.items()}
    errors = {share: [each["pairs"] for each in several] for share, several in found.items()}
    means = {
        share: np.sqrt(np.mean((np.array([each["means"] for each in several]) - truth) ** 2, axis=0))
        for share, several in found.items()
    }
    return [_row(method, share, errors, means) for share in SHARES]


def _row(method: str, share: str, errors: dict[str, list[float]], means: dict[str, NDArray[np.float64]]) -> Row:
    """Compare the pairs at a share with those with declared bins."""
    ratio, error = ratio_of_means(errors[share], errors[DECLARED])
    settings: dict[str, Setting] = {
        "epsilon": str(EPSILON),
        "delta": str(VALUES_DELTA),
        "rows": ACS_ROWS,
        "ratio_se": round(error, 3),
        **machine("sudare", "numpy", "duckdb"),
    }
    for name, way in (("joined", share), (DECLARED, DECLARED)):
        settings |= {f"seeds_{name}": len(errors[way]), f"pairs_{name}": [round(each, 4) for each in errors[way]]}
        of_means = zip(COLUMNS, means[way], strict=True)
        settings |= {f"error_of_mean_{column}_{name}": round(float(one), 3) for column, one in of_means}
    what = f"acs, {method}, 24 columns, bins joined with share {share}: error of pairs over that with declared bins"
    return Row(what, round(ratio, 3), "ratio", settings=settings)


def _product(method: str, share: str) -> SyntheticProduct:
    joined = {} if share == DECLARED else {"bins": "private", "inside_bins": {"share": share}}
    return SyntheticProduct.model_validate({"kind": "synthetic", "generator": method, **joined})


def _errors(model: Model, contract: Contract, real: dict[Clique, Numbers], seed: int) -> dict[str, Any]:
    """Sample; return the mean error of a pair, and the means of age and income."""
    codes = model.sample(model.rows, seed=seed)
    errors = [np.abs(_counted(model, codes, pair) - cells).sum() / cells.sum() for pair, cells in real.items()]
    return {"pairs": float(np.mean(errors)), "means": _numbers(model, contract, seed)[:, 0].tolist()}


def _pairs(table: PrivateTable, contract: Contract) -> dict[Clique, Numbers]:
    """Return the exact counts of all pairs."""
    pairs = list(combinations([column.name for column in contract.columns], 2))
    handles = SnapshotSource(table, contract).marginals(pairs)
    return {pair: handle._count().reshape(-1).astype(np.float64) for pair, handle in zip(pairs, handles, strict=True)}


def _counted(model: Model, codes: NDArray[np.int32], pair: Clique) -> Numbers:
    """Return the counts of a pair among rows of codes."""
    (first, other), shape = (model.domain.columns.index(name) for name in pair), model.domain.shape
    cells = codes[:, first].astype(np.int64) * shape[other] + codes[:, other]
    return np.bincount(cells, minlength=shape[first] * shape[other]).astype(np.float64)
