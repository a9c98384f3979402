"""The picture of the trade-off: the file says what was planned."""

from __future__ import annotations

import re
from math import log2
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from console.trade_off import as_svg, trade_off
from tests.console.conftest import Place, Typed

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


def test_the_file_says_in_words_what_it_draws() -> None:
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


def test_heights_in_the_file_are_logarithms_of_the_widths() -> None:
    """A second derivation: widths that halve as epsilon doubles lie on a straight line."""
    root = ElementTree.fromstring(as_svg(trade_off(ONE), "a"))
    dots = [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in root.iter(f"{SVG}circle")]
    assert len(dots) == 5
    slope = (dots[-1][1] - dots[0][1]) / (dots[-1][0] - dots[0][0])
    steps = log2(float(EPSILONS[-1])) - log2(float(EPSILONS[0]))
    assert steps == 4
    for x, y in dots:
        assert y == pytest.approx(dots[0][1] + slope * (x - dots[0][0]), abs=0.2)


def test_the_command_writes_the_picture(shared: Place, typed: Typed, tmp_path: Path) -> None:
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
) -> None:
    """The refusal names the option, what was found and what to do; nothing is written."""
    said = typed("plan", str(shared.adult / "tables.yaml"), *words, at=shared.workspace)
    said.assert_ended(2, "--picture", found)
    assert remedy in re.sub(r"\s+", " ", said.err)
