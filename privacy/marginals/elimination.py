"""Marginals of any cliques out of a calibrated tree, in one node or across several; what they share is done once.

A clique whose columns lie in several nodes needs those nodes, and the ones between, down from the highest. Each of
them is first reduced to the columns that matter: its separators on the way, and the wanted ones. All such reductions
of a node, for all cliques, are made together. What remains is a product of small conditional tables, summed from
below.

Source: Koller and Friedman 2009, section 10.3.3.2 (queries outside a clique).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_letters

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.belief_propagation import BeliefPropagation
from privacy.marginals.junction_tree import JunctionTree


@dataclass(frozen=True)
class EliminationStep:
    """A node's part in a clique's marginal.

    Args:
        number: the node.
        scope: the columns to which the node is reduced first.
        separator: the separator's columns, empty at the top.
        result: the columns of the table that it hands up: given, then the wanted ones found so far.
        below: the parts under it.
    """

    number: int
    scope: Clique
    separator: Clique
    result: Clique
    below: tuple[EliminationStep, ...]


def marginals(calibrated: BeliefPropagation, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
    """Return the probabilities of cliques, axes in each clique's order.

    Args:
        calibrated: the tree with its factors.
        cliques: distinct columns each, any of the domain's.
    Raises:
        NothingPossible: the factors forbid every cell.
    """
    parts = {clique: plan(calibrated.tree, clique) for clique in cliques}
    wanted: dict[int, set[Clique]] = {}
    for part in parts.values():
        _note(part, wanted)
    tables = {number: calibrated.inside(number, sorted(scopes)) for number, scopes in sorted(wanted.items())}
    return {clique: _evaluate(part, tables) for clique, part in parts.items()}


def plan(tree: JunctionTree, clique: Clique) -> EliminationStep:
    """Return the parts of a clique's marginal."""
    home = tree.home(clique)
    # One node holds all columns: its table need only be summed.
    if home is not None:
        return EliminationStep(home, clique, (), clique, ())
    wanted = set(clique)
    needed = [number for number, node in enumerate(tree.nodes) if wanted & set(node.residual)]
    paths = [_to_root(tree, number) for number in needed]
    # The lowest common ancestor of all nodes that introduce a wanted column: nothing above it matters.
    top = next(number for number in paths[0] if all(number in path for path in paths))
    used = {number for path in paths for number in path[: path.index(top) + 1]}
    return _part(tree, top, top, used, wanted, clique)


def _to_root(tree: JunctionTree, number: int) -> list[int]:
    """Return a node and all above it."""
    path = [number]
    while tree.nodes[path[-1]].parent >= 0:
        path.append(tree.nodes[path[-1]].parent)
    return path


def _part(
    tree: JunctionTree, number: int, top: int, used: set[int], kept: set[str], clique: Clique
) -> EliminationStep:
    node = tree.nodes[number]
    below = tuple(_part(tree, child, top, used, kept, clique) for child in node.children if child in used)
    given = () if number == top else node.separator
    links = {name for part in below for name in part.separator}
    # A node is reduced to the wanted columns, those that are given from above, and its links to the nodes below.
    scope = tuple(name for name in node.columns if name in kept or name in given or name in links)
    # What is handed up: the wanted columns that this node or one below it has seen.
    met = (kept & set(scope)) | {name for part in below for name in part.result if name in kept}
    result = clique if number == top else given + tuple(name for name in clique if name in met and name not in given)
    return EliminationStep(number, scope, given, result, below)


def _note(part: EliminationStep, reductions: dict[int, set[Clique]]) -> None:
    """Collect the reductions of each node; a conditional needs its separator's marginal as well."""
    scopes = reductions.setdefault(part.number, set())
    scopes.add(part.scope)
    if part.separator:
        scopes.add(part.separator)
    for below in part.below:
        _note(below, reductions)


def _evaluate(part: EliminationStep, tables: dict[int, dict[Clique, Floats]]) -> Floats:
    """Return P(result) at the top, P(wanted part of result | given) elsewhere, over `result`."""
    operands: list[tuple[Clique, Floats]] = []
    own = tables[part.number][part.scope]
    if part.separator:
        given = tables[part.number][part.separator]
        shape = [size if name in part.separator else 1 for name, size in zip(part.scope, own.shape, strict=True)]
        order = [part.separator.index(name) for name in part.scope if name in part.separator]
        spread = given.transpose(order).reshape(shape)
        # P(scope | given): nothing is divided by 0, since where the separator is impossible the whole row is.
        own = np.divide(own, spread, out=np.zeros_like(own), where=spread > 0)
    operands.append((part.scope, own))
    operands += [(below.result, _evaluate(below, tables)) for below in part.below]
    return _contract(operands, part.result)


def _contract(operands: list[tuple[Clique, Floats]], result: Clique) -> Floats:
    """Multiply tables and sum over all columns but those of `result`."""
    if len(operands) == 1 and operands[0][0] == result:
        return operands[0][1]
    letter = dict(zip(dict.fromkeys(name for names, _ in operands for name in names), ascii_letters, strict=False))
    terms = ["".join(letter[name] for name in names) for names, _ in operands]
    formula = ",".join(terms) + "->" + "".join(letter[name] for name in result)
    return np.asarray(np.einsum(formula, *(values for _, values in operands), optimize="greedy"))
