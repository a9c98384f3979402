"""Audits of generators by the likelihood of all that they draw: how much of the whole charge shows?

An output is all draws of one fit, in order: noisy marginals and private choices. What a fit does between them reads
released values alone: given the draws before, the law of a draw under either table is known. The attacker sums

    measurement     the log-likelihood ratio of its discrete Gaussian noise
    choice          log of  e^(c s'_i) / Σ_j e^(c s'_j)  over  e^(c s_i) / Σ_j e^(c s_j),   c = epsilon / 2Δ,
                    s and s' the scores without and with the canary

and says "it was there" where the sum is above 0. No attacker guesses more coins right (Neyman and Pearson).

The tables are the worst ones that we know. A value has a sign (its last bit) and a colour (the rest). The crowd has
every combination of signs that are not all alike equally often, under every combination of colours. So
    - columns are even, and how far a pair is from independence hardly depends on the noise of its columns: the scores
      of all pairs are nearly equal, where a choice tells most
    - the canary raises the score of one pair by all that it may, and lowers that of another
    - under replace_one the two rows differ in every column, so that every marginal moves by its whole sensitivity

What is charged is rho of zCDP. All of it as Gaussian noise would have the shift mu = sqrt(2 rho). Of a choice the
claim is its bounded range, whose curve is not that of a Gaussian: `largest_shift` says what draws of the claimed
kinds have at most, one to five per cent above sqrt(2 rho).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import product
from math import exp, sinh, sqrt
from typing import Any, Final

import numpy as np
import torch
from scipy.special import logsumexp
from scipy.stats import norm

from benchmarks._no_seed import no_seed
from benchmarks.games.attackers import Pair, log_odds
from benchmarks.games.game import Game
from benchmarks.games.generators import Source
from benchmarks.games.grant import UnrecordedGrant
from benchmarks.games.lower_bound import gaussian_epsilon
from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.accounting.renyi import concentrated_loss
from privacy.arrays import Floats, Unsigned
from privacy.generators.calibration import generator
from privacy.generators.generator import GeneratorPlan, SynthesisTask
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import Progress, Query, Relation, silent
from privacy.marginals.graph import CellDomain
from privacy.marginals.scores import score_of
from privacy.marginals.sensitivity import GaussianNoise

EPSILON: Final = Fraction(8)
DELTA: Final = Fraction(1, 100)
TRIALS: Final = 10_000
COLUMNS: Final = ("a", "b", "c")
TENTH: Final = "a tenth less noise on every marginal"
_CHOICE_SHARE: Final = 0.05
"""Of PrivBayes; where nothing is said, choices take 0.3 of the budget. Their claim is looser than that of noise."""
_POINTS: Final = 2**14
_FAR: Final = 12.0


class AllDrawn(Exception):
    """All draws are made; the last estimate, which is post-processing, is left out."""


class WeighingGrant(UnrecordedGrant):
    """Draws, and weighs what it has drawn by its likelihood under either table.

    Args:
        task, plan: as of the grant.
        exact: a marginal without and with the canary.
        deviation: of the noise on marginals, as a share of what is told and charged; 1 for the shipped noise.
    """

    def __init__(
        self, task: SynthesisTask, plan: GeneratorPlan, exact: Callable[[Clique], Pair], deviation: Fraction
    ) -> None:
        super().__init__(task, plan)
        self._exact, self._deviation = exact, deviation
        self._relation = Relation(task.adjacency, task.rows_per_unit, task.public_total)
        self.odds = 0.0

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Draw, and add the log-likelihood ratio of what was drawn; the event that is told is the charged one."""
        match query:
            case MarginalQuery(noise=GaussianNoise(rho)):
                drawn = super().draw(replace(query, noise=GaussianNoise(rho / self._deviation**2)), key=key)
                self.odds += float(log_odds(drawn.values.reshape(1, -1), self._exact(query.clique), drawn.event)[0])
                return replace(drawn, event=query.event(self._relation))
            case ChoiceQuery():
                chosen = super().draw(query, key=key)
                self.odds += self._odds_of_choice(query, chosen.index)
                return chosen
        raise TypeError(f"the likelihood of a draw of kind {query.kind!r} is not known here")

    def _odds_of_choice(self, query: ChoiceQuery, chosen: int) -> float:
        """Return the log-likelihood ratio of a choice."""
        scale = float(query.epsilon / (2 * query.sensitivity(self._relation)))
        logs = []
        for there in (False, True):
            counts = [self._exact(each.clique)[there].reshape(each.counts.shape) for each in query.candidates]
            scores = [score_of(each.score, own) for each, own in zip(query.candidates, counts, strict=True)]
            weights = np.array([scale * float(each - scores[chosen]) for each in scores])
            logs.append(-float(logsumexp(weights)))
        return logs[1] - logs[0]


@dataclass(frozen=True)
class LikelihoodAudit:
    """A generator, and two tables on which its whole charge shows.

    Args:
        name: of the generator.
        options: of the generator.
        adjacency: the relation of the two tables.
        canary: signs and colours of the row that is there.
        instead: of the row that stands in its place under replace_one.
        choices: how many private choices share what `choice_share` says, at least.
        choice_share: the part of rho that choices may take.
        colours: of every column.
        copies: of every row of the crowd.
        total: whether the number of rows is public.
        trials: fits of each table.
    """

    name: str
    options: Mapping[str, Any]
    adjacency: Adjacency
    canary: tuple[int, ...]
    choices: int
    choice_share: float
    instead: tuple[int, ...] = ()
    colours: int = 1
    copies: int = 12
    total: bool = False
    trials: int = TRIALS

    @cached_property
    def tables(self) -> tuple[Unsigned, Unsigned]:
        """Without and with the canary."""
        signs = [each for each in product((0, 1), repeat=len(COLUMNS)) if len(set(each)) > 1]
        colours = list(product(range(self.colours), repeat=len(COLUMNS)))
        rows = np.array([[2 * own + one for one, own in zip(*each, strict=True)] for each in product(signs, colours)])
        crowd = np.repeat(rows.astype(np.uint8), self.copies, axis=0)
        added = [np.array([each], np.uint8).reshape(-1, len(COLUMNS)) for each in (self.instead, self.canary)]
        return np.concatenate([crowd, added[0]]), np.concatenate([crowd, added[1]])

    @cached_property
    def task(self) -> SynthesisTask:
        """What the generator is asked for."""
        domain = CellDomain(COLUMNS, (2 * self.colours,) * len(COLUMNS))
        total = len(self.tables[1]) if self.total else None
        return SynthesisTask(domain, {}, self.adjacency, 1, EPSILON, DELTA, total)

    @cached_property
    def rho(self) -> float:
        """What is charged."""
        made_by = generator(self.name)
        (budget,) = made_by.plan(self.task, made_by.options(**self.options)).events
        return float(concentrated_loss(budget))

    @property
    def allowed(self) -> float:
        """The largest shift of what is claimed."""
        of_choices = self.choice_share * self.rho
        each = sqrt(8 * of_choices / self.choices)
        return largest_shift(sqrt(2 * (self.rho - of_choices)), (each,) * self.choices)

    def play(self, there: bool, trials: int, *, deviation: Fraction) -> Floats:
        """Fit so often; return the log-likelihood ratio of each fit's draws."""
        torch.set_num_threads(1)
        made_by = generator(self.name)
        options = made_by.options(**self.options)
        plan, odds = made_by.plan(self.task, options), np.empty(trials)
        sources = [Source(self.task, table) for table in self.tables]
        exact = cache(lambda clique: tuple(source.exact(clique).ravel() for source in sources))
        for trial in range(trials):
            grant = WeighingGrant(self.task, plan, exact, deviation)
            with suppress(AllDrawn):
                made_by.fit(self.task, options, plan, sources[there], grant, until_all_is_drawn, no_seed)
            odds[trial] = grant.odds
        return odds


def largest_shift(gaussian: float, choices: Sequence[float]) -> float:
    """Return the shift of the Gaussian pair that tells coins as well as what is claimed may, at worst.

    A private choice of range e is dominated by the pair whose loss x has densities in proportion to e^(x/2) and
    e^(-x/2) on [-e, e]. Composed with Gaussian noise of shift g, with S = N(0, g²) + Σ U(-e, e),

        total variation = e^(-g²/8) · Π e / (2 sinh(e/2)) · E |sinh(S/2)|,    mu = 2 Phi^-1((1 + total variation) / 2)

    Args:
        gaussian: g, the shift of all measurements together, > 0.
        choices: e of each choice, > 0.
    Source: bounded range: Dong, Durfee, Rogers 2020; dominating pairs: Zhu, Dong, Wang 2022; docs/derivations.md,
        section 12.
    """
    far = _FAR * gaussian + sum(choices)
    losses = np.linspace(-far, far, _POINTS + 1)
    step = losses[1] - losses[0]
    density = norm.pdf(losses, scale=gaussian)
    for each in choices:
        # The density of a sum with a uniform number: a difference of the distribution function, over 2 e.
        below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * step)])
        up, down = (np.interp(losses + way * each, losses, below) for way in (1, -1))
        density = (up - down) / (2 * each)
    scale = exp(-(gaussian**2) / 8)
    for each in choices:
        scale *= each / (2 * sinh(each / 2))
    variation = scale * float((density * np.abs(np.sinh(losses / 2))).sum() * step)
    return float(2 * norm.ppf((1 + variation) / 2))


def until_all_is_drawn(_done: float, what: str) -> None:
    """End a fit where its last estimate begins.

    Raises:
        AllDrawn: at that place.
    """
    if what == "estimating":
        raise AllDrawn


def _game(audit: LikelihoodAudit, broken: str, deviation: Fraction) -> Game:
    plays = [partial(audit.play, deviation=each) for each in (Fraction(1), deviation)]
    what = {"add_remove": "a row that is there or not", "replace_one": "a row that is replaced by another one"}
    return Game(
        name=f"all draws of generator {audit.name}, {audit.adjacency}",
        threat=f"three even columns, {what[audit.adjacency]}; all draws are weighed by their likelihood",
        epsilon=gaussian_epsilon(audit.allowed, float(DELTA)),
        delta=float(DELTA),
        trials=audit.trials,
        shipped=plays[0],
        twin=plays[1],
        broken=broken,
        method="gaussian_guesses",
        way="the grant's own code, without a ledger",
        twin_method="gaussian_guesses",
        shift=sqrt(2 * audit.rho),
    )


def _audits(adjacency: Adjacency) -> tuple[LikelihoodAudit, ...]:
    """Return the audits under a relation: MST and AIM, and PrivBayes with a public total under replace_one."""
    crowd: Mapping[str, Any] = {} if adjacency == "add_remove" else {"colours": 2, "copies": 4}
    # The canary's signs differ in a and b, and in a and c: it raises the scores of two pairs, and lowers the third.
    rows = {"add_remove": ((1, 0, 0), ()), "replace_one": ((1, 0, 2), (3, 2, 1))}
    # PrivBayes chooses between the pairs a, b and a, c at first: the canary raises one, and lowers the other.
    families = {"add_remove": ((0, 1, 0), ()), "replace_one": ((0, 1, 0), (2, 2, 3))}
    (canary, instead), (member, other) = rows[adjacency], families[adjacency]
    parents = {"degree": 1, "choice_share": _CHOICE_SHARE}
    # Choices hide so much of a replaced row that the twin is only just above the claim.
    total: Mapping[str, Any] = {"total": True, "trials": 2 * TRIALS} if adjacency == "replace_one" else {}
    return (
        LikelihoodAudit("mst", {}, adjacency, canary, 2, 1 / 9, instead, **crowd),
        LikelihoodAudit("aim", {"rounds": 2}, adjacency, canary, 1, 0.06, instead, **crowd),
        LikelihoodAudit("privbayes", parents, adjacency, member, 2, _CHOICE_SHARE, other, **crowd, **total),
    )


def _games() -> Mapping[str, Callable[[], Game]]:
    """Name the audits by generator and relation."""
    found: dict[str, Callable[[], Game]] = {}
    for adjacency, ending in (("add_remove", ""), ("replace_one", "_replace_one")):
        for audit in _audits(adjacency):  # type: ignore[arg-type]
            found[f"likelihood_{audit.name}{ending}"] = partial(_game, audit, TENTH, Fraction(9, 10))
    return found


GAMES: Final = _games()
