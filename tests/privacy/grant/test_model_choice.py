"""A choice among models: how far one unit moves its scores, and by what law it chooses; over all small worlds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from contracts.canonical import digest
from contracts.contract.contract import Adjacency
from privacy.grant.queries.model_choice import ModelChoiceQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import DistanceScore

CLIQUES = (("a",), ("b",), ("a", "b"))
SHAPE = {"a": 2, "b": 2}
CELLS = tuple(product(range(2), range(2)))
Rows = tuple[tuple[int, int], ...]


def counted(rows: Rows) -> tuple[Any, ...]:
    places = {"a": 0, "b": 1}
    found = []
    for clique in CLIQUES:
        counts = np.zeros([SHAPE[name] for name in clique], dtype=np.int64)
        for row in rows:
            counts[tuple(row[places[name]] for name in clique)] += 1
        found.append(counts)
    return tuple(found)


def query(*models: Rows, epsilon: Fraction = Fraction(1)) -> ModelChoiceQuery:
    handles = tuple(
        PrivateCounts(clique, tuple(SHAPE[n] for n in clique), "", "", lambda: None) for clique in CLIQUES
    )  # type: ignore[arg-type]
    scores = tuple(tuple(DistanceScore(each, Fraction(1), Fraction(0)) for each in counted(rows)) for rows in models)
    return ModelChoiceQuery(handles, scores, epsilon)


def worlds(most: int) -> list[Rows]:
    return [rows for number in range(most + 1) for rows in combinations_with_replacement(CELLS, number)]


def neighbours(adjacency: Adjacency, k: int) -> Iterator[tuple[Rows, Rows]]:
    units = worlds(k)
    for rest in worlds(2):
        for one, other in product(units, units):
            if adjacency == "add_remove" and other:
                continue
            if adjacency == "replace_one" and len(one) != len(other):
                continue
            yield (*rest, *one), (*rest, *other)


@pytest.mark.long
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_unit_moves_a_score_by_more_than_is_derived_and_some_unit_by_as_much(adjacency: Adjacency, k: int) -> None:
    """Every pair of neighbours, every model of up to two rows; and the law of the choice, exp(e s / 2 Delta)."""
    asked = query(*worlds(2))
    most, ratio = Fraction(0), 0.0
    bound = asked.sensitivity(Relation(adjacency, k))
    for one, other in neighbours(adjacency, k):
        here, there = asked.scores(counted(one)), asked.scores(counted(other))
        most = max([most, *(abs(first - second) for first, second in zip(here, there, strict=True))])
        laws = [np.array([float(each / (2 * bound)) for each in scores]) for scores in (here, there)]
        chances = [law - np.log(np.exp(law).sum()) for law in laws]
        ratio = max(ratio, float(np.abs(chances[0] - chances[1]).max()))
    assert most == bound
    assert ratio <= 1 + 1e-12
    understated = bound - 1
    assert most > understated


def test_a_choice_is_bound_to_the_models_that_it_was_among() -> None:
    """A run that resumes must ask for the choice among the same models, in the same order (`identity`)."""
    terms = Relation("add_remove", 1)
    same, one_row_more = query((), CELLS), query((), (*CELLS, CELLS[0]))
    assert query((), CELLS).identity(terms, 0) == same.identity(terms, 0)
    assert len({digest(each.identity(terms, 0)) for each in (same, one_row_more, query(CELLS, ()))}) == 3


def test_a_choice_is_refused_whose_sensitivity_would_be_another() -> None:
    asked, terms = query((), CELLS), Relation("add_remove", 1)
    asked.check(terms)
    (heavy, *others) = asked.models[0]
    scaled = DistanceScore(heavy.prediction, Fraction(2), Fraction(0))
    wrong = [
        ModelChoiceQuery((), ((), ()), Fraction(1)),
        ModelChoiceQuery(asked.marginals, asked.models[:1], Fraction(1)),
        ModelChoiceQuery(asked.marginals, (asked.models[0], asked.models[1][:2]), Fraction(1)),
        ModelChoiceQuery(asked.marginals, ((scaled, *others), asked.models[1]), Fraction(1)),
        ModelChoiceQuery(asked.marginals, (tuple(reversed(asked.models[0])), asked.models[1]), Fraction(1)),
    ]
    for each in wrong:
        with pytest.raises(ValueError, match=r"model|shape|weight"):
            each.check(terms)
