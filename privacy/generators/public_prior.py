"""A public prior: what rows of other people, which anybody may see, lend to a model; and whether they may.

Where:
    q_c, q_ab   shares of the prior's rows in the cells of a column, and of a pair
    y, v        noisy counts of a column, and the variance of a cell's noise
    N           the number of rows, public or estimated

    COLUMNS     q_c N stands beside y as a further measurement of the column, with the variance
                    b² = max(|y - q_c N|² / (cells - 2) - v, v / 10)
                which is what y itself tells of how far the prior is off: positive-part James-Stein. A prior that is
                off by far has no weight. It costs nothing, since y is released.
    CHOOSE      one model has independent columns. The other has the columns, and beyond them the dependence of a model
                that is fitted to the prior's pairs: minimal divergence from it stands where maximal entropy stood. A
                private choice takes the one whose marginals are nearer (`privacy.grant.queries.model_choice`).
    ROUNDS      the generator goes on from the chosen model. What it measures overrules the prior.

The prior's model, its columns and its pairs are public: to a neighbour they are the same.

Source: for the choice between public estimates and private measurements Fuentes, Mullins, McKenna, Miklau and Sheldon
2024, Joint selection: adaptively incorporating public information for private synthetic data. Deviates: one choice for
all pairs together, since a unit moves the mean of all distances by no more than one of them, and the prior corrected
for the measured columns. Efron and Morris 1973, Stein's estimation rule and its competitors, for the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.arrays import Floats
from privacy.generators.generator import PlannedStep, SynthesisTask
from privacy.grant.queries.model_choice import ModelChoiceQuery
from privacy.marginals.domain import CellDomain
from privacy.marginals.estimation import estimate
from privacy.marginals.measured import Measured, combine
from privacy.marginals.model_sizes import ModelSizes
from privacy.marginals.scores import DistanceScore

if TYPE_CHECKING:
    from privacy.generators.fitting import Fitting
    from privacy.generators.spending import Spending

CHOICE_SHARE: Final = Fraction(1, 25)
"""What the choice takes of the budget."""
CHOICE_KEY: Final = "prior-choice"
LARGEST_MODEL: Final = 4.0
"""Of the prior's pairs [MB]; the rounds need room beside it."""
_SHARE_OF_CAP: Final = 1 / 20
_MOST_COMPARED: Final = 1000
"""Of a larger workload so many marginals are compared, evenly spread over it."""
_FLOOR: Final = 0.1
_SMOOTHING: Final = 0.5
"""Rows that are added to a pair for each of its cells, spread as its columns are when independent."""
_VARIANCE: Final = 1.0
_TEMPERATURE: Final = 0.02
_TOLERANCE: Final = 1.0
"""The prior's pairs are fitted to within about a row: they are exact, and its model is finite."""


@dataclass(frozen=True, eq=False)
class PublicPrior:
    """Marginals of public rows, as a version publishes them.

    Args:
        file: name of the file of the rows.
        rows: how many there are, at least 1.
        counts: of each column that the prior has, and of pairs of these [rows].
    """

    file: str
    rows: int
    counts: Mapping[Clique, NDArray[np.int64]]

    @property
    def pairs(self) -> tuple[Clique, ...]:
        """The pairs, those first whose columns depend most on each other."""
        return tuple(clique for clique in self.counts if len(clique) == 2)

    def share(self, clique: Clique) -> Floats:
        """Return the shares of the rows in the cells of a column or pair."""
        return self.counts[clique] / self.rows

    def smoothed(self, pair: Clique) -> Floats:
        """Return the counts of a pair, every cell above 0 that its columns leave possible [rows]."""
        counts, added = self.counts[pair], _SMOOTHING * self.counts[pair].size
        apart = _apart(self.share(pair[:1]), self.share(pair[1:]))
        mixed: Floats = (counts + added * apart) * (self.rows / (self.rows + added))
        return mixed


def prior_of(file: str, domain: CellDomain, names: Sequence[str], codes: NDArray[np.integer]) -> PublicPrior:  # type: ignore[type-arg]
    """Count columns and pairs of public rows: pairs by how much their columns depend on each other, up to a size.

    Args:
        file: name of the file.
        domain: all columns of the product.
        names: those that the rows have, in the domain's order.
        codes: shape (rows, names), at least one row.
    Privacy: the rows are public.
    """
    places = {name: place for place, name in enumerate(names)}

    def count(clique: Clique) -> NDArray[np.int64]:
        sizes = domain.sizes(clique)
        cells = np.ravel_multi_index(tuple(codes[:, places[name]] for name in clique), sizes)
        return np.bincount(cells, minlength=domain.cells(clique)).reshape(sizes).astype(np.int64)

    counts: dict[Clique, NDArray[np.int64]] = {(name,): count((name,)) for name in names}
    dependence: dict[Clique, float] = {}
    for one, other in combinations(names, 2):
        apart = _apart(counts[(one,)] / len(codes), counts[(other,)] / len(codes))
        dependence[(one, other)] = float(np.abs(count((one, other)) / len(codes) - apart).sum())
    ranked = sorted(dependence, key=lambda pair: (-dependence[pair], pair))
    counts |= {pair: count(pair) for pair in _within(domain, (), ranked, LARGEST_MODEL)}
    return PublicPrior(file, len(codes), counts)


def column_beliefs(
    prior: PublicPrior, domain: CellDomain, measured: Sequence[Measured], total: float
) -> tuple[Measured, ...]:
    """Return the prior's columns as measurements, with the variance that the noisy columns tell.

    Args:
        prior: the prior.
        domain: all columns.
        measured: what was measured so far.
        total: N.
    Privacy: post-processing.
    """
    beliefs = []
    for clique, (noisy, variance) in combine(domain, [one for one in measured if len(one.clique) == 1]).items():
        if clique in prior.counts:
            expected = prior.share(clique) * total
            misfit = float(((noisy - expected) ** 2).sum())
            # James-Stein needs three cells; of two the whole misfit counts as bias.
            bias = misfit / (noisy.size - 2) - variance if noisy.size > 2 else misfit / noisy.size
            beliefs.append(Measured(clique, expected, max(bias, _FLOOR * variance)))
    return tuple(beliefs)


def choose_base(fitting: Fitting, workload: Iterable[Clique]) -> tuple[str, ...]:
    """Choose privately whether the model begins with the dependence of the prior; return a note on it.

    Args:
        fitting: has measured the columns; its base is set.
        workload: the marginals that are compared.
    Privacy: `CHOICE_SHARE` of the budget; the models are public or fitted to released values.
    """
    prior = fitting.asked.prior
    if prior is None:
        return ()
    every = list(workload)
    compared = every[:: -(-len(every) // _MOST_COMPARED)]
    models = [_scores(fitting, compared)]
    fitting.base = _base(prior, fitting)
    models.append(_scores(fitting, compared))
    part = fitting.spending.down(CHOICE_SHARE * fitting.spending.total)
    query = ModelChoiceQuery(fitting.handles(compared), tuple(models), fitting.spending.chooses(part))
    chosen = fitting.draw(query, CHOICE_KEY)
    if chosen.index == 0:
        fitting.base = {}
        return (
            message(
                "the dependence of columns in {file} was not taken: independent columns were chosen as nearer",
                file=prior.file,
            ),
        )
    return (message("the model begins with the dependence of columns in {file}", file=prior.file),)


def prior_step(task: SynthesisTask, spending: Spending) -> PlannedStep | None:
    """Return the line of a plan on the choice; None without a prior.

    Raises:
        CannotGenerate: the charge is too small for it.
    """
    if task.prior is None:
        return None
    choice = spending.choice(spending.down(CHOICE_SHARE * spending.total))
    words = f"epsilon {float(choice.epsilon):.3g}"
    return PlannedStep("choice whether to begin with the prior", 1, float(CHOICE_SHARE), words)


def _scores(fitting: Fitting, compared: Sequence[Clique]) -> tuple[DistanceScore, ...]:
    """Return the counts that a model of what is known so far expects, in whole rows."""
    return tuple(
        DistanceScore(np.rint(counts).astype(np.int64), Fraction(1), Fraction(0))
        for counts in fitting.rough().marginals(compared)
    )


def _base(prior: PublicPrior, fitting: Fitting) -> dict[Clique, Floats]:
    """Return the factors of a model of the prior's pairs, as far as the model's cap has room."""
    domain = fitting.asked.domain
    cap = min(LARGEST_MODEL, _SHARE_OF_CAP * fitting.options.max_model_megabytes)
    pairs = _within(domain, fitting.asked.impossible, prior.pairs, cap)
    found = estimate(
        domain,
        [Measured(pair, prior.smoothed(pair), _VARIANCE) for pair in pairs],
        total=float(prior.rows),
        steps=1,
        temperature=_TEMPERATURE,
        tolerance=_TOLERANCE,
    )
    return dict(found.model.factors)


def _within(domain: CellDomain, known: Iterable[Clique], ranked: Sequence[Clique], cap: float) -> list[Clique]:
    """Return the pairs, in their order, that keep a model within a size [MB]."""
    chosen: list[Clique] = []
    beside = list(known)
    sizes = ModelSizes(domain, beside)
    for pair in ranked:
        if sizes.with_one(pair) <= cap:
            chosen.append(pair)
            sizes = ModelSizes(domain, [*beside, *chosen])
    return chosen


def _apart(one: Floats, other: Floats) -> Floats:
    """Return the shares of a pair if its columns were independent."""
    product: Floats = np.multiply.outer(one, other)
    return product
