"""Pictures by smooth Gaussians of each label, through a real ledger: the draws, the pictures, and refusals."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.renyi import best_epsilon
from privacy.generators.calibration import names
from privacy.generators.class_pictures import ClassPictures, lowest_cosines, rounds_afforded
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.rows import read_model
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import Moments
from tests.privacy.generators.small_table import RowsOf, Stopped, domain_of, start, stopping_after
from tests.privacy.ledger.ledgers import Place

HEIGHT, WIDTH, LEVELS, LABELS = 10, 8, 32, 3
PIXELS = HEIGHT * WIDTH
POINTS = np.linspace(0, 1, LEVELS)[:, None]
LAYOUT = RowLayout(
    (
        ColumnLayout("picture", "array", POINTS, PIXELS, (HEIGHT, WIDTH)),
        ColumnLayout("kind", "category", np.eye(LABELS)),
    )
)
MIDDLES = np.array([[2.0, 2.0], [5.0, 5.0], [7.0, 2.0]])


def table(rows: int = 6000) -> NDArray[np.uint8]:
    """A spot a picture, whose place is the label's up to a normal shift."""
    generator = np.random.default_rng(3)
    kind = generator.integers(0, LABELS, rows)
    middle = MIDDLES[kind] + generator.normal(0, 0.5, (rows, 2))
    i, j = np.mgrid[0:HEIGHT, 0:WIDTH]
    away = (i[None] - middle[:, 0, None, None]) ** 2 + (j[None] - middle[:, 1, None, None]) ** 2
    levels = np.rint((LEVELS - 1) * np.exp(-away / 5)).reshape(rows, PIXELS)
    return np.column_stack([levels, kind]).astype(np.uint8)


Rows = partial(RowsOf, LAYOUT)


def question(layout: RowLayout = LAYOUT, epsilon: Fraction = Fraction(2), **changed: Any) -> SynthesisTask:
    asked = SynthesisTask(domain_of(layout), {}, "add_remove", 1, epsilon, Fraction(1, 10**6), None, layout)
    return replace(asked, **changed)


def test_every_labels_pictures_have_their_spot_and_the_draws_are_the_planned_ones(sqlite_place: Place):
    run = start(sqlite_place, ClassPictures(), question(), label="kind", dimensions=8, frequencies=20)
    fitted = run.fit(Rows(table()))  # type: ignore[arg-type]
    assert run.drawn() == list(run.plan.events) == [each.event for each in fitted.sums]
    assert [each.statistic.embedding.dimension for each in fitted.sums] == [PIXELS, 20, 8]
    made = fitted.model.sample(6000, seed=4)
    assert fitted.model.rows == pytest.approx(6000, abs=200)
    i, j = np.mgrid[0:HEIGHT, 0:WIDTH]
    for kind in range(LABELS):
        mean = made[made[:, -1] == kind, :-1].mean(axis=0).reshape(HEIGHT, WIDTH)
        weight = np.maximum(mean - mean.mean(), 0)
        found = [(weight * i).sum() / weight.sum(), (weight * j).sum() / weight.sum()]
        assert found == pytest.approx(MIDDLES[kind], abs=1.0)


@pytest.mark.long
def test_the_public_model_gives_the_same_pictures_and_deformations_are_part_of_it(sqlite_place: Place):
    run = start(sqlite_place, ClassPictures(), question(), label="kind", deform=0.1)
    model = run.fit(Rows(table())).model  # type: ignore[arg-type]
    values, arrays = model.to_arrays()
    again = read_model(model.kind, values, arrays)
    assert (again.sample(9000, seed=5) == model.sample(9000, seed=5)).all()
    assert set(again.sample(300, seed=1, where={"kind": [2]})[:, -1]) == {2}
    still = {**values["deformations"]["picture"], "turn": 0, "scale": 0, "shift": 0}
    plain = read_model(model.kind, {**values, "deformations": {"picture": still}}, arrays).sample(9000, seed=5)
    assert (
        plain
        == read_model("decoder", {k: v for k, v in values.items() if k != "deformations"}, arrays).sample(
            9000, seed=5
        )
    ).all()
    changed = (plain != model.sample(9000, seed=5)).any(axis=1)
    assert changed.mean() > 0.9
    with pytest.raises(ValueError, match="no column picture of pictures of 5 x 8"):
        read_model(model.kind, {**values, "deformations": {"picture": {**still, "height": 5}}}, arrays)


@pytest.mark.long
@pytest.mark.parametrize("components", [1, 4])
def test_it_is_replayed_when_it_is_resumed(sqlite_place: Place, components: int):
    run = start(sqlite_place, ClassPictures(), question(), label="kind", components=components)
    with pytest.raises(Stopped):
        run.fit(Rows(table()), stopping_after(2))  # type: ignore[arg-type]
    first, again = run.fit(Rows(table())), run.fit(Rows(table()[:0]))  # type: ignore[arg-type]
    assert len(run.drawn()) == {1: 3, 4: 5}[components]
    assert (first.model.sample(50, seed=1) == again.model.sample(50, seed=1)).all()


def test_a_public_total_is_the_number_of_rows(sqlite_place: Place):
    asked = question(adjacency="replace_one", public_total=6000)
    run = start(sqlite_place, ClassPictures(), asked, label="kind", dimensions=8, frequencies=20)
    assert run.fit(Rows(table())).model.rows == 6000  # type: ignore[arg-type]


@pytest.mark.parametrize("components", [None, 4])
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_hardly_any_rows_give_a_sound_result(sqlite_place: Place, rows: int, components: int | None):
    asked = question(epsilon=Fraction(1, 10))
    run = start(sqlite_place, ClassPictures(), asked, label="kind", components=components)
    model = run.fit(Rows(table(rows))).model  # type: ignore[arg-type]
    assert model.sample(100, seed=0).shape == (100, PIXELS + 1)


@pytest.mark.parametrize(
    ("epsilon", "terms", "rounds"),
    [
        (1, {}, 0),
        (2, {}, 0),
        (5, {}, 1),
        (10, {}, 2),
        (100, {}, 4),
        (10, {"adjacency": "replace_one"}, 1),
        (10, {"rows_per_unit": 4}, 0),
        (1000, {"rows_per_unit": 16}, 2),
        (1000, {"rows_per_unit": 17}, 0),
        (Fraction(1, 100), {}, 0),
    ],
)
def test_the_charge_alone_says_how_often_labels_are_split(epsilon: Any, terms: dict[str, Any], rounds: int):
    """At epsilon 1 a label has one Gaussian, as ever; the plan holds each round's draw, and the whole charge."""
    asked = question(epsilon=Fraction(epsilon), delta=Fraction(1, 10**5), **terms)
    assert rounds_afforded(asked) == rounds
    plan = ClassPictures().plan(asked, ClassPictures.options(label="kind"))
    assert [step.what for step in plan.steps].count("components of classes") == rounds
    assert len(plan.events) == 3 + rounds
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert 0.97 * float(asked.epsilon) < best_epsilon(plan.events, asked.delta)[0] <= float(asked.epsilon)


@pytest.mark.long
@pytest.mark.parametrize("components", [1, 4])
def test_a_label_whose_spot_is_here_or_there_gets_both_places(sqlite_place: Place, components: int):
    """One Gaussian spreads the spot over both places; each of several components has it in one of them. 30 fits of
    four components gave 0.1585 (standard deviation 0.0008), 12 of one 0.2637 (0.0002)."""
    rows = table()
    # Of the first and the third kind a label: the spot is in the upper half, or in the lower one.
    rows = rows[rows[:, -1] != 1]
    rows[:, -1] = 0

    def undecided(pictures: NDArray[Any]) -> float:
        halves = pictures.reshape(-1, 2, PIXELS // 2).astype(float).sum(axis=2)
        return float((halves.min(axis=1) / halves.sum(axis=1)).mean())

    asked, options = question(epsilon=Fraction(20)), {"deform": 0.0, "components": components}
    run = start(sqlite_place, ClassPictures(), asked, label="kind", **options)
    fitted = run.fit(Rows(rows))  # type: ignore[arg-type]
    assert run.drawn() == list(run.plan.events) == [each.event for each in fitted.sums]
    made = undecided(fitted.model.sample(4000, seed=2, where={"kind": [0]})[:, :-1])
    assert undecided(rows[:, :-1]) < 0.07
    assert (made < 0.21) is (components == 4)
    # The other labels have no rows, and are not split.
    assert fitted.model.labels.tolist() == ([0] * components) + [1, 2]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_neighbour_moves_a_smooth_sum_further_than_its_moves_say(adjacency: Any):
    """The axes' statistic on the public basis: extreme rows that come, go or are exchanged, in integers."""
    form = ClassPictures().form(question(), ClassPictures.options(label="kind", frequencies=20))
    generator = np.random.default_rng(6)
    extreme = generator.integers(0, 2, (40, PIXELS)) * (LEVELS - 1)
    rows = np.column_stack([extreme, generator.integers(0, LABELS, 40)]).astype(np.uint8)
    statistic: Moments = form.statistics[1]
    assert statistic.parts == ("full",)
    most = sum(move * move for move in statistic.moves(adjacency, 1))
    each = [statistic.total(rows[place : place + 1], LAYOUT).astype(object) for place in range(len(rows))]
    changes = each if adjacency == "add_remove" else [one - two for one in each for two in each]
    norms = [int((change * change).sum()) for change in changes]
    assert max(norms) <= most
    assert max(norms) > 0.3 * most


@pytest.mark.parametrize(
    ("options", "changed", "message"),
    [
        ({"label": "sort"}, {}, "is not among the columns"),
        ({"label": "kind"}, {"delta": Fraction(0)}, "a delta above 0"),
        ({"label": "kind", "components": 4}, {"rows_per_unit": 17}, "1 where a unit has more than 16 rows"),
    ],
)
def test_what_must_fail_is_refused_by_the_plan(options: dict[str, Any], changed: dict[str, Any], message: str):
    with pytest.raises(CannotGenerate, match=message):
        ClassPictures().plan(question(**changed), ClassPictures.options(**options))


@pytest.mark.parametrize(("components", "nearest"), [(3, (2, 4)), (5, (4, 8)), (15, (8, 16))])
def test_a_number_of_components_that_doubling_does_not_reach_is_refused(components: int, nearest: tuple[int, int]):
    """Three were two, and the plan did not say so."""
    wanted = f"options.components: {components} .* one of 1, 2, 4, 8, 16; do: .*: {nearest[0]} or .*: {nearest[1]}$"
    with pytest.raises(CannotGenerate, match=wanted):
        ClassPictures().plan(question(), ClassPictures.options(label="kind", components=components))


@pytest.mark.parametrize("components", [1, 2, 4, 8, 16])
def test_as_many_components_are_measured_as_are_asked_for(components: int):
    """Memory holds a matrix of each."""
    asked, options = question(epsilon=Fraction(20)), ClassPictures.options(label="kind", components=components)
    rounds = ClassPictures().form(asked, options).rounds
    assert 2**rounds == components


def test_a_column_that_holds_no_pictures_is_refused_by_name():
    layout = RowLayout((*LAYOUT.columns, ColumnLayout("age", "number", POINTS)))
    with pytest.raises(CannotGenerate, match="column 'age' holds no pictures; allowed: a label, and columns of"):
        ClassPictures().plan(question(layout), ClassPictures.options(label="kind"))


def test_the_lowest_cosines_are_orthonormal_and_begin_with_the_mean():
    basis = lowest_cosines(HEIGHT, WIDTH, most=30)
    assert basis.T @ basis == pytest.approx(np.eye(30), abs=1e-12)
    assert np.ptp(basis[:, 0]) == pytest.approx(0, abs=1e-12)
    assert lowest_cosines(HEIGHT, WIDTH, most=10**6).shape == (PIXELS, PIXELS)


def test_it_is_registered():
    assert "class_pictures" in names()


def test_labels_are_split_no_further_than_there_may_be_gaussians_and_memory_is_told_of_all():
    """300 labels of 16 components would be 4,800 of at most 4,096: known before anything is charged."""
    kinds = ColumnLayout("kind", "category", np.eye(300))
    asked = question(RowLayout((LAYOUT.columns[0], kinds)), epsilon=Fraction(100), delta=Fraction(1, 10**5))
    assert rounds_afforded(asked) == 4
    one, most = (
        ClassPictures().plan(asked, ClassPictures.options(label="kind", components=components))
        for components in (1, None)
    )
    assert [step.what for step in most.steps].count("components of classes") == 3
    assert 4 < most.megabytes / one.megabytes <= 8
    with pytest.raises(CannotGenerate, match=r"16 for the 300 cells of 'kind'; allowed: 4,096 .* 8 a label"):
        ClassPictures().plan(asked, ClassPictures.options(label="kind", components=16))
