"""Small random models, and their full joint tables by brute force."""

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel, aligned


@st.composite
def models(draw: st.DrawFn, *, zeros: bool = True) -> GraphicalModel:
    """A model over 1 to 5 columns of 1 to 4 cells: any set of cliques, some cells impossible."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    domain = CellDomain(tuple("abcde"[: len(shape)]), shape)
    every = [clique for size in (1, 2, 3) for clique in combinations(domain.columns, size)]
    cliques = tuple(draw(st.lists(st.sampled_from(every), max_size=5, unique=True)))
    return random_model(domain, cliques, draw(st.integers(0, 2**32)), draw(st.sampled_from([0.1, 3.0, 300.0])), zeros)


def random_model(
    domain: CellDomain, cliques: tuple[Clique, ...], seed: int, scale: float = 1.0, zeros: bool = False
) -> GraphicalModel:
    """Normal potentials of a scale; with zeros, a tenth of the cells impossible, but never the all-zero row."""
    generator = np.random.default_rng(seed)
    potentials = []
    for clique in cliques:
        values = scale * generator.standard_normal(domain.sizes(clique))
        if zeros:
            values[generator.random(values.shape) < 0.1] = -np.inf
            values[(0,) * len(clique)] = 0.0
        potentials.append(values)
    return GraphicalModel(domain, cliques, tuple(potentials), float(generator.integers(1, 1000)))


def joint(model: GraphicalModel) -> Floats:
    logs = np.zeros(model.domain.shape)
    for clique, values in model.factors.items():
        logs = logs + aligned(values, clique, model.domain.columns)
    weights = np.exp(logs - logs.max())
    return np.asarray(model.total * weights / weights.sum())


def summed(table: Floats, domain: CellDomain, clique: Clique) -> Floats:
    gone = tuple(place for place, name in enumerate(domain.columns) if name not in clique)
    kept = [name for name in domain.columns if name in clique]
    return np.asarray(table.sum(axis=gone)).transpose([kept.index(name) for name in clique])
