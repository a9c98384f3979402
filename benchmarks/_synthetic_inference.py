"""Intervals of regressions from synthetic versions alone: how often they hold the coefficient of the exact table.

9,000 rows of NIST's excerpt of the American Community Survey, 24 columns by the contract of `examples/acs`. The
regressions below were written before any was looked at. `fixed` lists their pairs; `mst` and `aim` choose what they
measure. The target is the exact table's own coefficient, numbers in the middles of their bins. Five intervals:

    noisy marginals    `privacy.inference.least_squares`, of coefficients whose pairs were all measured
    unmeasured         the same where the model stands for some pair; the program refuses it, here it is scored
    copies             `privacy.inference.combining`, of the same regression on the rows of each copy
    Rubin              the mean of the copies; within + (1 + 1/m) between
    one table          the classical interval of one table of synthetic rows, as if it were a sample
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb
import numpy as np
from scipy.special import stdtrit

from benchmarks._synthetic_data import ACS_ROWS
from benchmarks._synthetic_ours import _grant
from benchmarks._synthetic_values import _WANTED, ACS_CONTRACT, EPSILON, VALUES_DELTA, _taken_in
from benchmarks.results import Row, Setting, machine
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.synthetic import SyntheticProduct
from privacy.generators.calibration import generator, plan_synthetic, whole_fitter
from privacy.generators.copied_model import copies_of
from privacy.generators.fitting import released_counts
from privacy.inference.combining import combined
from privacy.inference.components import Components
from privacy.inference.least_squares import NoiseTooLarge, Term, least_squares
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.products.synthetic.formula import parse_formula

REGRESSIONS: Final = (
    "PINCP ~ AGEP + SEX[female] + EDU[bachelor] + DPHY[yes]",
    "OWN_RENT[owned] ~ AGEP + HISP[not Hispanic] + DPHY[yes]",
    "DPHY[yes] ~ AGEP + SEX[female]",
    "PINCP_DECILE[9] ~ AGEP + SEX[female] + MSP[married, together]",
)
MISSING: Final = {"AGEP": 0.0, "PINCP": 0.0}
"""Income is not asked of children; each has an age."""
RELEASES: Final = {"fixed": 20, "mst": 20, "aim": 4}
COPIES: Final = {"fixed": 10, "mst": 0, "aim": 0}
LEAST: Final = 0.93
LEVEL: Final = 0.95
_NORMAL: Final = 1.959964
_Regression = tuple[Term, tuple[Term, ...]]
_Found = tuple[np.ndarray, np.ndarray]


def intervals(data: Path, kept: Path, method: str) -> list[Row]:
    """Measure how often intervals hold, over all coefficients and releases of a generator.

    Args:
        data: holds nist_acs/.
        kept: a folder where releases are kept, and taken from.
        method: the generator.
    """
    contract = load_contract(ACS_CONTRACT)
    names = tuple(column.name for column in contract.columns)
    regressions = [parse_formula(each, contract, names, missing=MISSING) for each in REGRESSIONS]
    product = _product(method, names, regressions)
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = _taken_in(folder, data, contract, product)
        truth = [_on_rows(_codes(table, names), names, each)[0] for each in regressions]
        releases = []
        for seed in range(1, RELEASES[method] + 1):
            file = kept / f"inference-{method}-{EPSILON}-{COPIES[method]}-{seed}.json"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                made = _release(folder, contract, table, product, names, regressions, seed)
                file.write_text(json.dumps(made))
            releases.append(json.loads(file.read_text()))
    held: dict[str, list[list[bool]]] = {}
    for release in releases:
        for name, hits in {**_by_marginals(release, truth), **_by_copies(release, np.concatenate(truth))}.items():
            held.setdefault(name, []).append(hits)
    return [_row(method, name, shares) for name, shares in held.items()]


def _row(method: str, name: str, held: Sequence[Sequence[bool]]) -> Row:
    """Give the share of intervals that hold; its standard error is between releases: coefficients go together."""
    shares = np.array([np.mean(hits) for hits in held if hits])
    number = sum(map(len, held))
    ours = name in ("noisy marginals", "copies")
    what = f"acs, {method}: 95 % intervals of coefficients that hold, {name}"
    settings: dict[str, Setting] = {
        "epsilon": str(EPSILON),
        "delta": str(VALUES_DELTA),
        "rows": ACS_ROWS,
        "releases": len(held),
        "coefficients": number,
        "copies": COPIES[method],
        "level": LEVEL,
        "regressions": list(REGRESSIONS),
        **machine("sudare", "numpy", "duckdb"),
    }
    if not number:
        settings["why"] = "no coefficient of these has all its pairs measured"
        return Row(what, None, "share", settings=settings)
    measured = float(np.mean(np.concatenate([np.asarray(hits, dtype=float) for hits in held])))
    if len(shares) > 1:
        settings["standard_error"] = round(float(shares.std(ddof=1) / np.sqrt(len(shares))), 4)
    holds = bool(measured >= LEAST) if ours else None
    return Row(what, round(measured, 4), "share", target=LEAST if ours else None, holds=holds, settings=settings)


def _product(method: str, names: Sequence[str], regressions: Sequence[_Regression]) -> SyntheticProduct:
    """List the pairs of the regressions, and each column that is in none, for `fixed`."""
    options: dict[str, Any] = {}
    if method == "fixed":
        columns = [[each.column for each in (outcome, *terms)] for outcome, terms in regressions]
        pairs = {tuple(sorted(pair, key=names.index)) for each in columns for pair in combinations(each, 2)}
        used = {name for pair in pairs for name in pair}
        options = {"cliques": [*map(list, sorted(pairs)), *([name] for name in names if name not in used)]}
    copies = {"copies": COPIES[method]} if COPIES[method] else {}
    return SyntheticProduct.model_validate({"kind": "synthetic", "generator": method, "options": options, **copies})


def _release(
    folder: Path,
    contract: Contract,
    table: PrivateTable,
    product: SyntheticProduct,
    names: Sequence[str],
    regressions: Sequence[_Regression],
    seed: int,
) -> dict[str, Any]:
    """Plan, charge and fit; return what each regression finds in noisy marginals, and in the rows of each model."""
    made = generator(product.generator)
    options = made.options.model_validate(product.options)
    plan = plan_synthetic(product, contract, options, epsilon=EPSILON, delta=VALUES_DELTA)
    with TemporaryDirectory(dir=folder) as own:
        wanted = replace(_WANTED, method=product.generator, seed=seed)
        grant = _grant(Path(own), contract, table, plan.events, wanted)
        source, whole = SnapshotSource(table, contract), whole_fitter(made, plan.task)
        public = PostProcessingSeed(seed)
        terms = plan.task, plan.options, plan.plan, source, grant, lambda done, what: None, lambda: public
        fitted = whole.fit(*terms)
    model, domain = fitted.model, CellDomain.of(contract, names)
    known = Components(domain, released_counts(fitted.measurements), total=None, model=model.marginal)
    models = [getattr(model, "first", model), *copies_of(model)]
    rows = [each.sample(model.rows, seed=1000 * seed + place) for place, each in enumerate(models)]
    return {
        "direct": [_from_marginals(known, each) for each in regressions],
        "rows": [
            [[numbers.tolist() for numbers in _on_rows(codes, names, each)] for each in regressions] for codes in rows
        ],
    }


def _from_marginals(known: Components, regression: _Regression) -> list[tuple[float, float, float, int]] | None:
    """Return estimate, variances and the number of unmeasured pairs of each coefficient; None where it is refused."""
    try:
        found = least_squares(known, *regression)
    except NoiseTooLarge:
        return None
    return [(each.estimate, each.noise_variance, each.sampling_variance, len(each.unmeasured)) for each in found]


def _codes(table: PrivateTable, names: Sequence[str]) -> np.ndarray:
    columns = ", ".join(f'"{name}"' for name in names)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        found: Mapping[str, Any] = connection.execute(f"SELECT {columns} FROM codes").fetchnumpy()
    return np.stack([np.asarray(values) for values in found.values()], axis=1)


def _on_rows(codes: np.ndarray, names: Sequence[str], regression: _Regression) -> _Found:
    """Return the coefficients of rows, and their classical variances."""
    outcome, terms = regression
    columns = [term.scores[codes[:, names.index(term.column)]] for term in (*terms, outcome)]
    design = np.column_stack([np.ones(len(codes)), *columns[:-1]])
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ design.T @ columns[-1]
    residual = columns[-1] - design @ found
    return found, residual @ residual / (len(codes) - design.shape[1]) * np.diag(inverse)


def _by_marginals(release: Mapping[str, Any], truth: Sequence[np.ndarray]) -> dict[str, list[bool]]:
    """Say which intervals of noisy marginals hold."""
    held: dict[str, list[bool]] = {"noisy marginals": [], "unmeasured pairs": []}
    for found, exact in zip(release["direct"], truth, strict=True):
        for coefficient, (estimate, noise, _, unmeasured) in enumerate(found or ()):
            name = "unmeasured pairs" if unmeasured else "noisy marginals"
            held[name].append(abs(estimate - exact[coefficient]) <= _NORMAL * noise**0.5)
    return held


def _by_copies(release: Mapping[str, Any], truth: np.ndarray) -> dict[str, list[bool]]:
    """Say which intervals of copies and of one table hold."""
    rows = [[np.concatenate(numbers) for numbers in zip(*each, strict=True)] for each in release["rows"]]
    (first, within), copies = rows[0], rows[1:]
    held = {"one table": (np.abs(first - truth) <= _NORMAL * np.sqrt(within)).tolist()}
    if not copies:
        return held
    values, variances = (np.array([each[place] for each in copies]) for place in (0, 1))
    number = len(copies)
    ours = []
    for place, exact in enumerate(truth):
        terms = float(first[place]), values[:, place].tolist(), variances[:, place].tolist()
        found = combined(*terms, target="table", level=LEVEL, rows_ratio=1.0)
        ours.append(found.lower <= exact <= found.upper)
    total = variances.mean(axis=0) + (1 + 1 / number) * values.var(axis=0, ddof=1)
    width = float(stdtrit(number - 1, 0.5 + LEVEL / 2)) * np.sqrt(total)
    return {**held, "copies": ours, "Rubin": (np.abs(values.mean(axis=0) - truth) <= width).tolist()}
