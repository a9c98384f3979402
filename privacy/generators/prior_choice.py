"""Whether a fit begins with a public prior: a private choice between two models.

    COLUMNS     are measured first; those of the prior lend to them what they can (`privacy.marginals.public_prior`)
    CHOOSE      one model has independent columns. The other has the same columns, and beyond them the dependence of a
                model that is fitted to the prior's pairs: minimal divergence from it stands where maximal entropy
                stood. A private choice takes the one whose marginals are nearer (`queries.model_choice`)
    ROUNDS      the generator goes on from the chosen model. What it measures overrules the prior

The prior's model is public, and the two models are post-processing of released columns: to a neighbour they are the
same.

Source: for a private choice between public estimates and private measurements Fuentes, Mullins, McKenna, Miklau and
Sheldon 2024, Joint selection: adaptively incorporating public information for private synthetic data. Deviates: one
choice for all pairs together, since a unit moves the mean of all distances by no more than one of them, and the prior
is corrected for the measured columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.generators.fit_modifier import FitModifier
from privacy.generators.fitting import Fitting
from privacy.generators.generator import CannotGenerate, Fitter, PlannedStep, SynthesisTask
from privacy.generators.registry import names_that_say
from privacy.generators.spending import Spending
from privacy.grant.queries.model_choice import ModelChoiceQuery
from privacy.marginals.public_prior import dependence_of
from privacy.marginals.scores import DistanceScore

CHOICE_SHARE: Final = Fraction(1, 40)
"""What the choice takes of the budget."""
CHOICE_KEY: Final = "prior-choice"
SHARE_OF_CAP: Final = 1 / 20
"""Of the model's cap, for the prior's pairs: the rounds need room beside them."""
_MOST_COMPARED: Final = 1000
"""Of a larger workload so many marginals are compared, evenly spread over it."""


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
    cap = SHARE_OF_CAP * fitting.options.max_model_megabytes
    impossible = fitting.asked.impossible
    fitting.base = dependence_of(prior, fitting.asked.domain, impossible=impossible, cap=cap)
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


def after_choice(task: SynthesisTask, spending: Spending) -> Fraction:
    """Return what the choice leaves of the budget: all of it without a prior."""
    return spending.total - (0 if task.prior is None else spending.down(CHOICE_SHARE * spending.total))


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


class PriorFit(FitModifier):
    """Public rows that a generator may begin with."""

    def check_generator(self, generator: Fitter[Any, Any, Any], product: Any) -> None:
        """Refuse a generator that cannot begin with a prior."""
        if not getattr(generator, "takes_prior", False):
            taking = ", ".join(names_that_say("takes_prior"))
            raise CannotGenerate(
                f"product.generator: {product.generator!r}, which cannot begin with a prior; allowed: {taking}; "
                "do: drop `prior:`, or choose such a generator"
            )

    def terms(self, product: Any, contract: Contract, read: Any) -> dict[str, Any]:
        """Return the marginals of the public rows; none where only the record is read."""
        return {"prior": read}
