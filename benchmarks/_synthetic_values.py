"""Values of synthetic rows as numbers: means, medians and 0.9-quantiles beside a direct release of these six numbers.

Rows of NIST's excerpt of the American Community Survey, 24 columns by the contract of `examples/acs`. The direct
release spends all of the same charge on age and income alone: a noisy mean and a noisy tree of counts for each, with
a quarter of the zCDP budget, by the estimators of `kind: statistics`. Errors are root mean squares over the seeds.

    joined      `bins: private`, a part of the charge for age and income: what the target is held against
    measured    `inside_bins: measured`, a tenth of the charge for all nine columns of numbers
    uniform     values of a bin are equally likely
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from benchmarks._synthetic_data import ACS_FILE, ACS_ROWS, SEED
from benchmarks._synthetic_ours import KEY, Wanted, _grant
from benchmarks.results import Row, Setting, machine
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.lattice import ValueLattice, usual_step
from contracts.domains.trees import ValueTree, usual_resolution
from contracts.release.spec import Source
from contracts.release.synthetic import SyntheticProduct
from privacy.accounting.renyi import rho_for
from privacy.generators.calibration import generator, plan_synthetic
from privacy.generators.generator import Model
from privacy.generators.inside_bins import with_inside
from privacy.generators.rows import read_model, synthetic_rows
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource
from privacy.statistics.quantiles import estimate_quantiles
from tasks.ingest import ingest

ACS_CONTRACT: Final = Path(__file__).parents[1] / "examples" / "acs" / "acs.contract.yaml"
COLUMNS: Final = ("AGEP", "PINCP")
EPSILON: Final = Decimal(1)
VALUES_DELTA: Final = Decimal("1e-9")
SHARE: Final = "0.6"
"""Of the charge, for age and income, with joined bins."""
SEEDS: Final = {"independent": {"joined": 24, "measured": 8, "uniform": 8}, "mst": {"joined": 24}}
"""How many, of each way. A tree of pairs over 24 columns with their declared bins takes a minute and more to fit."""
DIRECT_SEEDS: Final = 100
AT_MOST: Final = 1.5
STATISTICS: Final = ("mean", "median", "0.9-quantile")
Numbers = NDArray[np.float64]


def values_as_numbers(data: Path, method: str) -> list[Row]:
    """Measure the errors of a generator's values over a direct release's: with joined bins, and in other ways.

    Args:
        data: holds nist_acs/.
        method: the generator.
    """
    truth, errors, noise = _measured(data, method)
    seeds = SEEDS[method]
    common: dict[str, Setting] = {
        "epsilon": str(EPSILON),
        "delta": str(VALUES_DELTA),
        "rows": ACS_ROWS,
        "share": SHARE,
        "seeds": seeds["joined"],
        "seeds_direct": DIRECT_SEEDS,
        **{f"seeds_{way}": count for way, count in seeds.items() if way != "joined"},
    }
    return [
        _row(
            f"acs, {method}, 24 columns: error of the {STATISTICS[at[1]]} of {COLUMNS[at[0]]}",
            {way: float(found[at]) for way, found in errors.items()},
            float(noise[at]),
            common | {"exact": float(truth[at])},
        )
        for at in np.ndindex(truth.shape)
    ]


def _measured(data: Path, method: str) -> tuple[Numbers, dict[str, Numbers], Numbers]:
    """Return the exact numbers, the error of each way, and that of a direct release, shape (columns, statistics)."""
    contract, seeds = load_contract(ACS_CONTRACT), SEEDS[method]
    numbers = range(1, DIRECT_SEEDS + 1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        # Of all columns of numbers, so that the three ways read one table.
        table = _taken_in(folder, data, contract, _product(method, "measured"))
        exact = _exact(folder, contract)
        truth = np.array([_three(exact[column]) for column in COLUMNS])
        made = {
            way: np.array(
                [_made(folder, contract, table, _product(method, way), seed) for seed in range(1, count + 1)]
            )
            for way, count in seeds.items()
        }
    direct = np.array([[_direct(exact[each], contract, each, seed) for each in COLUMNS] for seed in numbers])
    errors = {way: _root_mean_square(found - truth) for way, found in made.items()}
    return truth, errors, _root_mean_square(direct - truth)


def _row(what: str, errors: Mapping[str, float], direct: float, settings: dict[str, Setting]) -> Row:
    """Hold the error with joined bins against that of a direct release.

    Args:
        what: what is off.
        errors: by way.
        direct: of the direct release.
        settings: what was measured, without the errors.
    """
    settings |= {f"error_{way}": round(found, 3) for way, found in errors.items()}
    settings |= {"error_direct": round(direct, 3), **machine("sudare", "numpy", "duckdb")}
    # A direct median of whole years may be exact in every seed: then the ratio has no meaning.
    ratio = errors["joined"] / direct if direct > 0 else None
    holds = errors["joined"] == 0 if ratio is None else ratio <= AT_MOST
    # Each root mean square of k errors is known to 1 / sqrt(2 k) of itself.
    relative = sqrt(1 / (2 * int(str(settings["seeds"]))) + 1 / (2 * DIRECT_SEEDS))
    settings["standard_error"] = None if ratio is None else round(ratio * relative, 3)
    rounded = None if ratio is None else round(ratio, 2)
    what = f"{what} over that of a direct release"
    return Row(what, rounded, "ratio", target=AT_MOST, holds=holds, settings=settings)


def _product(method: str, way: str) -> SyntheticProduct:
    joined = {"bins": "private", "inside_bins": {"share": SHARE, "columns": list(COLUMNS)}}
    asked = joined if way == "joined" else {"inside_bins": way}
    return SyntheticProduct.model_validate({"kind": "synthetic", "generator": method, **asked})


def _taken_in(folder: Path, data: Path, contract: Contract, product: SyntheticProduct) -> PrivateTable:
    """Write a sample of the rows, and take it in with the offsets that counts inside bins need."""
    with gzip.open(data / ACS_FILE, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    drawn = np.random.default_rng(SEED).permutation(len(rows))[:ACS_ROWS]
    with (folder / "acs.csv").open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows[place] for place in drawn)
    source = Source(path=folder / "acs.csv")
    terms: dict[str, Any] = {"folder": folder / "run", "key": KEY, "memory_limit": "1GB"}
    return ingest(source, contract, lattices=product.lattices(contract), **terms)


def _exact(folder: Path, contract: Contract) -> dict[str, Numbers]:
    """Return the values of each column, clipped to its bounds, missing ones left out."""
    table = pl.read_csv(folder / "acs.csv", infer_schema=False)
    found = {}
    for column in COLUMNS:
        low, high = map(float, contract.column(column).domain.value_bounds or (0, 0))
        values = table[column].cast(pl.Float64, strict=False).drop_nulls().to_numpy()
        found[column] = np.clip(values, low, high)
    return found


def _made(folder: Path, contract: Contract, table: PrivateTable, product: SyntheticProduct, seed: int) -> Numbers:
    """Fit, sample and decode; return mean, median and 0.9-quantile of each column."""
    return _numbers(_fitted(folder, contract, table, product, seed), contract, seed)


def _fitted(folder: Path, contract: Contract, table: PrivateTable, product: SyntheticProduct, seed: int) -> Model:
    """Plan, charge and fit; return the model as it is published."""
    made = generator(product.generator)
    plan = plan_synthetic(product, contract, made.options(), epsilon=EPSILON, delta=VALUES_DELTA)
    wanted = replace(_WANTED, method=product.generator, seed=seed)
    with TemporaryDirectory(dir=folder) as own:
        grant = _grant(Path(own), contract, table, plan.events, wanted)
        source = SnapshotSource(table, contract)
        whole = with_inside(made, plan.task)
        fitted = whole.fit(plan.task, plan.options, plan.plan, source, grant, lambda done, what: None, no_seed)
    return read_model(fitted.model.kind, *fitted.model.to_arrays())


def _numbers(model: Model, contract: Contract, seed: int) -> Numbers:
    """Sample and decode; return mean, median and 0.9-quantile of each column."""
    (piece,) = synthetic_rows(model, contract, PostProcessingSeed(seed), model.rows)
    by_name = {each.form.name: each for each in piece}
    return np.array([_three(by_name[column].numbers[~by_name[column].missing]) for column in COLUMNS])


_WANTED: Final = Wanted("", {}, EPSILON, VALUES_DELTA, "add_remove", 0)


def _three(values: NDArray[Any]) -> Numbers:
    """Return mean, median and 0.9-quantile."""
    ranked = [np.quantile(values, share, method="inverted_cdf") for share in (0.5, 0.9)]
    return np.array([values.mean(), *ranked], dtype=np.float64)


def _direct(values: Numbers, contract: Contract, column: str, seed: int) -> Numbers:
    """Release the same three numbers of a column directly, with half of the budget: a mean and a tree of counts."""
    domain = contract.column(column).domain
    bounds = domain.value_bounds or (Decimal(0), Decimal(1))
    lattice = ValueLattice(column, *bounds, usual_step(*bounds, decimals=domain.decimals), counts_missing=False)
    part = GaussianNoise(rho_for(Fraction(EPSILON), Fraction(VALUES_DELTA)) / (2 * len(COLUMNS)))
    source = SampledNoise(SeededBytes(10**6 * (1 + COLUMNS.index(column)) + seed))
    offsets = np.rint((values - float(lattice.low)) / float(lattice.step)).astype(np.int64)
    parts = np.array([offsets.sum(), (lattice.width - offsets).sum()])
    event = cell_sum_event(part, lattice, adjacency="add_remove", rows_per_unit=1)
    above, below = parts + source.integers(2, event=event)
    share = min(1.0, max(0.0, above / (above + below)))
    tree = ValueTree(lattice, usual_resolution(lattice))
    of_tree = cell_sum_event(part, tree, adjacency="add_remove", rows_per_unit=1)
    firsts = [tree.first(leaf) for leaf in range(tree.leaves)]
    leaves = np.bincount(np.searchsorted(firsts, offsets, side="right") - 1, minlength=tree.leaves)
    nodes = [np.add.reduceat(leaves, np.arange(0, tree.leaves, size)) for size in tree.level_leaves]
    counts = np.concatenate(nodes).astype(np.int64)
    noisy = counts + source.integers(counts.size, event=of_tree)
    shares = (Decimal("0.5"), Decimal("0.9"))
    ranked = estimate_quantiles(noisy[None, :], tree, shares, event=of_tree, confidence=0.95)
    mean = float(lattice.low) + share * lattice.width * float(lattice.step)
    return np.array([mean, *(float(each.values[0]) for each in ranked)])


def _root_mean_square(errors: Numbers) -> Numbers:
    return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))
