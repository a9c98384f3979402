"""Accuracy that is asked for: what an aim says, the least epsilon that reaches it, `plan --for`, and its picture."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import log2
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from console.aims import curve, least_epsilon, reached, read_aims
from console.products.product_view import ExpectedWidth
from console.trade_off import as_svg, trade_off
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from flows.request import planned_request, read_request
from tests.console.conftest import Place, Typed

SPEC = Path("spec.yaml")


def widths(epsilon: Decimal) -> Sequence[ExpectedWidth]:
    """Two tables whose noise is 30 / epsilon wide, and a mean in one of them."""
    return [
        ExpectedWidth("age", "count", 30 / float(epsilon)),
        ExpectedWidth("age", "mean_hours", 400 / float(epsilon), by_rows=True),
        ExpectedWidth("education_x_income", "count", 60 / float(epsilon)),
        ExpectedWidth("ages", "q50_age", 10 / float(epsilon)),
    ]


@pytest.mark.parametrize(
    ("text", "named", "reach", "rows"),
    [
        ("±50", None, 50, None),
        ("+-1,000", None, 1000, None),
        ("± 5% where count >= 1000", None, 50, 1000),
        ("±5% at 95% where count >= 1_000", None, 50, 1000),
        (" age: ±2.5 at 95.0% ", "age", 2.5, None),
        ("age.mean_hours: +/-.5 where count ≥ 200", "age.mean_hours", 0.5, 200),
    ],
)
def test_an_aim_is_read(text: str, named: str | None, reach: float, rows: int | None):
    (aim,) = read_aims([text], SPEC)
    assert (aim.named, aim.reach, aim.rows) == (named, reach, rows)


@pytest.mark.parametrize(
    ("text", "allowed", "remedy"),
    [
        ("50", "±NUMBER", "write it like"),
        ("±-5", "±NUMBER", "write it like"),
        ("±5 rows", "±NUMBER", "write it like"),
        ("±5%", "from a size on", "write ±5% where count >= 1000"),
        ("±0", "above 0", "allow for some error"),
        ("±5% where count >= 0", "above 0", "allow for some error"),
        ("±5 at 99%", "at 95%", "drop `at`"),
        ("±5 at 9.5.1%", "±NUMBER", "write it like"),
        ("±5 at .%", "±NUMBER", "write it like"),
        ("age.mean_hours: ±5% where count >= 10", "% of counts alone", "units"),
        ("aeg: ±5", "TABLE.STATISTIC", "write 'age' instead of 'aeg'"),
        ("age.mean_hour: ±5 where count >= 9", "TABLE.STATISTIC", "age.mean_hours"),
        ("income: ±5", "TABLE.STATISTIC", "names are"),
        ("ages: ±5", "a table with counts", "name a statistic of it: one of ages.q50_age"),
        ("age.mean_hours: ±5", "the rows of the smallest cell", "where count >= 1000"),
        ("±0.0001", "an aim that epsilon 1000, the largest, reaches", "allow for more error"),
    ],
)
def test_an_aim_that_cannot_be_followed_is_refused(text: str, allowed: str, remedy: str):
    with pytest.raises(SpecRefused) as refused:
        least_epsilon(read_aims([text], SPEC), widths, SPEC)
    (finding,) = refused.value.findings
    assert (finding.where, finding.field) == ("sudare plan spec.yaml", "--for")
    assert text.strip() in finding.found
    assert allowed in finding.allowed
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("texts", "least"),
    [
        (["±60"], "1"),
        (["±59"], "1.02"),
        (["age: ±60"], "0.5"),
        (["±6"], "10"),
        (["±0.06"], "1000"),
        (["±60,000"], "0.001"),
        (["±60,000,000,000"], "0.000001"),
        (["age: ±30", "age.mean_hours: ±1 where count >= 100", "education_x_income: ±10% where count >= 1000"], "4"),
    ],
)
def test_the_least_epsilon_of_three_digits_is_found(texts: list[str], least: str):
    aims = read_aims(texts, SPEC)
    found = least_epsilon(aims, widths, SPEC)
    assert found == Decimal(least)
    assert all(each.holds for each in reached(aims, widths(found), SPEC))
    less = found * Decimal("0.98")
    assert found == Decimal("1e-6") or not all(each.holds for each in reached(aims, widths(less), SPEC))


def test_widths_that_fall_in_steps_are_followed_to_the_edge():
    """Half widths of counts are whole numbers."""

    def steps(noise: Callable[[float], int]) -> Decimal:
        return least_epsilon(
            read_aims(["±9"], SPEC), lambda epsilon: [ExpectedWidth("t", "count", noise(float(epsilon)))], SPEC
        )

    assert steps(lambda epsilon: int(30 / epsilon)) == Decimal("3.01")
    assert steps(lambda epsilon: round(30 / epsilon)) == Decimal("3.16")


def test_an_interval_of_a_mean_is_longer_where_its_rows_are_few_and_never_longer_than_all_that_is_possible():
    """Its denominator is noisy: with g the squared share of the rows that is noise, 1 / (1 - g) times as long."""
    mean = ExpectedWidth("age", "mean_hours", 400.0, by_rows=True, count=10.0, most=49.5)
    assert mean.of(1000) == pytest.approx(0.4 / (1 - 1e-4))
    assert mean.of(20) == pytest.approx(20 / 0.75)
    assert mean.of(12) == mean.of(10) == mean.of(1) == 49.5


def test_the_curve_shows_what_other_epsilons_would_give():
    aims = read_aims(["±60", "age: ±60"], SPEC)
    told = curve(aims, widths, Decimal(1), SPEC)
    assert [each["epsilon"] for each in told] == ["0.25", "0.5", "1", "2", "4"]
    assert told[1]["half_widths"] == [120, 60]
    assert [each["epsilon"] for each in curve(aims, widths, Decimal(500), SPEC)] == ["125", "250", "500", "1000"]


def half_widths(place: Place, spec: str, epsilon: str) -> dict[str, int]:
    """Plan the tables of a spec at an epsilon, and return how far 95 % of the noises of each reach."""
    request = read_request(place.adult / spec)
    charge = request.spec.charge.model_copy(update={"epsilon": Decimal(epsilon)})
    plan: Any = planned_request(request.spec.model_copy(update={"charge": charge}), request.contract).plan
    return {draw.key: draw.half_width for draw in plan.draws}


@pytest.mark.parametrize("noise", ["mechanism: laplace", "mechanism: gaussian"])
def test_the_least_epsilon_reaches_the_aim_and_no_less_does(shared: Place, typed: Typed, noise: str):
    charge = "delta: 0" if "laplace" in noise else "delta: 1e-9"
    spec = shared.spec(f"aimed-{noise[-7:]}", ("mechanism: laplace", noise), ("delta: 0", charge))
    aims = ("--for", "±5% where count >= 1000", "--for", "age: ±20")
    said = typed("plan", str(spec), *aims, "--json", at=shared.workspace).json
    epsilon = said["aims"]["epsilon"]
    assert float(said["epsilon"]) == pytest.approx(float(epsilon), rel=1e-6)
    assert said["aims"]["binding"] == "age: ±20"
    assert half_widths(shared, spec.name, epsilon)["table:age"] == 20
    less = Decimal(epsilon) * Decimal("0.99")
    assert half_widths(shared, spec.name, str(less))["table:age"] > 20
    assert [draw["interval_95"] for draw in said["draws"]] == [*half_widths(shared, spec.name, epsilon).values()]


@pytest.mark.parametrize("noise", ["mechanism: laplace", "mechanism: gaussian"])
def test_weights_that_cost_less_reach_the_aims(shared: Place, typed: Typed, noise: str):
    """With the weights that are named and written into the spec, the epsilon that is named is found again."""
    name = f"weighed-{noise[-7:]}"
    charge = "delta: 0" if "laplace" in noise else "delta: 1e-9"
    changes = (("mechanism: laplace", noise), ("delta: 0", charge))
    tables = ("[education, income]", "[age]", "[marital-status, sex, income]")
    names = ("education_x_income", "age", "marital-status_x_sex_x_income")
    aims = [f"{table}: ±{reach}" for table, reach in zip(names, (40, 10, 100), strict=True)]
    words = [word for aim in aims for word in ("--for", aim)]
    said = typed("plan", str(shared.spec(name, *changes)), *words, "--json", at=shared.workspace).json
    weights, epsilon = said["aims"]["weights"]["of"], said["aims"]["weights"]["epsilon"]
    assert Decimal(epsilon) < Decimal("0.7") * Decimal(said["epsilon"])
    assert weights[names[1]] == max(weights.values(), key=Decimal)
    written = [
        (f"    - {old}\n", f"    - {{columns: {old}, weight: {weights[table]}}}\n")
        for old, table in zip(tables, names, strict=True)
    ]
    again = typed("plan", str(shared.spec(f"{name}-2", *changes, *written)), *words, "--json", at=shared.workspace)
    assert again.json["aims"]["epsilon"] == epsilon
    assert all(each["half_width_95"] >= 0.9 * each["at_most"] for each in again.json["aims"]["aims"])


def test_statistics_have_aims_too(shared: Place, typed: Typed):
    """Ten times the rows, a tenth of the half width."""
    spec = str(shared.adult / "statistics.yaml")
    found = [
        typed("plan", spec, "--for", f"sex_x_race.mean_hours-per-week: ±0.5 where count >= {rows}", "--json").json
        for rows in (100, 1000)
    ]
    small, large = (Decimal(each["epsilon"]) for each in found)
    assert float(small / large) == pytest.approx(10, rel=0.02)
    assert "weights" not in found[0]["aims"]


def test_a_person_sees_what_decides_and_what_to_write(shared: Place, typed: Typed):
    spec = str(shared.adult / "tables.yaml")
    said = typed("plan", spec, "--for", "±20", at=shared.workspace)
    assert "cost ε = 0.439 at δ = 0" in " ".join(said.out.split())
    assert "±20 decides: with less than ε = 0.439 it is not reached" in said.out
    assert "write epsilon: 0.439 into the spec to release it so" in said.out
    assert load_spec(shared.adult / "tables.yaml").charge.epsilon == 1


def test_what_the_account_cannot_pay_ends_with_what_fits(shared: Place, typed: Typed):
    said = typed("plan", str(shared.adult / "tables.yaml"), "--for", "±1", at=shared.workspace)
    assert said.code == 4
    assert "it does not fit: ask for epsilon" in said.out


def test_rows_and_models_have_no_aims(shared: Place, typed: Typed):
    said = typed("plan", str(shared.adult / "model.yaml"), "--for", "±1", at=shared.workspace)
    said.assert_ended(2, "how far off rows and models are depends on the data")


SVG = "{http://www.w3.org/2000/svg}"
EPSILONS = ("0.25", "0.5", "1", "2", "4")


def told(*aims: tuple[str, float, tuple[float, ...]], epsilon: str = "1") -> dict[str, Any]:
    """Write down what a plan tells of aims: each with what it asks, and its half widths at five epsilons."""
    return {
        "epsilon": epsilon,
        "aims": [{"aim": aim, "half_width_95": widths[2], "at_most": asked} for aim, asked, widths in aims],
        "curve": [
            {"epsilon": each, "half_widths": [widths[place] for _, _, widths in aims]}
            for place, each in enumerate(EPSILONS)
        ],
    }


ONE = told(("±50", 50, (200, 100, 50, 25, 12.5)))
TWO = told(("age: ±50", 50, (200, 100, 50, 25, 12)), ("<b> & ±9", 90, (160, 80, 40, 20, 0)))


def test_the_file_says_in_words_what_it_draws():
    """Title and description are named to those who do not see; each point stands in words; lines differ by dashes."""
    root = ElementTree.fromstring(as_svg(trade_off(TWO), "a <release>"))
    title, about = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert about is not None
    assert about.text is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
    assert title.text == "Accuracy and epsilon of a <release>"
    assert "epsilon 0.25" in about.text
    assert "±200" in about.text
    assert "<b> & ±9" in about.text
    paths = [each for each in root.iter(f"{SVG}path") if each.get("class") == "line"]
    assert len({each.get("stroke-dasharray") for each in paths}) == 2
    style = root.find(f"{SVG}style")
    assert style is not None
    assert style.text is not None
    assert "prefers-color-scheme:dark" in style.text
    assert not [each for each in root.iter() if each.get("fill") or each.get("stroke")], "no colour but the two inks"


def test_heights_in_the_file_are_logarithms_of_the_widths():
    """A second derivation: widths that halve as epsilon doubles lie on a straight line."""
    root = ElementTree.fromstring(as_svg(trade_off(ONE), "a"))
    dots = [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in root.iter(f"{SVG}circle")]
    assert len(dots) == 5
    slope = (dots[-1][1] - dots[0][1]) / (dots[-1][0] - dots[0][0])
    steps = log2(float(EPSILONS[-1])) - log2(float(EPSILONS[0]))
    assert steps == 4
    for x, y in dots:
        assert y == pytest.approx(dots[0][1] + slope * (x - dots[0][0]), abs=0.2)


def test_the_command_writes_the_picture(shared: Place, typed: Typed, tmp_path: Path):
    """The file lies where it was named, and is of the epsilon that the plan tells."""
    file, spec = tmp_path / "trade-off.svg", str(shared.adult / "tables.yaml")
    said = typed("plan", spec, "--for", "age: ±20", "--picture", str(file), at=shared.workspace)
    assert str(file) in re.sub(r"\s+", "", said.out)
    asked = typed("plan", spec, "--for", "age: ±20", "--json", at=shared.workspace).json
    about = ElementTree.parse(file).getroot().find(f"{SVG}desc")
    assert about is not None
    assert f"is {asked['aims']['epsilon']}." in str(about.text)


@pytest.mark.parametrize(
    ("words", "found", "remedy"),
    [
        (("--picture", "a.svg"), "no aim", "name an aim"),
        (("--picture", "a.png", "--for", "age: ±20"), "a.png", "a.svg"),
        (("--picture", "nowhere/a.svg", "--for", "age: ±20"), "nowhere", "make the folder"),
    ],
)
def test_a_picture_that_cannot_be_is_refused(
    shared: Place, typed: Typed, words: tuple[str, ...], found: str, remedy: str
):
    """The refusal names the option, what was found and what to do; nothing is written."""
    said = typed("plan", str(shared.adult / "tables.yaml"), *words, at=shared.workspace)
    said.assert_ended(2, "--picture", found)
    assert remedy in re.sub(r"\s+", " ", said.err)
