"""What a generator plans: its measurements, what can be afforded, a choice that reads no data, the time of a fit."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints
from itertools import combinations, pairwise
from math import floor, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.release.synthetic import SyntheticProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.renyi import limit
from privacy.classifiers.three_approaches import LearningFirst
from privacy.generators import calibration as registry
from privacy.generators import calibration as release_plan
from privacy.generators.aim import AimOptions
from privacy.generators.auto import Auto, AutoOptions, _options, chosen
from privacy.generators.calibration import generator, plan_synthetic
from privacy.generators.fitting import all_of_order, downward_closure, expected_error, relevance
from privacy.generators.generator import CannotGenerate, GeneratorPlan, Options, Spending, SynthesisTask, split
from privacy.generators.independent import Fixed, Independent
from privacy.generators.staged import NO_STRUCTURE
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.count_noise import mean_absolute, variance
from privacy.marginals.graph import CellDomain
from tests.privacy.generators.small_table import DOMAIN, CountedTable, asked, error, start, table
from tests.privacy.ledger.ledgers import Place
from tests.tasks.intake import make_contract


def test_an_unknown_generator_is_refused_with_the_nearest_name():
    with pytest.raises(CannotGenerate, match=r"(?s)'privbays'.*aim, .*fixed.*do you mean 'privbayes'"):
        registry.generator("privbays")
    with pytest.raises(CannotGenerate, match="install its package"):
        registry.generator("zzz")


@pytest.mark.parametrize(
    ("fitters", "others", "kind", "built_in"),
    [
        (registry.GENERATORS, registry.TRAINERS, Independent, "aim"),
        (registry.TRAINERS, registry.GENERATORS, LearningFirst, "dp_sgd"),
    ],
)
def test_installed_packages_add_generators_and_trainers_but_replace_none(
    monkeypatch: pytest.MonkeyPatch,
    fitters: registry.FitterRegistry,
    others: registry.FitterRegistry,
    kind: type,
    built_in: str,
):
    """Each kind of model has an entry point group of its own."""
    points = EntryPoints(
        EntryPoint(name, value, fitters.group)
        for name, value in {
            "mine": f"{kind.__module__}:{kind.__name__}",
            built_in: "nowhere:Other",
            "broken": "nowhere.to:be",
        }.items()
    )
    monkeypatch.setattr(registry, "registered", lambda group: points.select(group=group))
    assert "mine" in fitters.names
    assert "mine" not in others.names
    assert isinstance(fitters.load("mine"), kind)
    assert fitters.load(built_in).name == built_in
    with pytest.raises(CannotGenerate, match="cannot be loaded"):
        fitters.load("broken")


def test_relevance_is_the_sum_of_overlaps():
    weights = {**all_of_order(DOMAIN, 2), ("job", "pay", "age"): Fraction(5, 2)}
    closure = downward_closure(DOMAIN, weights)
    assert closure[:4] == (("job",), ("pay",), ("home",), ("age",))
    assert set(closure) == {*[c for k in (1, 2) for c in combinations(DOMAIN.columns, k)], ("job", "pay", "age")}
    for clique, weight in relevance(weights, closure).items():
        assert weight == sum(c * len(set(clique) & set(s)) for s, c in weights.items())


def wide(columns: int) -> CellDomain:
    return CellDomain(
        tuple(f"c{place}" for place in range(columns)), tuple(2 + place % 9 for place in range(columns))
    )


def test_a_workload_that_no_round_could_look_through_is_refused():
    """Before it is written out: 8 million marginals would take gigabytes."""
    with pytest.raises(CannotGenerate, match=r"8,214,570 marginals; allowed: at most 500,000"):
        all_of_order(wide(120), 4)
    assert len(all_of_order(wide(120), 2)) == 7140


def test_a_split_adds_up_exactly():
    whole = Fraction(1, 3)
    parts = split(whole, [1, 2, 4])
    assert sum(parts) == whole
    assert [float(part * 21) for part in parts] == pytest.approx([1, 2, 4])


@pytest.mark.parametrize("name", ["aim", "independent", "mst", "privbayes"])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction("0.1")])
def test_a_pure_plan_costs_the_account_no_more_than_the_charge(name: str, epsilon: Fraction):
    """The ledger rounds each draw up: parts that are no whole units would cost more than what was split."""
    made = registry.generator(name)
    plan = made.plan(asked(epsilon=epsilon, delta=Fraction(0)), made.options())
    assert PureCalculus().cost(plan.events) == floor(epsilon * PICO)


class Spendthrift(Independent):
    def plan(self, task: SynthesisTask, options: Any) -> GeneratorPlan:
        return super().plan(replace(task, epsilon=2 * task.epsilon), options)


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_a_foreign_plan_above_the_charge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta: str):
    contract = make_contract(tmp_path)
    product = SyntheticProduct(kind="synthetic", generator="independent")
    amounts = {"epsilon": Decimal(1), "delta": Decimal(delta)}
    plan_synthetic(product, contract, Independent.options(), **amounts)
    monkeypatch.setattr(release_plan, "generator", lambda name: Spendthrift())
    with pytest.raises(CannotGenerate, match="at most 1, the charge"):
        plan_synthetic(product, contract, Independent.options(), **amounts)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**9)])
def test_the_optimal_split_is_a_minimum(delta: Fraction):
    """Moving a little from any part to any other makes the sum of size · deviation larger."""
    spending, sizes = (
        Spending(asked(epsilon=Fraction(1, 50), delta=delta), None),
        [Fraction(3), Fraction(40), Fraction(700)],
    )

    def cost(parts: list[Fraction]) -> float:
        return sum(float(n) * mean_absolute(spending.event(p)) for n, p in zip(sizes, parts, strict=True))

    best = list(spending.optimal(sizes))
    assert sum(best) == spending.total
    step = spending.total / 200
    for one, other in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        moved = list(best)
        moved[one] += step
        moved[other] -= step
        assert min(moved) <= 0 or cost(moved) > cost(best)


def test_the_expected_error_of_a_list():
    """A pair gives its own error, and that of its columns with the noise added up; an order with gaps is left out."""
    event = Spending(asked(), None).event(Fraction(1, 1000))
    pairs = [("job", "pay"), ("home", "age")]
    found = expected_error(DOMAIN, [(pair, event) for pair in pairs])
    deviation = sqrt(variance(event))
    columns = [(5, 4), (4, 5), (3, 6), (6, 3)]
    assert set(found) == {1}
    assert found[1] == pytest.approx(sum(n * sqrt(2 / pi * m) * deviation for n, m in columns) / 4)
    two = DOMAIN.project(("job", "pay"))
    assert expected_error(two, [(("job", "pay"), event)])[2] == pytest.approx(20 * mean_absolute(event))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"cliques": [["job", "wage"]]}, "unknown columns wage"), ({"cliques": [["job", "job"]]}, "distinct columns")],
)
def test_a_list_that_cannot_be_measured_is_refused(options: dict[str, Any], said: str):
    with pytest.raises(CannotGenerate, match=said):
        Fixed().plan(asked(), Fixed.options(**options))


def test_a_plan_names_the_columns_of_which_nothing_is_measured():
    """They passed in silence, and their values are even."""
    plan = Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay"]]))
    assert plan.notes == (
        "columns in no clique, of which nothing is measured and values are drawn evenly: home, age",
    )
    assert Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay", "home"], ["age"]])).notes == ()


def test_weights_move_the_budget():
    """Eight times the weight makes a clique's share four times as large under zCDP."""
    plain = Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay"], ["pay", "job"], ["home", "age"]]))
    assert len(plain.events) == 2
    heavy = Fixed().plan(
        asked(), Fixed.options(cliques=[{"columns": ["job"], "weight": 8}, {"columns": ["job", "age"]}])
    )
    equal = Fixed().plan(asked(), Fixed.options(cliques=[["job"], ["job", "age"]]))
    ratio = [variance(plan.events[1]) / variance(plan.events[0]) for plan in (heavy, equal)]  # type: ignore[arg-type]
    assert ratio[0] / ratio[1] == pytest.approx(4, rel=1e-3)


WIDE = CellDomain(tuple(f"c{number:02d}" for number in range(24)), (10, 20, 4, 12) * 6)


def rows_of_wide(rows: int) -> CountedTable:
    random, columns = np.random.default_rng(3), []
    for cells in WIDE.shape:
        free = random.integers(0, cells, rows)
        columns.append(np.where(random.random(rows) < 0.5, free, columns[-1] % cells) if columns else free)
    return CountedTable(np.stack(columns, axis=1), WIDE)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mst", "privbayes"])
def test_where_a_network_cannot_be_afforded_all_goes_to_the_columns(sqlite_place: Place, name: str):
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


def test_a_choice_follows_from_public_sizes_alone():
    """Little budget or few rows: columns. Much of both: AIM. A declared total counts before `rows_about`."""

    def name(epsilon: str, rows: int, total: int | None = None) -> str:
        task = replace(asked(WIDE, epsilon=Fraction(epsilon)), public_total=total)
        return chosen(task, AutoOptions(rows_about=rows))[0]

    assert name("0.01", 9000) == "independent"
    assert name("10", 9000) == "aim"
    assert name("1", 100) == "independent"
    assert name("1", 10**7) == "aim"
    assert name("1", 100, total=10**7) == "aim"


def test_the_expected_error_falls_with_epsilon_and_with_rows_for_every_generator():
    """A prior that says otherwise would be a mistake in its formula; both are strict."""
    several = [
        chosen(asked(WIDE, epsilon=Fraction(epsilon)), AutoOptions(rows_about=9000))[1] for epsilon in (1, 2, 4)
    ]
    several += [chosen(asked(WIDE, epsilon=Fraction(4)), AutoOptions(rows_about=rows))[1] for rows in (10**5, 10**6)]
    for less, more in pairwise(several):
        assert all(more[name] < less[name] for name in less)


def test_the_plan_states_the_choice_and_charges_what_the_chosen_generator_does():
    question, options = asked(epsilon=Fraction(1)), AutoOptions(rows_about=4000)
    plan = Auto().plan(question, options)
    alone = generator("aim").plan(question, generator("aim").options())
    assert plan.events == alone.events
    assert [limit(event) for event in plan.events] == [Spending(question, None).total]
    assert plan.steps[0].what.startswith("aim was chosen")
    assert plan.steps[1:] == alone.steps


def test_a_fit_hands_over_to_the_chosen_generator_and_its_record_says_so(sqlite_place: Place):
    """The same draws as AIM alone would ask for, and the note of the choice."""
    counts = CountedTable(table())
    fitted = start(sqlite_place, Auto(), asked(), rows_about=4000).fit(counts)
    assert fitted.selections
    assert fitted.notes[0].startswith("aim was chosen, by the error that is expected of a pair of columns: ")
    assert error(counts, fitted) < 0.2


def test_without_a_number_of_rows_nothing_is_planned():
    with pytest.raises(CannotGenerate, match=r"rows_about is missing.*private here.*10\^12.*do: add"):
        Auto().plan(asked(DOMAIN), AutoOptions())
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        AutoOptions(rows_about=0)


def test_options_of_aim_reach_it_where_it_is_chosen():
    """Those of every generator stand above, and reach each that may be chosen."""
    options = AutoOptions.model_validate({"noise": "laplace", "aim": {"rounds": 7, "workload": [["a", "b"]]}})
    made = _options("aim", options)
    assert isinstance(made, AimOptions)
    assert (made.noise, made.rounds, [each.columns for each in made.workload or ()]) == ("laplace", 7, [("a", "b")])
    assert _options("mst", options) == Options(noise="laplace")


NUMBERS, CATEGORIES = (15, 20, 16, 8, 6, 11), (9, 16, 7, 15, 6, 5, 2, 42)
ADULT = (*(("number", bins) for bins in NUMBERS), *(("category", cells) for cells in CATEGORIES), ("category", 2))
FEW = (("number", 20), ("number", 15), ("category", 5), ("category", 3))
MEASURED: tuple[tuple[str, Any, int, dict[str, Any], float], ...] = (
    ("p3gm", FEW, 2_000, {}, 3.0),
    ("vae", FEW, 2_000, {}, 2.9),
    ("p3gm", ADULT, 30_000, {"epochs": 4}, 12.0),
    ("p3gm", ADULT, 30_000, {"epochs": 4, "labels": "components", "components": 3}, 8.0),
    ("ae", ADULT, 30_000, {"epochs": 4}, 9.1),
    ("vae", ADULT, 30_000, {"epochs": 4}, 5.9),
    ("dp_gm", ADULT, 30_000, {"epochs": 2}, 16.7),
    ("p3gm", ADULT, 30_000, {"decoder": "linear", "labels": "components"}, 1.8),
    ("private_evolution", FEW, 30_000, {}, 7.2),
    ("private_evolution", ADULT, 2_000, {}, 1.8),
    ("private_evolution", ADULT, 30_000, {}, 12.0),
)
"""Generator, columns, rows, options, and the processor time of one fit [s], on one thread of a shared machine of two
cores. On two threads while others used the machine, the training of p3gm took seven times as much."""


def task(kinds: tuple[tuple[Any, int], ...], **changed: Any) -> SynthesisTask:
    tables = [np.eye(cells) if kind == "category" else np.linspace(0, 1, cells)[:, None] for kind, cells in kinds]
    columns = (ColumnLayout(f"c{i}", kinds[i][0], each) for i, each in enumerate(tables))
    layout = RowLayout(tuple(columns))
    domain = CellDomain(layout.names, tuple(cells for _, cells in kinds))
    terms = {"epsilon": Fraction(1), "delta": Fraction(1, 10**9), "public_total": None, **changed}
    return SynthesisTask(domain, {}, "add_remove", 1, layout=layout, **terms)


def seconds(name: str, kinds: Any, rows: int | None, options: dict[str, Any], **changed: Any) -> float:
    made, label = generator(name), f"c{len(kinds) - 1}"
    declared = {} if rows is None else {"rows_about": rows}
    return made.plan(task(kinds, **changed), made.options(label=label, **declared, **options)).seconds


@pytest.mark.parametrize(("name", "kinds", "rows", "options", "measured"), MEASURED)
def test_the_planned_time_is_within_a_factor_of_two_of_a_fits(
    name: str, kinds: Any, rows: int, options: dict[str, Any], measured: float
):
    """It was up to five times too short: 2.5 s for 11.5 s of p3gm with two epochs of the larger table."""
    assert measured / 2 < seconds(name, kinds, rows, options) < 2 * measured


def test_where_rows_are_public_the_time_is_that_of_as_many():
    """Of class_pictures, for which no option declares rows; without a total it is that of 100,000."""
    pictures = ColumnLayout("picture", "array", np.linspace(0, 1, 16)[:, None], 784, (28, 28))
    layout = RowLayout((pictures, ColumnLayout("label", "category", np.eye(10))))
    made = generator("class_pictures")
    known, plan = (
        made.plan(
            replace(task(FEW), domain=CellDomain(layout.names, (16, 10)), layout=layout, public_total=total),
            made.options(label="label"),
        )
        for total in (30_000, None)
    )
    assert plan.seconds > known.seconds
    assert plan.notes[-1] == "time is for 100,000 rows, since the spec declares no number of rows"


def test_a_time_limit_is_held_against_processors_only_where_there_is_nothing_faster():
    """A fit that a GPU makes ten times as fast is not refused for what a processor would take."""
    limit = seconds("p3gm", ADULT, 30_000, {}) / 8
    assert seconds("p3gm", ADULT, 30_000, {"time_limit": limit, "device": "auto"}) > limit
    with pytest.raises(CannotGenerate, match="is too short for"):
        seconds("p3gm", ADULT, 30_000, {"time_limit": limit})
