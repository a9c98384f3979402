"""Counts inside bins: the model has the leaves that product and contract say; fitted again, almost the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from privacy.generators.generator import Model
from privacy.generators.inside_bins import FilledModel
from privacy.generators.rows import contents_of
from privacy.learning.written_statistics import close
from tasks.records.model.version_statements import ModelStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import SHARE
from tasks.verification.fitted.model_distance import OTHER_FIT, WHERE
from tasks.verification.fitted.model_reader import OTHER_MODEL
from tasks.verification.fitted.modifier_checks import CompareModels, ModelModifierChecks
from tasks.verification.fitted_meaning import SyntheticMeaning


class InsideChecks(ModelModifierChecks):
    """The checks of counts inside bins, and of joined bins."""

    def check_model(self, model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
        """Check that the model looks into the bins that the product looks into, and into no others."""
        wanted = {tree.column: list(tree.cuts) for tree in meaning.product.trees(meaning.contract)}
        found = {name: inside.cuts.tolist() for name, inside in contents_of(model).items()}
        if found == wanted:
            return []
        wrong = next((name for name in {**wanted, **found} if found.get(name) != wanted.get(name)), "")
        columns = printable(", ".join(wanted)) or "no column"
        allowed = f"leaves inside the bins of {columns}, as product and contract say"
        return [Finding(stated.values, f"inside {printable(wrong)}", "other leaves, or none", allowed, OTHER_MODEL)]

    def compare(
        self, published: FilledModel, again: FilledModel, drawn: Sequence[Clique], compare: CompareModels
    ) -> list[Finding]:
        """Compare how values lie inside bins, joined bins, and then the models of cells."""
        joined = _compare_joined(published, again)
        return _compare_contents(published, again) + (joined or compare(published.cells, again.cells, drawn))


def _compare_contents(published: FilledModel, again: FilledModel) -> list[Finding]:
    """Compare how values lie inside bins, column by column: the same leaves, and nearly the same shares."""
    mine, theirs = published.contents, again.contents
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
