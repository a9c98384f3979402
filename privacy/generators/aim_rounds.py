"""The rounds of AIM: what each takes and may choose, when no further one is worth its budget, and how a fit ends.

The symbols are those of `privacy.generators.aim`, which holds the workload and its weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.generators.fitting import Fitting
from privacy.generators.precision import FIRST_MOVE, NO_STRUCTURE, Precision, cells_that_count, noise_error
from privacy.generators.stages import measure_again
from privacy.grant.measurement import Measurement
from privacy.marginals.given_columns import conditional_megabytes
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.model_sizes import ModelSizes
from privacy.marginals.scores import DistanceScore
from privacy.marginals.sensitivity import marginal_moves

LAST_SHARE: Final = Fraction(1, 4)
"""What the rounds leave of the budget at least."""
_GROWTH: Final = 2
_UNEVENNESS: Final = 0.4
"""Between even shares and 2/3, the optimum for known cells: which cells count is guessed from the model."""
_MOST_UNEVEN: Final = 4.0
"""A measurement takes at most so many times what an even round gives it, and at least that part of it."""
_UNITS: Final = 1024
_CANDIDATES_A_MODEL: Final = 1000
"""Where there are more, several choices are made by one model."""
_LEAST_VARIANCE: Final = 1.0
"""Below it a measurement is finer than whole rows [rows²]."""


@dataclass(frozen=True)
class Round:
    """What one round may choose.

    Args:
        choice: what the choice takes.
        parts: what the measurement of each candidate would take.
        errors: E_r of each candidate, measured so [rows].
        known: the model's counts of the candidates, and of all that is measured.
    """

    choice: Fraction
    parts: Mapping[Clique, Fraction]
    errors: Mapping[Clique, float]
    known: Mapping[Clique, NDArray[np.float64]]


class AimRounds:
    """The rounds of one fit; all that it goes by is released or public.

    Args:
        fitting: measures and chooses.
        workload: c_s.
        weights: w_r of each candidate.
        share: x at first.
        measured_share: α.
    """

    def __init__(
        self,
        fitting: Fitting,
        workload: Mapping[Clique, Fraction],
        weights: Mapping[Clique, Fraction],
        share: Fraction,
        measured_share: Fraction,
    ) -> None:
        self._fitting, self._weights, self._measured_share = fitting, weights, measured_share
        self._spending = fitting.spending
        self._precision = Precision(workload, self._spending)
        self._share, self._last = share, self._spending.down(LAST_SHARE * self._spending.total)
        self._unknown: Mapping[Clique, float] = {}
        self.notes: list[str] = []

    def measure(self, clique: Clique, part: Fraction) -> Measurement:
        """Measure a clique for a share of the budget."""
        self._precision.add(clique, part)
        return self._fitting.measure(clique, part)

    def run(self) -> GraphicalModel:
        """Choose and measure while it is worth it, measure again with all that is left; return a model."""
        fitting = self._fitting
        model = fitting.rough()
        self._share = max(self._share, self._least_share())
        # Nobody knows yet how far a marginal is off: columns that determine each other are off by about all rows.
        moved = FIRST_MOVE * fitting.total()
        while self._spending.left - self._last >= self._share and self._something_new():
            fitting.progress(0.95 * float(fitting.spending.spent / fitting.spending.total), "measuring")
            if fitting.ended_early(not self._precision.cliques):
                self.notes.append(self._stopped())
                break
            offered = self._offer(model)
            if not self._worth(offered, moved):
                break
            chosen = self._choose_and_measure(offered)
            model = fitting.rough(model)
            moves = zip(model.marginals(chosen), chosen, strict=True)
            move = float(np.mean([np.abs(after - offered.known[each]).sum() for after, each in moves]))
            # The mean of this move and of what the rounds before moved, recent ones first.
            moved = (moved + move) / 2 if len(fitting.selections) > len(chosen) else move
            if not self._improved(move, float(np.mean([offered.errors[each] for each in chosen]))):
                self._share *= _GROWTH
        if not fitting.selections:
            self.notes.append(NO_STRUCTURE)
        measure_again(self.measure, fitting, self._precision, model, self._unknown)
        return model

    def _something_new(self) -> bool:
        return not set(self._weights) <= set(self._precision.cliques)

    def _least_share(self) -> Fraction:
        """Return the x at which a choice is not mostly noise: its noise among K candidates is half of all rows.

        Formula: the exponential mechanism is off by about 2 Δ ln K / epsilon, Δ how far a unit moves a distance.
        """
        task, rows = self._fitting.asked, self._fitting.total()
        if rows <= 0:  # nobody knows yet how many there are
            return Fraction(0)
        moves = sum(marginal_moves(task.adjacency, task.rows_per_unit))
        epsilon = 4 * moves * math.log(max(2, len(self._weights))) / rows
        wanted = Fraction(round(epsilon * 10**12), 10**12)
        return self._spending.down(self._spending.of_choice(wanted) / (1 - self._measured_share))

    def _offer(self, model: GraphicalModel) -> Round:
        """Say what a round may choose, and how its budget is spread: more where more cells count, n^0.4."""
        choice = self._spending.down((1 - self._measured_share) * self._share)
        measured = self._share - choice
        candidates = self._candidates()
        every = list(dict.fromkeys([*candidates, *self._precision.cliques]))
        known = dict(zip(every, model.marginals(every), strict=True))
        size = self._precision.size(measured)
        cells = np.array([cells_that_count(known[each], size) for each in candidates])
        uneven = np.clip((cells / cells.mean()) ** _UNEVENNESS, 1 / _MOST_UNEVEN, _MOST_UNEVEN)
        free = self._spending.left - self._last - choice
        parts = {
            each: min(free, self._spending.down(measured * Fraction(round(_UNITS * float(factor)), _UNITS)))
            for each, factor in zip(candidates, uneven, strict=True)
        }
        sizes = {part: self._precision.size(part) for part in set(parts.values())}
        errors = {each: noise_error(known[each], sizes[part]) for each, part in parts.items()}
        return Round(choice, parts, errors, known)

    def _candidates(self) -> Sequence[Clique]:
        """Return the cliques that keep the model within the share of its cap that the budget spent so far allows.

        Source: McKenna et al. 2022, section 4.1 (the filter on JT-SIZE).
        """
        task, cap = self._fitting.asked, self._fitting.options.max_model_megabytes
        # The share of what the rounds may spend that will be spent after this one.
        share = (self._spending.spent + self._share) / (self._spending.total - self._last)
        model = ModelSizes(task.domain, [*self._fitting.asked.impossible, *self._precision.cliques])
        allowed = max(cap * min(1.0, float(share)), model.size)
        sizes = {clique: max(model.with_one(clique), self._given_size(clique)) for clique in self._weights}
        # At least one: the plan has seen that each fits alone, and what has been measured fits already.
        allowed = max(allowed, min(sizes.values()))
        return [clique for clique, size in sizes.items() if size <= allowed]

    def _given_size(self, clique: Clique) -> float:
        """Return the memory of what columns that are not given are drawn by, with one more clique [MB]."""
        task = self._fitting.asked
        if not task.given:
            return 0.0
        return conditional_megabytes(task.domain, [*task.impossible, *self._precision.cliques, clique], task.given)

    def _worth(self, offered: Round, moved: float) -> bool:
        """Say whether a round is expected to move more than its budget takes off the error elsewhere."""
        self._unknown = offered.errors
        if not self._precision.cliques:
            return True
        price = self._precision.allocate(offered.known, offered.errors, self._spending.left).price
        return price * float(self._share) <= moved

    def _choose_and_measure(self, offered: Round) -> list[Clique]:
        """Measure a clique, chosen by the exponential mechanism, the score being  w_r (‖p_r(D) - p_r(θ)‖₁ - E_r).

        Of very many candidates several are chosen by one model, each of which joins columns that those before left
        apart: what one of them tells, another does not.
        """
        scores = {
            clique: DistanceScore(
                np.rint(offered.known[clique]).astype(np.int64),
                self._weights[clique],
                Fraction(round(error * _UNITS), _UNITS),  # as a rational: scores are exact
            )
            for clique, error in offered.errors.items()
        }
        chosen: list[Clique] = []
        joined: dict[str, frozenset[str]] = {}
        for _ in range(-(-len(self._weights) // _CANDIDATES_A_MODEL)):
            fit = self._candidates() if chosen else list(scores)
            apart = [each for each in fit if each in scores and _joins_apart(each, joined)]
            free = self._spending.left - self._last - offered.choice
            if not apart or free < self._share - offered.choice:
                break
            clique = self._fitting.choose({each: scores[each] for each in apart}, offered.choice).clique
            self.measure(clique, min(free, offered.parts[clique]))
            chosen.append(clique)
            together = frozenset(clique).union(*(joined.get(name, ()) for name in clique))
            joined.update(dict.fromkeys(together, together))
        return chosen

    def _improved(self, move: float, error: float) -> bool:
        """Say whether the model has moved by more than the noise of the last measurement makes of the error."""
        last = self._fitting.measurements[-1]
        # Noise below one row cannot get finer in whole rows: measured again so, a clique counts as not improved.
        again = any(each.clique == last.clique for each in self._fitting.measurements[:-1])
        return move > error and not (again and last.variance < _LEAST_VARIANCE)

    def _stopped(self) -> str:
        """Return the note on rounds that were ended by the time limit."""
        fitting = self._fitting
        return message(
            "the time limit ended the rounds after {measurements} measurements and {choices} choices; the rest of "
            "the charge, {share}, made these measurements more exact",
            measurements=len(fitting.measurements),
            choices=len(fitting.selections),
            share=f"{float(self._spending.left / self._spending.total):.0%}",
        )


def _joins_apart(clique: Clique, joined: Mapping[str, frozenset[str]]) -> bool:
    """Say whether no two columns of a clique hang together yet."""
    return all(joined.get(one, frozenset()).isdisjoint(clique[place + 1 :]) for place, one in enumerate(clique))
