"""What generators that measure residuals have in common: the residuals, their event, the one draw, and the rows."""

from __future__ import annotations

from typing import Final, Protocol

from contracts.contract.contract import Adjacency
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import DiscreteGaussian
from privacy.generators.generator import CannotGenerate, CountsSource, SynthesisTask
from privacy.generators.spending import too_small
from privacy.grant.draws import Draws
from privacy.grant.measurement import ResidualMeasurement
from privacy.grant.queries.residuals import ResidualQuery
from privacy.marginals.residual_basis import Residual, residual_event
from privacy.marginals.residual_tables import ResidualTables
from privacy.marginals.sensitivity import GaussianNoise

KEY: Final = "residuals"


class ResidualChoice(Protocol):
    """Which residuals are measured, of columns with their numbers of cells."""

    def __call__(
        self, cells: tuple[tuple[str, int], ...], /, *, adjacency: Adjacency, total_is_public: bool
    ) -> tuple[Residual, ...]:
        """Return the residuals, the total first where it is not public."""
        ...


def residuals_of(task: SynthesisTask, chosen: ResidualChoice, *, name: str) -> tuple[Residual, ...]:
    """Return the residuals that a generator measures.

    Args:
        task: gives columns, adjacency, and whether the total is public.
        chosen: which of them.
        name: of the generator, for the message.
    Raises:
        CannotGenerate: there are none.
    """
    sizes = tuple(zip(task.domain.columns, task.domain.shape, strict=True))
    found = chosen(sizes, adjacency=task.adjacency, total_is_public=task.public_total is not None)
    if not found:
        raise CannotGenerate(
            f"{name}: the number of rows is public and every column has one cell, so there is nothing to "
            "measure; do: add a column of several cells"
        )
    return found


def event_of(task: SynthesisTask, residuals: tuple[Residual, ...], noise: GaussianNoise) -> DiscreteGaussian:
    """Return the event of their draw.

    Raises:
        CannotGenerate: the charge is too small.
    """
    try:
        return residual_event(residuals, noise, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
    except AmountRefused as refused:
        raise too_small(refused) from refused


def measure(
    task: SynthesisTask, residuals: tuple[Residual, ...], noise: GaussianNoise, counts: CountsSource, grant: Draws
) -> tuple[ResidualMeasurement, ResidualTables]:
    """Measure all residuals in one draw; return it, and the tables that follow from it.

    Privacy: the event of `event_of`.
    """
    handles = counts.marginals([each.columns for each in residuals])
    drawn = grant.draw(ResidualQuery(handles, tuple(each.multiplier for each in residuals), noise), key=KEY)
    return drawn, ResidualTables(residuals, drawn.values, total=task.public_total)


def rows_of(task: SynthesisTask, tables: ResidualTables) -> int:
    """Return the number of rows of the model: the public one, or the estimated one, which may not be negative."""
    return task.public_total if task.public_total is not None else max(0, round(tables.total))
