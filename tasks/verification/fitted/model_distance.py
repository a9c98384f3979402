"""Is a model that was estimated again the published one, up to what floating point leaves open?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from contracts.release.synthetic import modifiers_of_model, named_parts
from privacy.generators.decoder import DecoderModel
from privacy.generators.generator import Model
from privacy.learning.written_statistics import close
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import SHARE

TOLERANCE: Final = 0.005
"""Largest L1 distance of two marginals, of each over their number of rows, that is passed over."""
_MOST_PAIRS: Final = 300
"""Pairs of columns that are compared beside all that was measured, from which the other pairs follow."""
_MOST_CELLS: Final = 2**22
OTHER_FIT: Final = "the model is not what the generator makes of the published measurements: do not use this version"
WHERE: Final = "model"


def compare_models(published: Model, again: Model, drawn: Sequence[Clique]) -> list[Finding]:
    """Compare the models by number of rows and form, then by their numbers, or by their marginals.

    A decoder is compared number by number, for nothing less tells what its rows are. A model whose fit is whole
    numbers throughout must be the same (`in_whole_numbers`). A graphical model of the same cliques has no other
    distribution with the same marginals on them; one of larger cliques could hold what was never measured, and agree
    on all that was.

    Args:
        published: the published model.
        again: the model that was estimated again.
        drawn: the columns of each draw.
    """
    modifiers = modifiers_of_model(published.kind) if published.kind == again.kind else ()
    for _, checks in named_parts(modifiers, "checks"):
        compared: list[Finding] = checks.compare(published, again, drawn, compare_models)
        return compared
    findings = []
    stated, found_again = (_form(model) for model in (published, again))
    if stated != found_again:
        differing = sorted(name for name in stated.keys() | found_again if stated.get(name) != found_again.get(name))
        found, allowed = shown(stated.get(differing[0])), f"{shown(found_again.get(differing[0]))}, estimated again"
        findings.append(Finding(WHERE, printable(differing[0]), found, allowed, OTHER_FIT))
    if abs(published.rows - again.rows) > TOLERANCE * max(again.rows, 1) + 1:
        findings.append(Finding(WHERE, "rows", str(published.rows), f"{again.rows}, estimated again", OTHER_FIT))
    if getattr(published, "in_whole_numbers", False):
        return findings + _compare_exactly(published, again)
    if isinstance(published, DecoderModel):
        return findings + _compare_numbers(published, again)
    return findings + _compare_marginals(published, again, drawn)


def _compare_numbers(published: Model, again: Model) -> list[Finding]:
    """Compare the numbers of two models, array by array."""
    mine, theirs = published.to_arrays()[1], again.to_arrays()[1]
    findings = []
    for name in sorted(mine.keys() & theirs.keys()):
        if not close(mine[name], theirs[name], share=SHARE):
            found = "other numbers"
            allowed = f"those estimated again, up to {SHARE:g} of the largest"
            findings.append(Finding(WHERE, f"array {printable(name)}", found, allowed, OTHER_FIT))
    return findings


def _compare_exactly(published: Model, again: Model) -> list[Finding]:
    """Compare rows and the numbers of two models, of which none may differ."""
    mine, theirs = ({**model.to_arrays()[1], "rows": np.array(model.rows)} for model in (published, again))
    return [
        Finding(WHERE, f"array {printable(name)}", "other numbers", "exactly those that are fitted again", OTHER_FIT)
        for name in sorted(mine.keys() & theirs.keys())
        if not np.array_equal(mine[name], theirs[name])
    ]


def _compare_marginals(published: Model, again: Model, drawn: Sequence[Clique]) -> list[Finding]:
    """Compare the marginals that were measured and those of all pairs."""
    findings = []
    names = published.domain.columns
    cliques = {tuple(name for name in names if name in clique): None for clique in drawn if clique}
    cliques |= dict.fromkeys((name,) for name in names)
    small = (pair for pair in combinations(names, 2) if published.domain.cells(pair) <= _MOST_CELLS)
    cliques |= dict.fromkeys(islice(small, _MOST_PAIRS))
    worst: tuple[float, Clique] = (0.0, ())
    for clique in cliques:
        one, other = (_shares(model.marginal(clique)) for model in (published, again))
        worst = max(worst, (float(np.abs(one - other).sum()), clique))
    if worst[0] > TOLERANCE:
        field = f"marginal of {printable(' × '.join(worst[1]))}"
        found, allowed = f"an L1 distance of {worst[0]:.4g}", f"at most {TOLERANCE} from the model estimated again"
        findings.append(Finding(WHERE, field, found, allowed, OTHER_FIT))
    return findings


def _form(model: Model) -> dict[str, Any]:
    """Return what a model consists of beside its numbers, such as its cliques."""
    values, arrays = model.to_arrays()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    return {**{name: value for name, value in values.items() if name != "rows"}, "shapes": shapes}


def _shares(marginal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a marginal as shares; all zero where it has no rows."""
    total = float(marginal.sum())
    return marginal / total if total > 0 else marginal
