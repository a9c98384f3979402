"""Counts of a parent table's rows: the sensitivity follows from the handle, for the draws that know of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from contracts.contract.odcs import load_contract
from privacy.generators.calibration import generator
from privacy.grant.grant import open_grant
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import Relation
from privacy.grant.queries.residuals import ResidualQuery
from privacy.marginals.counts import ParentRows, PrivateCounts
from privacy.marginals.scores import Candidate, DistanceScore, MutualInformationScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.generators.small_table import CountedTable, asked, start, table
from tests.privacy.ledger.ledgers import Place

OF_BASE = Relation("add_remove", 8)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "households" / "households.odcs.yaml"


def handle(parents: ParentRows | None) -> PrivateCounts:
    return replace(PrivateCounts.of_nobody(("region",), (4,)), parents=parents)


def test_a_marginal_of_parents_moves_by_their_rows_of_a_unit() -> None:
    """Eight people, one household: noise of an eighth; under replace_one in two cells."""
    noise = LaplaceNoise(Fraction(1, 2))
    for relation, rows in ((OF_BASE, (1,)), (Relation("replace_one", 8), (1, 1))):
        assert MarginalQuery(handle(ParentRows("household", 1)), noise).event(relation).moves == rows
    assert MarginalQuery(handle(ParentRows("household", 3)), noise).event(OF_BASE).moves == (3,)
    assert MarginalQuery(handle(None), noise).event(OF_BASE).moves == (8,)


def test_the_handle_says_what_a_resumed_run_must_ask_for_again() -> None:
    """Or the noise of parents could be replayed as that of children."""
    query = MarginalQuery(handle(ParentRows("household", 1)), LaplaceNoise(Fraction(1)))
    assert query.identity(OF_BASE, 0) == {"parents": ["household", 1]}
    assert MarginalQuery(handle(None), query.noise).identity(OF_BASE, 0) == {}
    score = DistanceScore(np.zeros(4, dtype=np.int64), Fraction(1), Fraction(0))
    digests = {
        str(ChoiceQuery((Candidate(handle(parents), score),), Fraction(1)).identity(OF_BASE, 0))
        for parents in (None, ParentRows("household", 1), ParentRows("household", 2))
    }
    assert len(digests) == 3


def test_a_choice_is_as_sensitive_as_its_most_sensitive_candidate() -> None:
    """One household moves a distance of households by 1, and one of people by 8."""
    score = DistanceScore(np.zeros(4, dtype=np.int64), Fraction(1), Fraction(0))
    above, below = (Candidate(handle(parents), score) for parents in (ParentRows("household", 1), None))
    assert ChoiceQuery((above,), Fraction(1)).sensitivity(OF_BASE) == 1
    assert ChoiceQuery((above, below), Fraction(1)).sensitivity(OF_BASE) == 8


def test_mutual_information_of_parents_is_refused() -> None:
    """No number of parents is public, even where that of the base is."""
    candidate = Candidate(handle(ParentRows("household", 1)), MutualInformationScore(100))
    with pytest.raises(ValueError, match="mutual information needs"):
        ChoiceQuery((candidate,), Fraction(1)).check(Relation("replace_one", 1, 100))


def test_other_draws_refuse_counts_of_parents(sqlite_place: Place) -> None:
    """Their sensitivity is that of the base, which may be the smaller one."""
    counts = CountedTable(table())
    run = start(sqlite_place, generator("independent"), asked())
    (own,) = counts.marginals([("job",)])
    query = ResidualQuery((replace(own, parents=ParentRows("household", 1)),), (1,), GaussianNoise(Fraction(1, 100)))
    with pytest.raises(ValueError, match="counts the rows of the base"):
        open_grant(run.ledger, run.run_key).draw(query, key="one")
    assert not run.drawn()
    assert not counts.counted


def test_the_bound_is_derived_from_the_links() -> None:
    """And a base of no parent has none."""
    contract = load_contract(EXAMPLE)
    assert ParentRows.of(contract.over("person")) == ParentRows("household", 1)
    with pytest.raises(ValueError, match="no row of household belongs"):
        ParentRows.of(contract.over("household"))
    with pytest.raises(ValueError, match="at least 1"):
        ParentRows("household", 0)
