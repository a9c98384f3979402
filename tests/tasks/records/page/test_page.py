"""The page's numbers and charts: beliefs, the scale of known releases, and letters of reliability."""

import re
from decimal import Decimal
from fractions import Fraction
from math import log10
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.accounting.posterior import PRIORS, odds_bound
from tasks.records.charts import charts
from tasks.records.groups.guarantee import beliefs as recorded
from tasks.records.page.dense_view import room
from tasks.records.page.first_screen import (
    KNOWN,
    at_most,
    beliefs,
    brief,
    epsilon_scale,
    posterior,
    relative_error,
    right_guesses,
    subject,
)
from tasks.records.page.language import language, languages, spaced
from tasks.records.page.reliability import LIMITS, WORST, grades, letters
from tests.worlds.statistics import gaussian
from tests.worlds.tables import first
from tests.worlds.versions import Worlds

LAPLACE = DiscreteLaplace(Fraction(1, 3), (1,))
GAUSSIAN = DiscreteGaussian(Fraction(90), (1,))


def numbers(svg: str) -> list[float]:
    return [
        float(part)
        for attribute in re.findall(r'(?:\bd|\bx|width)="([^"%]*)"', svg)
        for part in re.findall(r"-?[\d.]+", attribute)
    ]


def test_even_odds_times_three_are_three_quarters():
    """1:1 times 3 is 3:1."""
    assert posterior(Fraction(1, 2), Decimal(3)) == pytest.approx(0.75)
    assert posterior(Fraction(9, 10), 1 / Decimal(9)) == pytest.approx(0.5)


def test_beliefs_are_those_of_the_record_and_never_certain():
    """With delta odds grow by 10/9 more; upper ends are rounded up, lower ends down; even of an absurd epsilon."""
    text = [part for belief in beliefs("1000", "0") for part in (belief.least, belief.most)]
    assert set(text) == {"almost 0 %", "almost 100 %"}
    assert [belief.most for belief in beliefs("1", "0")] == ["2.673 %", "23.2 %", "73.11 %", "96.08 %"]
    assert [belief.least for belief in beliefs("1", "0")] == ["0.3702 %", "3.927 %", "26.89 %", "76.8 %"]
    for epsilon, delta in (("0.3", "0"), ("1", "1e-9"), ("7.25", "1e-5")):
        factor = odds_bound(int(Decimal(epsilon) * PICO), int(Decimal(delta) * ATTO))
        told = [belief.most for belief in beliefs(epsilon, delta, priors=PRIORS)]
        assert told == list(recorded(int(Decimal(epsilon) * PICO), int(Decimal(delta) * ATTO)).values())
        for belief, prior in zip(beliefs(epsilon, delta), (0.01, 0.1, 0.5, 0.9), strict=True):
            exact = prior / (prior + (1 - prior) * float(factor))
            assert exact - 1e-3 * exact <= float(belief.least.split()[0]) / 100 <= exact


@pytest.mark.parametrize(
    ("scope", "words"), [("block", "within one time block"), ("lifetime", "over all time blocks")]
)
def test_whom_the_accounts_protect_is_said_with_the_scope(scope: str, words: str):
    """A unit alone does not say whether somebody who is in several time blocks is bounded over all of them."""
    assert subject({"unit.unit": "one row", "unit.scope": scope}) == f"one row, {words}"


@given(st.integers(1, 10**16))
def test_brief_amounts_are_rounded_against_the_spender(pico: int):
    """What is lost is never shown smaller, what is left never larger, and neither by more than a thousandth."""
    exact = Decimal(pico) / 10**12
    lost, left = (Decimal(brief(str(exact), up=up)) for up in (True, False))
    assert left <= exact <= lost
    assert lost - left <= exact / 999


def test_a_rounded_loss_says_so():
    assert at_most("1") == "= 1"
    assert at_most("2.499999986047") == "≤ 2.5"
    assert brief("1000", up=True) == "1000"


@pytest.mark.parametrize(
    ("width", "size", "text"), [(9, 1, "9×"), (9, 9, "1×"), (9, 10, "90 %"), (9, 10_000, "0.09 %")]
)
def test_relative_error(width: int, size: int, text: str):
    assert relative_error(width, size) == text


@given(st.integers(-50, 2000), st.integers(-100, 2000), st.integers(0, 300))
def test_bars_and_whiskers_stay_inside(count: int, noisy: int, width: int):
    """Whatever is drawn lies between the ends of the strip."""
    svg = charts.count_bar(count, (noisy - width, noisy, noisy + width), (-10, 1000))
    assert all(0 <= number <= 1000 for number in numbers(str(svg)))


def test_a_bar_is_as_long_as_its_count():
    """On a scale from 0 to 200 a count of 50 is a quarter, with its whisker from 40 to 60."""
    svg = str(charts.count_bar(50, (40, 50, 60), (0, 200)))
    assert '<rect x="0" y="2" width="250"' in svg
    assert "M200 8H300" in svg


def test_the_budget_bar_is_full():
    svg = str(charts.budget_bar([("before", 1.0), ("charged", 0.5), ("left", 0.5)]))
    assert re.findall(r'class="(\w+)" x="(\d+)" y="0" width="(\d+)"', svg) == [
        ("before", "0", "500"),
        ("charged", "500", "250"),
        ("left", "750", "250"),
    ]


@pytest.mark.parametrize("event", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("half_width", [0, 1, 19])
def test_the_noise_curve_marks_its_interval(event: DiscreteLaplace | DiscreteGaussian, half_width: int):
    svg = str(charts.noise_curve(event, half_width))
    assert ("+19" in svg) == (half_width == 19)
    assert all(0 <= number <= 1000 for number in numbers(svg))


@given(st.lists(st.integers(-20, 10_000), min_size=1, max_size=40))
def test_heat_levels_follow_the_counts(values: list[int]):
    """Larger counts are never lighter, the largest is darkest, and nothing is left blank that is above zero."""
    counts = np.array(values)
    levels = charts.heat_levels(counts)
    assert (np.diff(levels[np.argsort(counts, kind="stable")]) >= 0).all()
    assert ((levels > 0) == (counts > 0)).all()
    assert counts.max() <= 0 or levels.max() == charts.HEAT_LEVELS


def test_a_rank_plot_tells_what_it_shows():
    """The description counts the positive cells and those above the noise; no positive cell, no plot."""
    svg = str(charts.rank_plot(np.array([0, 5, 100, 2000, -3]), 9))
    assert "4 positive" not in svg
    assert "3 positive cells, the largest 2,000; 2 are larger than the 95 % reach of their noise, 9" in svg
    assert charts.rank_plot(np.array([0, -1]), 9) is None


def test_a_heat_map_without_numbers_draws_each_positive_cell_once():
    svg = str(charts.heat_map(np.array([[0, 4], [9, 0]]), '"x" <y>'))
    assert svg.count("h1v1h-1z") == 2
    assert 'viewBox="0 0 2 2"' in svg
    assert "&#34;x&#34; &lt;y&gt;" in svg


def test_names_of_fields_become_words_and_names_of_draws_stay():
    assert spaced("half_width_95") == "half width 95"
    assert spaced("table:age_x_sex") == "table:age_x_sex"


def test_many_tables_get_less_room_each():
    assert room(1).bars == 60
    assert room(100).bars == 5
    assert room(24).curves
    assert not room(25).curves


def test_the_page_begins_with_guesses_that_are_right_and_draws_as_many_dots():
    """Pure ε of 1 is 74 of 100, a column at 2 ε 89; each of the 100 dots is drawn once, in one of three colours."""
    attribute = {"epsilon": "2", "delta": "0"}
    values = {"guarantee.epsilon": "1", "guarantee.delta": "0", "guarantee.largest_attribute": attribute}
    assert right_guesses(values) == (74, 89)
    drawn = re.findall(r'<path class="(\w+)" d="([^"]*)"', charts.dots(50, 74))
    assert [(name, path.count("h0")) for name, path in drawn] == [("chance", 50), ("more", 24), ("wrong", 26)]
    assert len({place for _, path in drawn for place in path.split("M")[1:]}) == 100
    assert charts.dots(50, 100).count("<path") == 2


def test_the_page_names_in_one_line_who_was_left_undeclared(worlds: Worlds):
    """At the top; a version whose publisher declares all of it has no such line."""
    anonymous, signed = (
        (worlds.published(make(), here=True).folder / "record.html").read_text(encoding="utf-8")
        for make in (gaussian, first)
    )
    [line] = re.findall(r'<p class="note">The publisher has not declared: ([^<]*)</p>', anonymous)
    assert line == "curator, contact, operator, approvers, legal basis, retention."
    assert anonymous.index(line) < anonymous.index("<nav")
    assert "has not declared" not in signed


DOCS = Path(__file__).resolve().parents[4] / "docs" / "record.md"


def _dots(epsilon: str) -> tuple[float, list[float]]:
    """Where the drawing puts a release and the known ones, in percent."""
    drawn = str(epsilon_scale(epsilon))
    [own] = re.findall(r'<circle class="own" cx="([\d.]+)%', drawn)
    return float(own), [float(place) for place in re.findall(r'<circle class="other" cx="([\d.]+)%', drawn)]


def test_known_releases_stand_in_order_with_unit_and_source_and_the_docs_list_them():
    """No ε without the unit that it protects, and none that nobody has published."""
    assert [known.letter for known in KNOWN] == list("abcd")
    assert [float(known.epsilon) for known in KNOWN] == sorted(float(known.epsilon) for known in KNOWN)
    listed = DOCS.read_text(encoding="utf-8")
    for known in KNOWN:
        assert known.unit
        assert known.source in listed
        assert f"| {known.epsilon} |" in listed


@pytest.mark.parametrize("epsilon", ["0.3", "1", "2.499999999195", "9.98", "40"])
def test_places_are_to_scale(epsilon: str):
    """Distances are proportional to logarithms: a second way to the same places, to half a percent of the width."""
    own, others = _dots(epsilon)
    low, high = others[0], others[-1]
    per_power = (high - low) / log10(float(KNOWN[-1].epsilon) / float(KNOWN[0].epsilon))
    for place, known in zip(others, KNOWN, strict=True):
        assert place - low == pytest.approx(per_power * log10(float(known.epsilon)), abs=0.5)
    assert own - low == pytest.approx(per_power * log10(float(epsilon)), abs=0.5)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", "100", "12345.678"])
def test_a_release_beyond_the_usual_scale_stretches_it(epsilon: str):
    """Nothing sticks to an end that it does not belong to, and nothing leaves the drawing."""
    own, others = _dots(epsilon)
    assert all(4 <= place <= 96 for place in (own, *others))
    assert len({own, *others}) == len(KNOWN) + 1
    assert (own < min(others)) == (float(epsilon) < 1)


@pytest.mark.parametrize("code", languages())
def test_the_drawing_says_in_words_what_it_shows(code: str):
    said = str(language(code).drawn(epsilon_scale("2.5001")))
    label = said.partition('aria-label="')[2].partition('"')[0]
    assert "2.501" in label
    assert all(known.epsilon in label for known in KNOWN)
    assert "{" not in said


def _letter(count: int, lower: int, upper: int) -> str:
    return str(letters(np.array([count]), np.array([lower]), np.array([upper]))[0])


@pytest.mark.parametrize(("place", "letter", "percent"), [(place, *limit) for place, limit in enumerate(LIMITS)])
def test_a_limit_belongs_to_its_letter_and_one_row_more_to_the_next(place: int, letter: str, percent: int):
    """At 1,000 rows a per cent is 10 rows, to both sides alike."""
    following = LIMITS[place + 1][0] if place + 1 < len(LIMITS) else WORST
    reach = 10 * percent
    assert _letter(1000, 1000 - reach, 1000 + reach) == letter
    assert _letter(1000, 1000 - reach, 1000 + reach + 1) == following
    assert _letter(1000, 1000 - reach - 1, 1000 + reach) == following


def test_a_count_of_nothing_is_unreliable_and_one_without_noise_has_no_letter():
    """Relative to 0 every reach is infinite; a cell that is declared impossible reaches nowhere."""
    assert [_letter(0, 0, 5), _letter(-3, -9, 4), _letter(0, 0, 0), _letter(12, 12, 12)] == [WORST, WORST, "", ""]


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_letter_never_promises_more_than_the_interval(count: int, below: int, above: int):
    """Also where refinement moved the count out of the middle, or out of its interval: by exact fractions."""
    found = _letter(count, count - below, count + above)
    reach = Fraction(100 * max(below, above), count)
    expected = next((letter for letter, percent in LIMITS if reach <= percent), WORST)
    assert found == (expected if below or above else "")


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 2000))
def test_a_count_outside_its_interval_is_judged_by_the_farther_end(width: int, beyond: int, low: int):
    count = low + width + beyond
    reach = Fraction(100 * (width + beyond), count)
    assert _letter(count, low, low + width) == next((letter for letter, most in LIMITS if reach <= most), WORST)


def test_every_cell_with_a_letter_is_counted_once():
    found = letters(
        np.array([[1000, 1000], [5, 0]]), np.array([[990, 600], [0, 0]]), np.array([[1010, 1400], [9, 0]])
    )
    assert found.tolist() == [["A", "E"], [WORST, ""]]
    counted = {grade.letter: grade.number for grade in grades(found)}
    assert counted == {"A": 1, "B": 0, "C": 0, "D": 0, "E": 1, WORST: 1}
    assert grades(np.array([""])) == []


def test_the_docs_have_the_same_limits_and_words():
    listed = DOCS.read_text(encoding="utf-8")
    for grade, (letter, percent) in zip(grades(np.array([WORST])), LIMITS, strict=False):
        assert f"| {letter} | {percent} % | {grade.means} |" in listed
        assert grade.reach == f"≤ {percent} %"
