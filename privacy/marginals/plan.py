"""The plan of a tables release: which marginals are measured, and what share of the budget each gets.

A function of the spec and the contract alone: it reads no data, so that it can be made, shown and charged before
anything private is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor

from contracts.contract import Contract
from contracts.spec import ReleaseSpec
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.marginals.counts import Clique
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, NoiseEvent, noise_event
from privacy.marginals.uncertainty import half_width, variance

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
    """

    key: str
    clique: Clique
    cells: int
    share: Fraction
    noise: Noise
    event: NoiseEvent
    variance: float
    half_width: int


@dataclass(frozen=True)
class TablesPlan:
    """All measurements of a release, with what they cost together.

    Args:
        draws: in the order in which they are drawn.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        public_total: the declared public total, when the tables keep it.
    """

    draws: tuple[PlannedDraw, ...]
    epsilon: int
    delta: int
    public_total: int | None

    @property
    def events(self) -> tuple[NoiseEvent, ...]:
        """The events of the draws, in order."""
        return tuple(draw.event for draw in self.draws)

    @property
    def cells(self) -> int:
        """Cells of all tables together."""
        return sum(draw.cells for draw in self.draws)

    def draw(self, key: str) -> PlannedDraw:
        """Return the draw of that key."""
        return next(draw for draw in self.draws if draw.key == key)


def plan_tables(spec: ReleaseSpec, contract: Contract) -> TablesPlan:
    """Split the charge of a tables release over its marginals.

    Each table gets the share of its weight; a noisy total, where refinement needs one, gets a twentieth first (its
    error is spread over all cells, so little is enough). Shares are rounded down, so that together they never cost
    more than the charge.

    Args:
        spec: release of kind `tables`.
        contract: its contract.
    Returns:
        TablesPlan: data-free.
    Privacy: reads no data; the composed ε of the events is at most the spec's.
    """
    product = spec.product
    needs_total = product.refine.method != "none" and product.total == "noisy"
    keep = 1 - TOTAL_SHARE if needs_total else Fraction(1)
    weights = sum(Fraction(table.weight) for table in product.tables)
    wanted: list[tuple[str, Clique, Fraction]] = [(TOTAL_KEY, (), TOTAL_SHARE)] if needs_total else []
    for table in product.tables:
        wanted.append((f"table:{table.name}", table.columns, keep * Fraction(table.weight) / weights))
    amounts = _split(_budget(product.mechanism, spec.charge.epsilon, spec.charge.delta), [w[2] for w in wanted])
    draws = tuple(
        _planned(contract, product.mechanism, key, clique, share, amount)
        for (key, clique, share), amount in zip(wanted, amounts, strict=True)
    )
    events = [draw.event for draw in draws]
    delta = delta_down(spec.charge.delta) if product.mechanism == "gaussian" else 0
    epsilon = loss_up(best_epsilon(events, Fraction(delta, ATTO))[0]) if delta else PureCalculus().cost(events)
    keeps_public = product.total == "invariant" and contract.total is not None
    return TablesPlan(draws, epsilon, delta, contract.total.value if keeps_public and contract.total else None)


def _budget(mechanism: str, epsilon: Decimal, delta: Decimal) -> Fraction:
    """Return what is split: ε for Laplace noise, ρ for Gaussian noise."""
    if mechanism == "laplace":
        return Fraction(epsilon)
    return rho_for(Fraction(epsilon), Fraction(delta))


def _split(budget: Fraction, shares: Sequence[Fraction]) -> list[Fraction]:
    """Split a budget into whole units of 10⁻¹², rounded down; the last part takes what the rounding left."""
    units = [floor(budget * share * PICO) for share in shares[:-1]]
    units.append(floor(budget * PICO) - sum(units))
    return [Fraction(part, PICO) for part in units]


def _planned(
    contract: Contract, mechanism: str, key: str, clique: Clique, share: Fraction, amount: Fraction
) -> PlannedDraw:
    noise: Noise = LaplaceNoise(amount) if mechanism == "laplace" else GaussianNoise(amount)
    event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=contract.unit.max_rows_per_unit)
    width = half_width(event, CONFIDENCE)
    return PlannedDraw(key, clique, contract.cells(clique), share, noise, event, variance(event), width)
