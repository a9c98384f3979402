"""The plan of a tables release: which marginals are measured, and what share of the budget each gets.

A function of the spec and the contract alone: it reads no data, so that it can be made, shown and charged before
anything private is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, prod
from typing import TYPE_CHECKING

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.product import AUTO
from contracts.release.spec import ReleaseSpec, TableSpec, TablesProduct
from contracts.release.tables.levels import Level, levels_of, table_cells
from contracts.release.tables.tables import RESIDUALS, MinimumFrequency, Refine, form_of_table, tables_of
from contracts.release.tables.tables import TableSpec as TableSpec_of_sparse_plan
from contracts.release.tables.tables import TablesProduct as TablesProduct_of_sparse_plan
from privacy.accounting.amounts import ATTO, AmountRefused, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.counts import Coarsening, coarsening
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, NoiseKind, noise_event
from privacy.refine.sparse_depth import Depth, depth_of, expected_false_hits
from privacy.refine.tables import draws_total
from privacy.table_plans.split import (
    kept_public_total,
    level_shares,
    optimal_shares,
    shares_by_weight,
    weighted_rmse,
    whole_parts,
)

if TYPE_CHECKING:
    from privacy.table_plans.residual_plan import ResidualPlan


# --- The plan of a sparse table.


@dataclass(frozen=True)
class SparsePlan:
    """How a table is drawn of which only the cells at or above a threshold are listed.

    Args:
        refine: the refinement; it says how far down the cells must be known.
        cells: cells of the declared domain.
        inverse_scale: of the noise [1 / unit].
        impossible: the declared structural zeros.
    """

    refine: Refine
    cells: int
    inverse_scale: Fraction
    impossible: ImpossibleCells

    def depth(self, total: int | None) -> Depth:
        """Return how far down the table is drawn, given the total, noisy or declared public [units]."""
        scale, impossible = self.inverse_scale, self.impossible
        return depth_of(self.refine, cells=self.cells, inverse_scale=scale, total=total, impossible=impossible)

    @property
    def thresholds(self) -> tuple[int, int]:
        """The first threshold, and the least one to which it may be lowered [units]."""
        depth = self.depth(0)
        return depth.first, depth.least

    @property
    def expected_rows(self) -> int:
        """Empty cells that are expected at or above the first threshold, rounded up; populated ones come on top."""
        return ceil(expected_false_hits(self.cells, self.inverse_scale, self.thresholds[0]))


def sparse_plan(
    table: TableSpec_of_sparse_plan, product: TablesProduct_of_sparse_plan, contract: Contract, event: CountNoise
) -> SparsePlan | None:
    """Return how a table is listed; None for a dense one.

    Args:
        table: a table of the product.
        product: says how it is refined.
        contract: gives the domain and its structural zeros.
        event: the noise of the table.
    Raises:
        ValueError: a sparse table with noise other than discrete Laplace.
    Privacy: reads no data.
    """
    if form_of_table(table, product, contract) == "dense":
        return None
    if not isinstance(event, DiscreteLaplace):
        raise ValueError(f"table {table.name!r} is sparse: its noise must be discrete Laplace, not {event.kind}")
    impossible = ImpossibleCells.of(contract, table.columns)
    return SparsePlan(product.refine, contract.cells(table.columns), event.inverse_scale, impossible)


TOTAL_KEY = "total"
TOTAL_SHARE = Fraction(1, 20)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class PlannedDraw:
    """One measurement that the release will ask its grant for.

    Args:
        key: name of the draw inside the run.
        clique: columns of the marginal; empty for the total.
        cells: cells of the declared domain.
        share: share of the release's budget.
        noise: kind of noise and its cost.
        event: the event it will be, sensitivity and scale included.
        variance: variance of the noise in one cell [units²].
        half_width: 95 % of noises lie within plus or minus this [units].
        coarsening: the coarser resolution that it measures of a table with a hierarchy.
        sparse: how the cells are listed; None where every cell has a value.
    """

    key: str
    clique: Clique
    cells: int
    share: Fraction
    noise: Noise
    event: CountNoise
    variance: float
    half_width: int
    coarsening: Coarsening | None = None
    sparse: SparsePlan | None = None


@dataclass(frozen=True)
class _PlannedDraw:
    """A draw before it has its part of the budget."""

    key: str
    clique: Clique
    share: Fraction
    coarsening: Coarsening | None = None


@dataclass(frozen=True)
class TablesPlan:
    """All measurements of a release, with what they cost together.

    Args:
        draws: in the order in which they are drawn.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        public_total: the declared public total, when the tables keep it.
        mechanism: the kind of noise of every draw.
        expected_rmse: expected root mean square error over all cells, each with its table's weight, unrefined, of
            each kind of noise that was weighed; of one where the spec names it or no other may be used [units].
        minimum_frequency: the rule under which small noisy counts are suppressed, if there is one.
        residuals: what is measured in the place of marginals; `draws` is then that one draw.
        derived: the noise of each table that follows from residuals, by the key that a draw of it would have, and of
            the total; none of them is drawn or charged.
        optimum_ratio: of tables that are measured one by one, `over_optimum`.
        over_bound: `over_optimum` is over a bound below the least, which is not known.
    """

    draws: tuple[PlannedDraw, ...]
    epsilon: int
    delta: int
    public_total: int | None
    mechanism: NoiseKind
    expected_rmse: Mapping[NoiseKind, float]
    minimum_frequency: MinimumFrequency | None = None
    residuals: ResidualPlan | None = None
    derived: tuple[PlannedDraw, ...] = ()
    optimum_ratio: float | None = None
    over_bound: bool = False

    @property
    def events(self) -> tuple[CountNoise, ...]:
        """The events of the draws, in order."""
        return tuple(draw.event for draw in self.draws)

    @property
    def noise_epsilon(self) -> None:
        """The noise is planned for the spec's own epsilon."""
        return None

    @property
    def measured(self) -> tuple[PlannedDraw, ...]:
        """Noisy counts with their noise: those that are drawn, or those that follow from residuals."""
        return self.derived or self.draws

    @property
    def cells(self) -> int:
        """Cells of all tables together."""
        return sum(draw.cells for draw in self.measured)

    @property
    def over_optimum(self) -> float | None:
        """Expected squared error over the least of any linear measurement with that noise; None where unknown."""
        return self.optimum_ratio if self.residuals is None else self.residuals.over_optimum

    def draw(self, key: str) -> PlannedDraw:
        """Return the draw of that key, or the table that follows from residuals."""
        return next(draw for draw in (*self.draws, *self.derived) if draw.key == key)


def plan_tables(spec: ReleaseSpec, contract: Contract, *, pure_account: bool = False) -> TablesPlan:
    """Split the charge of a tables release over its marginals.

    Each table gets its share (`split`). A total is drawn where a sparse table is refined, which has no sum of its own
    (`refine.total`), and gets a twentieth first. Shares are rounded down, so that together they never cost more than
    the charge.

    Args:
        spec: release of kind `tables`.
        contract: its contract.
        pure_account: some account that pays is pure, so that `mechanism: auto` may not take Gaussian noise.
    Returns:
        TablesPlan: data-free.
    Raises:
        SpecRefused: a short form of tables cannot be written out over the contract.
    Privacy: reads no data; the composed ε of the events is at most the spec's.
    """
    charge = spec.charge
    return plan_product(
        spec.tables_product,
        contract,
        epsilon=charge.epsilon,
        delta=charge.delta,
        pure_account=pure_account,
        with_total=draws_total(spec.tables_product, contract),
    )


def plan_product(
    product: TablesProduct,
    contract: Contract,
    *,
    epsilon: Decimal,
    delta: Decimal,
    pure_account: bool,
    with_total: bool,
) -> TablesPlan:
    """Plan a product under a charge, with or without a total; the rest as for `plan_tables`.

    `mechanism: auto` takes the noise whose expected weighted error is less (`split.weighted_rmse`); Laplace where
    both are alike, where delta is 0, where an account is pure, where a table is sparse, or where no rho fits under
    epsilon. Residuals have Gaussian noise: the error of Laplace noise, for comparison, is that of `split: optimal`.
    """
    tables = tables_of(product, contract)
    allowed = _allowed(product, tables, contract, epsilon, delta, pure_account)
    plans = {noise: _plan(product, tables, contract, noise, epsilon, delta, with_total) for noise in allowed}
    errors = {noise: plan.expected_rmse[noise] for noise, plan in plans.items()}
    best = min(plans, key=lambda noise: (errors[noise], noise != "laplace"))
    if product.split == RESIDUALS and product.mechanism == AUTO:
        apart = product.model_copy(update={"split": "optimal"})
        errors |= _plan(apart, tables, contract, "laplace", epsilon, delta, with_total).expected_rmse
    bound = best == "laplace" or contract.adjacency == "replace_one"
    return replace(plans[best], expected_rmse=errors, over_bound=bound)


def _allowed(
    product: TablesProduct,
    tables: Sequence[TableSpec],
    contract: Contract,
    epsilon: Decimal,
    delta: Decimal,
    pure_account: bool,
) -> tuple[NoiseKind, ...]:
    """Return the kinds of noise that may be used."""
    if product.noise_is_gaussian:
        return ("gaussian",)
    if product.mechanism != AUTO:
        return (product.mechanism,)
    if delta == 0 or pure_account or any(form_of_table(t, product, contract) == "sparse" for t in tables):
        return ("laplace",)
    try:
        rho_for(Fraction(epsilon), Fraction(delta))
    except AmountRefused:
        return ("laplace",)
    return ("laplace", "gaussian")


def _plan(
    product: TablesProduct,
    tables: Sequence[TableSpec],
    contract: Contract,
    mechanism: NoiseKind,
    epsilon: Decimal,
    delta: Decimal,
    with_total: bool,
) -> TablesPlan:
    """Plan the draws with one kind of noise."""
    if product.split == RESIDUALS:
        return _plan_residuals(product, tables, contract, epsilon, delta)
    keep = 1 - TOTAL_SHARE if with_total else Fraction(1)
    weights, cells = (
        [Fraction(table.weight) for table in tables],
        [table_cells(table, contract).cells(table.columns) for table in tables],
    )
    shares = optimal_shares(weights, cells, mechanism) if product.split == "optimal" else shares_by_weight(weights)
    wanted = [_PlannedDraw(TOTAL_KEY, (), TOTAL_SHARE)] if with_total else []
    for table, share in zip(tables, shares, strict=True):
        wanted += _resolutions(product, contract, mechanism, table, keep * share)
    amounts = whole_parts(_budget(mechanism, epsilon, delta), [each.share for each in wanted])
    draws = tuple(_planned(contract, mechanism, each, amount) for each, amount in zip(wanted, amounts, strict=True))
    events = [draw.event for draw in draws]
    specified = {f"table:{table.name}": table for table in tables}
    draws = tuple(
        replace(draw, sparse=sparse_plan(specified[draw.key], product, contract, draw.event))
        if draw.key in specified
        else draw
        for draw in draws
    )
    spent_delta = delta_down(delta) if mechanism == "gaussian" else 0
    spent = (
        loss_up(best_epsilon(events, Fraction(spent_delta, ATTO))[0]) if spent_delta else PureCalculus().cost(events)
    )
    public_total = kept_public_total(product, contract)
    by_key = {draw.key: draw.variance for draw in draws}
    variances = [by_key[table_key(table.name)] for table in tables]
    error = {mechanism: weighted_rmse(weights, cells, variances)}
    plan = TablesPlan(draws, spent, spent_delta, public_total, mechanism, error, product.minimum_frequency)
    coarser = any(table.hierarchy is not None or table.bins for table in tables)
    if coarser or any(draw.sparse is not None for draw in draws):
        return plan
    from privacy.marginals.residuals import over_least_error  # other plans do without

    squares = sum(float(w) * n * spread for w, n, spread in zip(weights, cells, variances, strict=True))
    budget = _budget(mechanism, epsilon, delta)
    noise: Noise = LaplaceNoise(budget) if mechanism == "laplace" else GaussianNoise(budget)
    return replace(plan, optimum_ratio=over_least_error(squares, tables, contract, noise, public_total=public_total))


def _plan_residuals(
    product: TablesProduct, tables: Sequence[TableSpec], contract: Contract, epsilon: Decimal, delta: Decimal
) -> TablesPlan:
    """Plan one draw of all residuals, and the noise of the tables that follow."""
    from privacy.table_plans.residual_plan import plan_residuals  # as above

    total = kept_public_total(product, contract)
    noise = GaussianNoise(_budget("gaussian", epsilon, delta))
    plan = plan_residuals(tables, contract, noise, objective=product.objective, public_total=total)
    spent_delta = delta_down(delta)
    spent = loss_up(best_epsilon([plan.event], Fraction(spent_delta, ATTO))[0])

    def noisy(key: str, columns: Clique, event: CountNoise, cells: int) -> PlannedDraw:
        width = half_width(event, CONFIDENCE)
        return PlannedDraw(key, columns, cells, Fraction(1), noise, event, variance(event), width)

    draw = noisy(RESIDUALS, (), plan.event, plan.cells)
    derived = [] if total is not None else [noisy(TOTAL_KEY, (), plan.table_noise(None), 1)]
    for table in tables:
        own = table_cells(table, contract).cells(table.columns)
        derived.append(noisy(table_key(table.name), table.columns, plan.table_noise(table), own))
    errors = {each.key: each.variance for each in derived}
    weights = [Fraction(table.weight) for table in tables]
    cells = [table_cells(table, contract).cells(table.columns) for table in tables]
    error = weighted_rmse(weights, cells, [errors[table_key(table.name)] for table in tables])
    return TablesPlan((draw,), spent, spent_delta, total, "gaussian", {"gaussian": error}, None, plan, tuple(derived))


def _budget(mechanism: NoiseKind, epsilon: Decimal, delta: Decimal) -> Fraction:
    """Return what is split: ε for Laplace noise, ρ for Gaussian noise."""
    if mechanism == "laplace":
        return Fraction(epsilon)
    return rho_for(Fraction(epsilon), Fraction(delta))


def table_key(table: str, level: str | None = None) -> str:
    """Name the draw of a table, or of a coarser level of it."""
    return f"table:{table}" if level is None else f"table:{table}/{level}"


def _resolutions(
    product: TablesProduct, contract: Contract, mechanism: NoiseKind, table: TableSpec, share: Fraction
) -> list[_PlannedDraw]:
    """Share what a table gets among its levels, coarsest first, itself last."""
    levels = levels_of(table, contract)
    sizes = [level.cells(table.columns) for level in levels] + [contract.cells(table.columns)]
    parts = level_shares(sizes, noise=mechanism, total_known=product.total == "invariant")
    coarser = [
        _PlannedDraw(table_key(table.name, level.name), table.columns, share * part, coarsening(level))
        for level, part in zip(levels, parts[:-1], strict=True)
    ]
    cells = table_cells(table, contract)
    summed = coarsening(cells) if isinstance(cells, Level) else None
    return [*coarser, _PlannedDraw(table_key(table.name), table.columns, share * parts[-1], summed)]


def _planned(contract: Contract, mechanism: NoiseKind, request: _PlannedDraw, amount: Fraction) -> PlannedDraw:
    noise: Noise = LaplaceNoise(amount) if mechanism == "laplace" else GaussianNoise(amount)
    event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=contract.unit.max_rows_per_unit)
    width = half_width(event, CONFIDENCE)
    coarser = request.coarsening
    cells = contract.cells(request.clique) if coarser is None else prod(coarser.shape)
    return PlannedDraw(
        request.key, request.clique, cells, request.share, noise, event, variance(event), width, coarser
    )
