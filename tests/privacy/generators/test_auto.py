"""What can be afforded: networks that give way to columns, and a choice among generators that reads no data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from privacy.accounting.renyi import limit
from privacy.generators.aim import AimOptions
from privacy.generators.auto import Auto, AutoOptions, _options, chosen
from privacy.generators.calibration import generator
from privacy.generators.generator import CannotGenerate, Spending
from privacy.generators.options import Options
from privacy.generators.staged import NO_STRUCTURE
from privacy.marginals.graph import CellDomain
from tests.privacy.generators.small_table import DOMAIN, CountedTable, asked, error, start, table
from tests.privacy.ledger.ledgers import Place

WIDE = CellDomain(tuple(f"c{number:02d}" for number in range(24)), (10, 20, 4, 12) * 6)


def rows_of_wide(rows: int) -> CountedTable:
    random, columns = np.random.default_rng(3), []
    for cells in WIDE.shape:
        free = random.integers(0, cells, rows)
        columns.append(np.where(random.random(rows) < 0.5, free, columns[-1] % cells) if columns else free)
    return CountedTable(np.stack(columns, axis=1), WIDE)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mst", "privbayes"])
def test_where_a_network_cannot_be_afforded_all_goes_to_the_columns(sqlite_place: Place, name: str) -> None:
    """24 columns, 3,000 rows, ε = 0.1: no choice is made, the charge is spent, and the columns' noise together is at
    most 1.08 times what `independent` has. At ε = 10 the network is chosen. What a column gets of the second half
    follows the first, noisy half. 30 fits of each: 1.007 and 1.014 on average, standard deviations 0.002 and 0.006,
    so chance fails this less than once in 10^9."""
    counts, question = rows_of_wide(3000), asked(WIDE, epsilon=Fraction(1, 10))
    run = start(sqlite_place, generator(name), question)
    fitted = run.fit(counts)
    assert fitted.selections == ()
    assert fitted.notes == (NO_STRUCTURE,)
    assert run.spent() > Spending(question, None).total * (1 - Fraction(1, 10**9))
    precision = dict.fromkeys(WIDE.columns, 0.0)
    for one in fitted.measurements:
        precision[one.clique[0]] += 1 / one.variance
    spending = Spending(question, None)
    alone = spending.optimal([Fraction(cells) for cells in WIDE.shape])
    cells = np.array(WIDE.shape)
    noise = cells @ [precision[column] ** -0.5 for column in WIDE.columns]
    assert noise < 1.08 * (cells @ [(2 * float(share)) ** -0.5 for share in alone])
    rich = start(sqlite_place, generator(name), asked(WIDE, epsilon=Fraction(10)), "run-2")
    assert len(rich.fit(counts).selections) == 23


def test_a_choice_follows_from_public_sizes_alone() -> None:
    """Little budget or few rows: columns. Much of both: AIM. A declared total counts before `rows_about`."""

    def name(epsilon: str, rows: int, total: int | None = None) -> str:
        task = replace(asked(WIDE, epsilon=Fraction(epsilon)), public_total=total)
        return chosen(task, AutoOptions(rows_about=rows))[0]

    assert name("0.01", 9000) == "independent"
    assert name("10", 9000) == "aim"
    assert name("1", 100) == "independent"
    assert name("1", 10**7) == "aim"
    assert name("1", 100, total=10**7) == "aim"


def test_the_expected_error_falls_with_epsilon_and_with_rows_for_every_generator() -> None:
    """A prior that says otherwise would be a mistake in its formula; both are strict."""
    several = [
        chosen(asked(WIDE, epsilon=Fraction(epsilon)), AutoOptions(rows_about=9000))[1] for epsilon in (1, 2, 4)
    ]
    several += [chosen(asked(WIDE, epsilon=Fraction(4)), AutoOptions(rows_about=rows))[1] for rows in (10**5, 10**6)]
    for less, more in pairwise(several):
        assert all(more[name] < less[name] for name in less)


def test_the_plan_states_the_choice_and_charges_what_the_chosen_generator_does() -> None:
    question, options = asked(epsilon=Fraction(1)), AutoOptions(rows_about=4000)
    plan = Auto().plan(question, options)
    alone = generator("aim").plan(question, generator("aim").options())
    assert plan.events == alone.events
    assert [limit(event) for event in plan.events] == [Spending(question, None).total]
    assert plan.steps[0].what.startswith("aim was chosen")
    assert plan.steps[1:] == alone.steps


def test_a_fit_hands_over_to_the_chosen_generator_and_its_record_says_so(sqlite_place: Place) -> None:
    """The same draws as AIM alone would ask for, and the note of the choice."""
    counts = CountedTable(table())
    fitted = start(sqlite_place, Auto(), asked(), rows_about=4000).fit(counts)
    assert fitted.selections
    assert fitted.notes[0].startswith("aim was chosen, by the error that is expected of a pair of columns: ")
    assert error(counts, fitted) < 0.2


def test_without_a_number_of_rows_nothing_is_planned() -> None:
    with pytest.raises(CannotGenerate, match=r"rows_about is missing.*private here.*10\^12.*do: add"):
        Auto().plan(asked(DOMAIN), AutoOptions())
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        AutoOptions(rows_about=0)


def test_options_of_aim_reach_it_where_it_is_chosen() -> None:
    """Those of every generator stand above, and reach each that may be chosen."""
    options = AutoOptions.model_validate({"noise": "laplace", "aim": {"rounds": 7, "workload": [["a", "b"]]}})
    made = _options("aim", options)
    assert isinstance(made, AimOptions)
    assert (made.noise, made.rounds, [each.columns for each in made.workload or ()]) == ("laplace", 7, [("a", "b")])
    assert _options("mst", options) == Options(noise="laplace")
