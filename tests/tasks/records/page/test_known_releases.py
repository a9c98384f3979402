"""The scale on which a record shows its ε: in order, to scale, each known release with its unit and its source."""

from __future__ import annotations

import re
from math import log10
from pathlib import Path

import pytest

from tasks.records.page.first_screen import KNOWN, epsilon_scale
from tasks.records.page.language import language, languages

DOCS = Path(__file__).resolve().parents[4] / "docs" / "record.md"


def _dots(epsilon: str) -> tuple[float, list[float]]:
    """Where the drawing puts a release and the known ones, in percent."""
    drawn = str(epsilon_scale(epsilon))
    [own] = re.findall(r'<circle class="own" cx="([\d.]+)%', drawn)
    return float(own), [float(place) for place in re.findall(r'<circle class="other" cx="([\d.]+)%', drawn)]


def test_known_releases_stand_in_order_with_unit_and_source_and_the_docs_list_them() -> None:
    """No ε without the unit that it protects, and none that nobody has published."""
    assert [known.letter for known in KNOWN] == list("abcd")
    assert [float(known.epsilon) for known in KNOWN] == sorted(float(known.epsilon) for known in KNOWN)
    listed = DOCS.read_text(encoding="utf-8")
    for known in KNOWN:
        assert known.unit
        assert known.source in listed
        assert f"| {known.epsilon} |" in listed


@pytest.mark.parametrize("epsilon", ["0.3", "1", "2.499999999195", "9.98", "40"])
def test_places_are_to_scale(epsilon: str) -> None:
    """Distances are proportional to logarithms: a second way to the same places, to half a percent of the width."""
    own, others = _dots(epsilon)
    low, high = others[0], others[-1]
    per_power = (high - low) / log10(float(KNOWN[-1].epsilon) / float(KNOWN[0].epsilon))
    for place, known in zip(others, KNOWN, strict=True):
        assert place - low == pytest.approx(per_power * log10(float(known.epsilon)), abs=0.5)
    assert own - low == pytest.approx(per_power * log10(float(epsilon)), abs=0.5)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", "100", "12345.678"])
def test_a_release_beyond_the_usual_scale_stretches_it(epsilon: str) -> None:
    """Nothing sticks to an end that it does not belong to, and nothing leaves the drawing."""
    own, others = _dots(epsilon)
    assert all(4 <= place <= 96 for place in (own, *others))
    assert len({own, *others}) == len(KNOWN) + 1
    assert (own < min(others)) == (float(epsilon) < 1)


@pytest.mark.parametrize("code", languages())
def test_the_drawing_says_in_words_what_it_shows(code: str) -> None:
    said = str(language(code).drawn(epsilon_scale("2.5001")))
    label = said.partition('aria-label="')[2].partition('"')[0]
    assert "2.501" in label
    assert all(known.epsilon in label for known in KNOWN)
    assert "{" not in said
