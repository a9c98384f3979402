"""Generators that train a decoder, through a real ledger: planned events, resuming, labels, conditions, refusals."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from benchmarks._no_seed import no_seed
from contracts.contract.contract import Adjacency
from privacy.accounting.events import PoissonSampledGaussian
from privacy.accounting.renyi import best_epsilon
from privacy.generators.calibration import generator, names
from privacy.generators.generator import CannotGenerate, OutOfTime, SynthesisTask
from privacy.generators.latent import PhasedOptions, VariationalOptions
from privacy.generators.p3gm import latents_of
from privacy.generators.rows import read_model
from privacy.generators.vae import variational
from privacy.grant.grant import open_grant
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.mixture import Mixture
from privacy.learning.whole_network import LARGEST_LATENT, ONE
from tests.privacy.generators.small_table import RowsOf, Stopped, domain_of, start, stopping_after
from tests.privacy.ledger.ledgers import Place

pytestmark = pytest.mark.usefixtures("one_thread")
LEVELS = np.linspace(0, 1, 101)[:, None]
LAYOUT = RowLayout(
    (
        *(ColumnLayout(f"x{place}", "number", LEVELS) for place in range(4)),
        ColumnLayout("colour", "category", np.eye(2)),
        ColumnLayout("kind", "category", np.eye(3)),
    )
)
MEANS = np.array([[0.2, 0.8, 0.5, 0.5], [0.8, 0.8, 0.4, 0.5], [0.5, 0.2, 0.6, 0.5]])
DELTA = Fraction(1, 10**6)
ROWS = 3000
QUICK: dict[str, Any] = {"rows_about": ROWS, "batch": 150, "epochs": 10, "hidden": (16,), "checkpoints": 4}
FEW: dict[str, dict[str, Any]] = {"dp_gm": {"clusters": 3, "latent": 2, "encoder_hidden": ()}}
ALL = ("p3gm", "ae", "vae", "dp_gm")


def table(rows: int = ROWS) -> NDArray[np.uint8]:
    """Three clouds of shares 1/2, 1/3 and 1/6; red is common in the last one only."""
    generator = np.random.default_rng(3)
    kind = generator.choice(3, rows, p=[1 / 2, 1 / 3, 1 / 6])
    numbers = np.clip(np.rint((MEANS[kind] + generator.normal(0, 0.05, (rows, 4))) * 100), 0, 100)
    colour = generator.random(rows) < np.array([0.1, 0.1, 0.9])[kind]
    return np.column_stack([numbers, colour, kind]).astype(np.uint8)


Rows = partial(RowsOf, LAYOUT)


def question(
    epsilon: Fraction = Fraction(8), adjacency: Adjacency = "add_remove", rows_per_unit: int = 1
) -> SynthesisTask:
    return SynthesisTask(domain_of(LAYOUT), {}, adjacency, rows_per_unit, epsilon, DELTA, None, LAYOUT)


def same(one: Any, other: Any) -> bool:
    (values, arrays), (values_again, arrays_again) = one.to_arrays(), other.to_arrays()
    return values == values_again and all((each == arrays_again[name]).all() for name, each in arrays.items())


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("reserve", [0, 1])
def test_what_is_drawn_is_what_was_planned_less_the_reserve(sqlite_place: Place, name: str, reserve: int):
    """The events compose to the charge, no more and hardly less; no interval is reserved that nobody asked for."""
    asked_for: dict[str, Any] = {"reserve": reserve} if reserve else {}
    options = {**QUICK, **FEW.get(name, {}), **asked_for}
    run = start(sqlite_place, generator(name), question(Fraction(2)), label="kind", **options)
    fitted = run.fit(Rows(table()))  # type: ignore[arg-type]
    drawn = run.drawn()
    assert drawn == list(run.plan.events)[: len(drawn)]
    assert list(run.plan.events)[len(drawn) :] == drawn[-1:] * reserve
    assert isinstance(drawn[-1], PoissonSampledGaussian)
    assert [each.event for each in fitted.sums] == drawn[: len(fitted.sums)]
    assert [len(each.draws) for each in fitted.trainings] == [4]
    epsilon = best_epsilon(run.plan.events, DELTA)[0]
    assert 1.99 < epsilon <= 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("p3gm", {}),
        ("p3gm", {"labels": "components"}),
        ("p3gm", {"labels": "components", "components": 2, "rounds": 2}),
        ("p3gm", {"labels": "joined", "components": 12, "rounds": 6}),
        ("p3gm", {"number_loss": "squared_error", "number_variance": 0.02, "kl_weight": 0.5, "latent_samples": 2}),
        ("ae", {}),
        ("ae", {"dimensions": 3}),
        ("dp_gm", {"clusters": 6, "latent": 2, "encoder_hidden": ()}),
    ],
)
def test_the_clouds_come_out_with_their_shares(sqlite_place: Place, name: str, options: dict[str, Any]):
    quick = {**QUICK, "rows_about": 20_000, "batch": 1000, "learning_rate": 0.02, "epochs": 10}
    run = start(sqlite_place, generator(name), question(Fraction(8)), label="kind", **quick, **options)
    model = run.fit(Rows(table(20_000))).model  # type: ignore[arg-type]
    made = model.sample(6000, seed=4)
    assert model.rows == pytest.approx(20_000, abs=100)
    assert np.bincount(made[:, 5], minlength=3) / 6000 == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.06)
    for kind in range(3):
        cloud = made[made[:, 5] == kind]
        assert cloud[:, :4].mean(axis=0) / 100 == pytest.approx(MEANS[kind], abs=0.2)
        assert cloud[:, 4].mean() == pytest.approx([0.1, 0.1, 0.9][kind], abs=0.3)


@pytest.mark.long
def test_an_autoencoder_of_variations_keeps_means_and_shares(sqlite_place: Place):
    """Trained as a whole it may tell the clouds apart or not; what a mean is, and the label's shares, it keeps. In 40
    fits the largest error of a mean is 0.082 with a deviation of 0.006, that of a share 0.018 with 0.005: limits are
    11 and 7 deviations away. A network that learned nothing misses a mean by 0.32."""
    quick = {**QUICK, "rows_about": 20_000, "batch": 1000, "learning_rate": 0.02, "epochs": 20}
    run = start(sqlite_place, generator("vae"), question(), label="kind", **quick)
    codes = table(20_000)
    made = run.fit(Rows(codes)).model.sample(6000, seed=4)  # type: ignore[arg-type]
    assert np.bincount(made[:, 5], minlength=3) / 6000 == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.06)
    assert made[:, :4].mean(axis=0) / 100 == pytest.approx(codes[:, :4].mean(axis=0) / 100, abs=0.15)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_it_is_replayed_when_it_is_resumed(sqlite_place: Place, name: str):
    """A fit that stops goes on from the last checkpoint, and draws nothing twice."""
    run = start(sqlite_place, generator(name), question(), label="kind", **QUICK, **FEW.get(name, {}))
    with pytest.raises(Stopped):
        run.fit(Rows(table()), stopping_after(80))  # type: ignore[arg-type]
    begun = len(run.drawn())
    assert 0 < begun < len(run.plan.events)
    first = run.fit(Rows(table()))  # type: ignore[arg-type]
    assert run.drawn() == list(run.plan.events)
    assert same(first.model, run.fit(Rows(table()[:0])).model)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_condition_holds_on_the_model_that_is_read_back(sqlite_place: Place, name: str):
    run = start(sqlite_place, generator(name), question(), label="kind", **QUICK, **FEW.get(name, {}))
    model = run.fit(Rows(table())).model  # type: ignore[arg-type]
    again = read_model(model.kind, *model.to_arrays())
    assert (again.sample(500, seed=1) == model.sample(500, seed=1)).all()
    assert set(again.sample(300, seed=1, where={"kind": [2]})[:, 5]) == {2}
    assert set(again.sample(300, seed=1, where={"colour": [0], "kind": [0, 1]})[:, 4]) == {0}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_give_a_sound_result(sqlite_place: Place, name: str, rows: int):
    run = start(sqlite_place, generator(name), question(Fraction(1)), label="kind", **QUICK, **FEW.get(name, {}))
    model = run.fit(Rows(table(rows))).model  # type: ignore[arg-type]
    assert 0 <= model.rows < 1000
    assert model.sample(100, seed=0).shape == (100, 6)


def test_the_time_limit_stops_it_and_the_same_run_goes_on(sqlite_place: Place):
    """The interval that was running is durable by then: nothing is drawn twice."""
    run = start(sqlite_place, generator("ae"), question(), label="kind", **QUICK, time_limit=1000)
    late = run.options.model_copy(update={"time_limit": 1e-3})
    grant = open_grant(run.ledger, run.run_key)
    with pytest.raises(OutOfTime, match="goes on from the last checkpoint"):
        run.generator.fit(run.asked, late, run.plan, Rows(table()), grant, lambda done, what: None, no_seed)  # type: ignore[arg-type]
    run.fit(Rows(table()))  # type: ignore[arg-type]
    assert run.drawn() == list(run.plan.events)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("options", "changed", "message"),
    [
        ({"label": "sort"}, {}, "is not among the columns"),
        ({"label": "x0"}, {}, "a number in bins"),
        ({}, {"delta": Fraction(0)}, "a delta above 0"),
        ({}, {"adjacency": "replace_one"}, "adjacency is replace_one"),
        ({}, {"rows_per_unit": 2}, "max_rows_per_unit is 2"),
        ({"batch": 4000}, {}, "batch is 4000; allowed: at most the declared number of rows, 3000"),
        ({}, {"epsilon": Fraction(1, 1000)}, "do: take an epsilon of about|an epsilon of at least"),
        ({"max_memory_megabytes": 0.01}, {}, "max_memory_megabytes"),
        ({"time_limit": 1e-3}, {}, "time_limit 0.001 s is too short"),
    ],
)
def test_what_must_fail_is_refused_by_the_plan(
    name: str, options: dict[str, Any], changed: dict[str, Any], message: str
):
    made = generator(name)
    with pytest.raises(CannotGenerate, match=message):
        made.plan(replace(question(), **changed), made.options(**{"label": "kind", **QUICK, **options}))


LOSSES: tuple[dict[str, Any], ...] = (
    {"number_loss": "squared_error"},
    {"number_loss": "squared_error", "number_variance": 1e-6},
    {"kl_weight": 0.0},
    {"kl_weight": 1000.0},
    {"latent_samples": 64},
)


@pytest.mark.parametrize("name", ["p3gm", "vae", "dp_gm"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_what_the_loss_of_a_row_is_changes_no_event(name: str, loss: dict[str, Any]):
    """Noise, sampling and steps are those of the default: a row's gradient is clipped whatever its loss is. That it
    is, with such losses too, is looked at in `test_clipping` (`LEARNERS["wild"]`)."""
    made, options = generator(name), {"label": "kind", **QUICK, **FEW.get(name, {})}
    plain = made.plan(question(), made.options(**options))
    assert made.plan(question(), made.options(**options, **loss)).events == plain.events


def test_the_options_of_the_loss_reach_the_learner_that_is_trained():
    given = {"number_loss": "squared_error", "number_variance": 0.25, "kl_weight": 0.5, "latent_samples": 3}
    learner = variational(9, VariationalOptions(rows_about=100, **given))
    assert (learner.numbers, learner.number_variance) == ("gaussian", 0.25)
    assert (learner.kl_weight, learner.samples) == (0.5, 3)
    plain = variational(9, VariationalOptions(rows_about=100))
    assert (plain.numbers, plain.kl_weight, plain.samples) == ("bernoulli", 1.0, 1)
    squares = variational(9, VariationalOptions(rows_about=100, number_loss="squared_error"))
    assert squares.number_variance == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"number_variance": 0.1}, "number_variance only beside number_loss: squared_error; leave it out"),
        ({"number_loss": "absolute"}, "cross_entropy"),
        ({"number_loss": "squared_error", "number_variance": 0}, "greater than or equal"),
        ({"kl_weight": -1}, "greater than or equal"),
        ({"kl_weight": float("nan")}, "finite"),
        ({"latent_samples": 0}, "greater than or equal"),
        ({"latent_samples": 65}, "less than or equal"),
        ({"labels": "shared"}, "joined"),
    ],
)
def test_losses_that_cannot_be_are_refused(given: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        PhasedOptions(rows_about=100, **given)


KIND = {"label": "kind"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ae", {**KIND, "variance_hidden": (10,)}, r"variance_hidden is \[10\]; allowed: \[\].*; do: leave it"),
        ("ae", {**KIND, "latent_samples": 2}, "ae: latent_samples is 2; allowed: 1.* do: leave it out, or take p3gm"),
        ("ae", {**KIND, "kl_weight": 0.5}, "ae: kl_weight is 0.5; allowed: 1.* do: leave it out, or take p3gm"),
        ("p3gm", {"labels": "components"}, "options.labels: components, and no label; .* do: write label"),
        ("ae", {"labels": "joined"}, "options.labels: joined, and no label; .* do: write label"),
    ],
)
def test_options_that_would_do_nothing_are_refused(name: str, options: dict[str, Any], message: str):
    """They passed in silence."""
    made = generator(name)
    with pytest.raises(CannotGenerate, match=message):
        made.plan(question(), made.options(**QUICK, **options))


def test_rounds_of_one_component_of_each_label_are_noted_and_plan_what_they_planned():
    """A record states rounds that nobody wrote: those of another default are not refused, and plan the same."""
    made, written = generator("p3gm"), {"label": "kind", "labels": "components", **QUICK}
    plain, nine = (made.plan(question(), made.options(**written, **more)) for more in ({}, {"rounds": 9}))
    assert nine.events == plain.events
    assert not [note for note in plain.notes if "rounds" in note]
    assert "rounds: 9 has no effect: one round measures one component of each label" in nine.notes


def test_a_norm_too_small_for_the_sums_of_a_linear_decoder_is_refused_with_one_that_will_do():
    """Its norms are on a finer lattice: what the plan names was refused by an error that was none of ours."""
    made = generator("p3gm")
    written = {"label": "kind", "labels": "components", "decoder": "linear", "rows_about": 2000}
    with pytest.raises(CannotGenerate, match=r"options\.clip: 1e-06 for vectors") as refused:
        made.plan(question(), made.options(clip=1e-6, **written))
    least = float(str(refused.value).split("at least ")[1].split(",")[0])
    assert made.plan(question(), made.options(clip=least, **written)).events
    with pytest.raises(CannotGenerate, match=r"options\.clip"):
        made.plan(question(), made.options(clip=least / 1.2, **written))


@pytest.mark.parametrize("name", ["p3gm", "ae", "dp_gm"])
def test_a_norm_too_small_for_exact_sums_is_refused_by_the_plan(name: str):
    """It ended the plan with an error that was none of ours."""
    made, rows = generator(name), {**QUICK, **FEW.get(name, {})}
    with pytest.raises(
        CannotGenerate, match=r"options.clip: 1e-06 for vectors .* at least 0.000\d, .* do: raise clip"
    ):
        made.plan(question(), made.options(label="kind", clip=1e-6, **rows))


@pytest.mark.parametrize(("name", "clip"), [("p3gm", 1e-3), ("ae", 1e-3), ("dp_gm", 3e-4)])
def test_the_smallest_norms_that_a_plan_takes_are_fitted(sqlite_place: Place, name: str, clip: float):
    """All rows are alike and the norm is small: the fit, which is charged, must not end by what its lattices hold."""
    options = {**QUICK, **FEW.get(name, {}), "dimensions": 2, "epochs": 1, "clip": clip}
    run = start(sqlite_place, generator(name), question(Fraction(8)), label="kind", **options)
    assert run.fit(Rows(np.zeros((ROWS, 6), np.uint8))).model is not None  # type: ignore[arg-type]


def test_more_components_than_a_mixture_holds_are_refused_by_the_plan():
    labels = ColumnLayout("kind", "category", np.eye(17))
    layout = RowLayout((*LAYOUT.columns[:4], labels))
    task, made = replace(question(), layout=layout, domain=domain_of(layout)), generator("p3gm")
    with pytest.raises(CannotGenerate, match=r"components: 256 for each of the 17 cells of 'kind'; .* 240 of each"):
        made.plan(task, made.options(label="kind", components=256, **QUICK))


@pytest.mark.parametrize("layer", ["hidden", "encoder_hidden", "variance_hidden"])
def test_a_layer_without_width_is_refused_where_it_is_written(layer: str):
    """It was refused later, without its place in the spec."""
    model = generator("p3gm" if layer == "variance_hidden" else "vae").options
    with pytest.raises(ValidationError, match=rf"{layer}\.1\n.*greater than or equal to 1"):
        model(rows_about=100, **{layer: (5, 0)})


def test_labels_are_joined_where_another_column_is_of_categories_and_no_row_has_a_say():
    """The choice reads kinds of columns; the plan says it, with the number of components."""
    numbers = RowLayout((*LAYOUT.columns[:4], LAYOUT.columns[5]))
    picture = RowLayout((ColumnLayout("shown", "array", LEVELS, length=4), LAYOUT.columns[5]))
    options = PhasedOptions(rows_about=100, label="kind")
    assert options.mixture_of(LAYOUT) == ("joined", 10)
    assert options.mixture_of(numbers) == options.mixture_of(picture) == ("components", 1)
    written = PhasedOptions(rows_about=100, label="kind", labels="joined", components=3)
    assert written.mixture_of(numbers) == ("joined", 3)
    assert PhasedOptions(rows_about=100, label="kind", labels="components").mixture_of(LAYOUT) == ("components", 1)
    assert PhasedOptions(rows_about=100).mixture_of(LAYOUT)[1] == 1
    made = generator("p3gm")
    steps = [step.what for step in made.plan(question(), made.options(label="kind", **QUICK)).steps]
    assert "mixture (labels joined, 10 components)" in steps
    own = made.options(label="kind", labels="components", **QUICK)
    assert "mixture (labels components, 1 component for each label)" in [
        s.what for s in made.plan(question(), own).steps
    ]


def test_they_are_registered():
    assert set(ALL) <= set(names())


def test_means_that_noise_threw_far_out_are_cut_and_end_no_fit():
    """Where next to nothing is left of the variance, the scale is large; latents keep their range all the same."""
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[1e6, 0.0], [-3.0, 0.25]]), np.stack([np.eye(2), np.eye(2)]))
    latents = latents_of(mixture, 1.0)
    assert latents.means.tolist() == [[LARGEST_LATENT, 0], [-3 * ONE, ONE // 4]]
