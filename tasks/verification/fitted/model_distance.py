"""Is a model that was estimated again the published one, up to what floating point leaves open?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from privacy.generators.copied_model import CopiedModel
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.filled_model import FilledModel, contents_of
from privacy.generators.generator import Model
from privacy.generators.linked_model import LinkedModel
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

    A decoder is compared number by number, for nothing less tells what its rows are. A graphical model of the same
    cliques has no other distribution with the same marginals on them; one of larger cliques could hold what was never
    measured, and agree on all that was.

    Args:
        published: the published model.
        again: the model that was estimated again.
        drawn: the columns of each draw.
    """
    findings = _compare_contents(published, again)
    if isinstance(published, FilledModel) and isinstance(again, FilledModel):
        joined = _compare_joined(published, again)
        return findings + (joined or compare_models(published.cells, again.cells, drawn))
    if isinstance(published, CopiedModel) and isinstance(again, CopiedModel):
        findings += compare_models(published.first, again.first, drawn)
        for number, pair in enumerate(zip(published.copies, again.copies, strict=True), 1):
            wrong = compare_models(*pair, drawn)
            findings += [replace(each, field=f"copy {number}, {each.field}") for each in wrong]
        return findings
    if isinstance(published, LinkedModel) and isinstance(again, LinkedModel):
        own = set(again.parents.domain.columns)
        above = [each for each in drawn if own.issuperset(each)]
        findings += compare_models(published.parents, again.parents, above)
        return findings + compare_models(published.children, again.children, drawn)
    stated, found_again = (_form(model) for model in (published, again))
    if stated != found_again:
        differing = sorted(name for name in stated.keys() | found_again if stated.get(name) != found_again.get(name))
        found, allowed = shown(stated.get(differing[0])), f"{shown(found_again.get(differing[0]))}, estimated again"
        findings.append(Finding(WHERE, printable(differing[0]), found, allowed, OTHER_FIT))
    if abs(published.rows - again.rows) > TOLERANCE * max(again.rows, 1) + 1:
        findings.append(Finding(WHERE, "rows", str(published.rows), f"{again.rows}, estimated again", OTHER_FIT))
    if isinstance(published, DecoderModel):
        return findings + _compare_numbers(published, again)
    return findings + _compare_marginals(published, again, drawn)


def _compare_contents(published: Model, again: Model) -> list[Finding]:
    """Compare how values lie inside bins, column by column: the same leaves, and nearly the same shares."""
    mine, theirs = contents_of(published), contents_of(again)
    if list(mine) != list(theirs):
        found, allowed = shown(list(mine)), f"{shown(list(theirs))}, estimated again"
        return [Finding(WHERE, "inside", found, allowed, OTHER_FIT)]
    findings = []
    for name in mine:
        same = np.array_equal(mine[name].cuts, theirs[name].cuts)
        if not same or not close(mine[name].weights, theirs[name].weights, share=SHARE):
            found, allowed = "other weights of leaves", f"those estimated again, up to {SHARE:g} of the largest"
            findings.append(Finding(WHERE, f"inside {printable(name)}", found, allowed, OTHER_FIT))
    return findings


def _compare_joined(published: FilledModel, again: FilledModel) -> list[Finding]:
    """Compare joined bins, column by column: the same ones, and nearly the same parts of the declared bins."""
    findings = []
    for name in {**published.joined, **again.joined}:
        mine, theirs = published.joined.get(name), again.joined.get(name)
        alike = mine is not None and theirs is not None and np.array_equal(mine.firsts, theirs.firsts)
        if not alike or not close(mine.weights, theirs.weights, share=SHARE):  # type: ignore[union-attr]
            found, allowed = "other joined bins, or parts of them", "those that follow from the published counts"
            findings.append(Finding(WHERE, f"joined bins of {printable(name)}", found, allowed, OTHER_FIT))
    return findings


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
