"""What is known about a fit before any data: whether it can be done, how large it gets, what noise alone costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, pi, sqrt
from typing import Final

from contracts.contract.impossible_cells import Clique
from contracts.reading.scalars import nearest, word_list
from privacy.accounting.events import CountNoise
from privacy.generators.fitting import zeros
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.options import Options
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import NothingPossible
from privacy.marginals.estimation import estimate
from privacy.marginals.model_sizes import ModelSizes
from privacy.marginals.triangulation import model_size
from privacy.marginals.uncertainty import mean_absolute, variance

_MOST_MARGINALS: Final = 20_000
_SECONDS_PER_DRAW: Final = 0.03
_SECONDS_AN_ESTIMATE: Final = 0.05
_SECONDS_PER_MEGABYTE: Final = 2.0


def check(task: SynthesisTask, options: Options, cliques: Iterable[Clique]) -> None:
    """Refuse what must fail: no columns, no possible row, or a clique that alone is above the cap.

    Raises:
        CannotGenerate: with what to do.
    """
    if not task.domain.columns:
        raise CannotGenerate("there are no columns to synthesize; do: give the contract at least one with a domain")
    check_size(task, options, (), "the columns and the declared impossible combinations")
    sizes = ModelSizes(task.domain, task.impossible)
    for clique in cliques:
        refuse_above_cap(sizes.with_one(clique), options, f"the clique {'×'.join(clique)}")
    if task.impossible:
        # An estimate from the zeros alone shows whether any row is possible.
        try:
            estimate(task.domain, (), total=1.0, structural_zeros=zeros(task))
        except NothingPossible as nothing:
            raise CannotGenerate(str(nothing)) from nothing


def check_size(task: SynthesisTask, options: Options, cliques: Iterable[Clique], what: str) -> float:
    """Return the size of a model of cliques, measured together [MB].

    Raises:
        CannotGenerate: above the cap.
    """
    size = model_size(task.domain, (*task.impossible, *cliques))
    refuse_above_cap(size, options, what)
    return size


def refuse_above_cap(size: float, options: Options, what: str) -> None:
    """Refuse a model above the cap.

    Raises:
        CannotGenerate: with what to do.
    """
    if size > options.max_model_megabytes:
        written = f"{size:,.1f}" if size >= 1 else f"{size:.2g}"
        raise CannotGenerate(
            f"{what}: a model of {written} MB; allowed: max_model_megabytes {options.max_model_megabytes:g}; "
            "do: take smaller cliques or coarser bins, or raise max_model_megabytes"
        )


def check_time(options: Options, needed: float) -> None:
    """Refuse a time limit within which there cannot be a model.

    Raises:
        CannotGenerate: with the time that is needed.
    """
    if options.time_limit is not None and options.time_limit < needed:
        raise CannotGenerate(
            f"time_limit {options.time_limit:g} s is too short for a first model; allowed: at least {needed:.2g} s; "
            "do: raise time_limit or drop it"
        )


def named(domain: CellDomain, cliques: Iterable[Sequence[str]], option: str) -> tuple[Clique, ...]:
    """Return cliques in the domain's order of columns, each once.

    Raises:
        CannotGenerate: an unknown column, one named twice, or an empty clique.
    """
    found: dict[Clique, None] = {}
    for clique in cliques:
        unknown = [name for name in clique if name not in domain.columns]
        if unknown or not clique or len(set(clique)) != len(clique):
            wrong = f"unknown columns {', '.join(unknown)}" if unknown else f"the clique {list(clique)}"
            meant = nearest(unknown[0], domain.columns) if unknown else ""
            allowed = f"distinct columns, each {word_list(domain.columns)}"
            raise CannotGenerate(f"{option}: {wrong}; allowed: {allowed}; do: {meant or 'mend the spec'}")
        found[domain.canonical(clique)] = None
    return tuple(found)


def estimation_seconds(megabytes: float) -> float:
    """Say roughly how long one estimate of a model of that size takes [s]."""
    return _SECONDS_AN_ESTIMATE + _SECONDS_PER_MEGABYTE * megabytes


def drawing_seconds(draws: int) -> float:
    """Say roughly how long so many draws take [s]."""
    return _SECONDS_PER_DRAW * draws


def expected_error(domain: CellDomain, measured: Sequence[tuple[Clique, CountNoise]]) -> Mapping[int, float]:
    """Return for each order the mean, over all marginals of it, of the expected L1 error that noise alone makes.

    A marginal is read off the measured clique that contains it and gives it the least noise; an order of which some
    marginal is in no measured clique is left out. What estimation gains is not counted.

    Formula: n · E|noise| where measured itself, else sqrt(2 / pi · variance · n · cells of the clique), n its cells
    """
    errors = {}
    for order in range(1, 1 + max((len(clique) for clique, _ in measured), default=0)):
        if comb(len(domain.columns), order) > _MOST_MARGINALS:
            break
        best: dict[Clique, float] = {}
        for clique, event in measured:
            for part in combinations(clique, order):
                best[part] = min(best.get(part, float("inf")), _error(domain, part, clique, event))
        if len(best) == comb(len(domain.columns), order):
            errors[order] = sum(best.values()) / len(best)
    return errors


def noise_in_words(events: Sequence[CountNoise]) -> str:
    """Say what noise events are, such as "discrete Gaussian, standard deviation 61.2"."""
    deviations = sorted({f"{sqrt(variance(event)):.3g}" for event in events}, key=float)
    kind = events[0].kind.replace("_", " ").replace("gaussian", "Gaussian").replace("laplace", "Laplace")
    reach = deviations[0] if len(deviations) == 1 else f"{deviations[0]} to {deviations[-1]}"
    return f"{kind}, standard deviation {reach}"


def _error(domain: CellDomain, part: Clique, clique: Clique, event: CountNoise) -> float:
    cells, whole = domain.cells(part), domain.cells(clique)
    if cells == whole:
        return cells * mean_absolute(event)
    # A sum of many cells' noise is nearly Gaussian: its mean size is sqrt(2 / pi) deviations.
    return cells * sqrt(2 / pi * variance(event) * whole / cells)
