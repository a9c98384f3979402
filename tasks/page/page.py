"""record.html: the audit record for people, as one self-contained page without script."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from privacy.marginals.plan import CONFIDENCE
from tasks.description.told import public_values
from tasks.facts import RunFacts
from tasks.page import charts, words
from tasks.page.synthetic import synthetic_view
from tasks.page.views import table_views
from tasks.record.field import NONE, NOT_AVAILABLE, WITHHELD
from tasks.record.record import GROUPS
from tasks.record.synthetic import groups_of

FOLDER = Path(__file__).parent
MOST_ITEMS = 40
LONGEST_TEXT = 600
TOTAL_WORDS = {
    "noisy": "measured with noise",
    "invariant": "declared public",
    "levels": "estimated from its noisy levels",
}
_HEX = re.compile(r"[0-9a-f]{40,}")


def render_page(record: dict[str, Any], facts: RunFacts, folder: Path) -> str:
    """Render the public record as a page.

    Args:
        record: the public record; all words and fields come from it.
        facts: the run; its released tables are drawn.
        folder: the version's folder; has the published rows.
    Returns:
        str: HTML, self-contained; every text is escaped.
    Privacy: reads the public copy of the record and released values only.
    """
    values = public_values(record)
    page: str = _template().render(
        record=record,
        v=values,
        beliefs=words.beliefs(values["F.epsilon"]),
        question=words.question(values),
        subject=words.subject(values),
        protected=words.protected(values),
        at_most=words.at_most,
        lost=partial(words.brief, up=True),
        left=partial(words.brief, up=False),
        allowance=words.allowance(values),
        loss_unit=words.loss_unit(values),
        budget=_budget(values),
        tables=table_views(facts, values),
        synthetic=synthetic_view(facts, values, folder),
        groups=groups_of(facts, GROUPS),
        confidence=round(100 * CONFIDENCE),
        missing=set(record["not_available"]),
        total_words=TOTAL_WORDS,
        expected_from=_expected_from(facts),
        style=_style("record.css") if facts.synthesis is None else _style("record.css", "synthetic.css"),
        constants={"none": NONE, "not_available": NOT_AVAILABLE, "withheld": WITHHELD},
    )
    return page


def _style(*names: str) -> Markup:
    """Return style sheets, one after the other."""
    return Markup("".join((FOLDER / name).read_text(encoding="utf-8") for name in names))


def _expected_from(facts: RunFacts) -> str:
    """Say what the expected errors of refined tables were estimated from."""
    earlier = facts.earlier_version
    if earlier is None:
        return "estimated from the noisy counts"
    return f"what this noise would err on the counts of {earlier.release} v{earlier.number}"


def _budget(values: dict[str, Any]) -> Markup:
    parts = [("before", "G.before"), ("charged", "G.charged"), ("left", "G.left")]
    return charts.budget_bar([(name, float(values[key])) for name, key in parts])


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["spaced"] = spaced
    environment.filters["clipped"] = clipped
    environment.filters["root"] = lambda variance: f"{float(variance) ** 0.5:.3g}"
    environment.filters["percent"] = lambda share: f"{100 * float(Fraction(share)):.3g} %"
    environment.filters["brief_error"] = lambda error: f"{float(error):.3g}"
    environment.tests["digest"] = lambda value: isinstance(value, str) and _HEX.fullmatch(value) is not None
    environment.tests["uniform"] = uniform
    environment.globals["most_items"] = MOST_ITEMS
    return environment.get_template("record.html.j2")


def spaced(name: str) -> str:
    """Write a field's name as words; the name of a draw, such as table:age_x_sex, stays as it is."""
    return name if ":" in name else name.replace("_", " ")


def uniform(value: object) -> bool:
    """Say whether a value is a list of objects with the same keys: a table."""
    if not isinstance(value, list) or not value or not all(isinstance(part, dict) for part in value):
        return False
    return all(list(part) == list(value[0]) for part in value)


def clipped(text: object) -> str:
    """Cut a long text; the whole of it is in record.json."""
    whole = str(text)
    return whole if len(whole) <= LONGEST_TEXT else whole[:LONGEST_TEXT] + " … (whole in record.json)"
