"""Marginals of mbi's models in numpy.

mbi compiles a program for each marginal that no clique of its model holds, and for each round anew: on 30 columns
that is nearly all of AIM's time. Here the same variables are eliminated in the same order, in numpy and in doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mbi import Factor, MarkovRandomField, junction_tree
from numpy.typing import NDArray
from scipy.special import logsumexp

_Table = tuple[tuple[str, ...], NDArray[np.float64]]

_project = MarkovRandomField.project
_last: tuple[Any, list[_Table]] | None = None


def use() -> None:
    """Let all models project in this way."""
    MarkovRandomField.project = _projected


def _projected(self: Any, attrs: Any) -> Any:
    clique = (attrs,) if isinstance(attrs, str) else tuple(attrs)
    if self.marginals.supports(clique):
        return _project(self, clique)
    tables = _tables(self)
    domain = self.potentials.active_domain
    cliques = [*(names for names, _ in tables), clique]
    order, _ = junction_tree.greedy_order(domain, cliques, elim=domain.invert(clique))
    for name in order:
        names, summed = _combined([table for table in tables if name in table[0]])
        axis = names.index(name)
        rest = (names[:axis] + names[axis + 1 :], np.asarray(logsumexp(summed, axis=axis)))
        tables = [*(table for table in tables if name not in table[0]), rest]
    of_clique = self.potentials.domain.project(clique)
    log = np.zeros(of_clique.shape)
    for names, table in tables:
        log = log + _spread(names, table, clique)
    weights = np.exp(log - log.max())
    return Factor(of_clique, weights / weights.sum() * float(self.total))


def _tables(model: Any) -> list[_Table]:
    """Return a model's potentials as arrays; those of the model that was asked last are kept."""
    global _last
    if _last is None or _last[0] is not model:
        found = model.potentials.tables.values()
        _last = model, [(tuple(each.domain.attributes), np.asarray(each.values, dtype=np.float64)) for each in found]
    return _last[1]


def _combined(tables: list[_Table]) -> _Table:
    names = tuple(dict.fromkeys(name for each, _ in tables for name in each))
    return names, np.sum(np.broadcast_arrays(*(_spread(*each, names) for each in tables)), axis=0)


def _spread(names: tuple[str, ...], table: NDArray[np.float64], wanted: tuple[str, ...]) -> NDArray[np.float64]:
    """Return a table with an axis for each wanted name, of length 1 where it has none."""
    order = sorted(names, key=wanted.index)
    sizes = dict(zip(names, table.shape, strict=True))
    moved = np.transpose(table, [names.index(name) for name in order])
    return moved.reshape([sizes.get(name, 1) for name in wanted])
