"""record.html, and record.CODE.html in another language: the audit record for people, self-contained, no script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from contracts.message import Message, message
from privacy.accounting.amounts import power_text
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.charts import charts
from tasks.records.charts.place_map import outlines
from tasks.records.groups.field import NONE, NOT_AVAILABLE, WITHHELD
from tasks.records.model.record_kinds import stated_kind
from tasks.records.model.version_statements import recorded_contract
from tasks.records.page import first_screen as words
from tasks.records.page.dense_view import TableView, table_views
from tasks.records.page.first_screen import KNOWN, epsilon_scale, share
from tasks.records.page.language import ENGLISH, Language, language, languages, other_pages, page_name
from tasks.records.page.published_tables import ReadFile
from tasks.records.page.reliability import LIMITS
from tasks.records.page.statistics_view import StatisticsView, kinds_words, statistics_views
from tasks.records.page.style import style
from tasks.records.page.synthetic_view import SyntheticView, synthetic_view
from tasks.records.record import RecordExplanation
from tasks.records.values import Values

# --- The budget of an account as shares of its cap.


MOST_NAMED: Final = 6
"""Earlier releases with a segment of their own; those that took most."""


@dataclass(frozen=True)
class BudgetShare:
    """A part of the cap.

    Args:
        kind: before, charged or left.
        release: who took it; empty for this release, for what is left, and for many small ones together.
        share: of the cap, rounded against the spender.
        amount: in the account's own units.
    """

    kind: str
    release: str
    share: str
    amount: Decimal


def budget_shares(values: Values) -> list[BudgetShare]:
    """Return who took which part of the cap, those before this release in the order of what they took.

    Args:
        values: the record's fields by "section.name".
    """
    cap, before = str(values["ledger.cap"]), Decimal(values["ledger.before"])
    taken: dict[str, Decimal] = {}
    charges = values["ledger.other_charges"]
    for charge in charges if isinstance(charges, list) else ():
        taken[charge["release"]] = taken.get(charge["release"], Decimal(0)) + Decimal(charge["amount"])
    named = sorted(taken.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
    rest = before - sum((amount for _, amount in named), Decimal(0))  # smaller ones, and what was inherited
    parts = [("before", release, amount) for release, amount in named]
    parts += [("before", "", rest)] if rest > 0 else []
    parts += [("charged", "", Decimal(values["ledger.charged"])), ("left", "", Decimal(values["ledger.left"]))]
    return [
        BudgetShare(kind, name, share(str(amount), cap, up=kind != "left"), amount) for kind, name, amount in parts
    ]


def budget_bar(shares: list[BudgetShare]) -> Markup:
    """Draw the shares side by side."""
    return charts.budget_bar([(each.kind, float(each.amount)) for each in shares])


# --- How accurate a version is, in one figure and one sentence for the first screen of its page.


GOOD: Final = LIMITS[:3]
"""Letters that the first screen counts as reliable."""


@dataclass(frozen=True)
class ErrorAtAGlance:
    """How far off published numbers are.

    Args:
        figure: a number, or a few words.
        says: what it means.
    """

    figure: str
    says: str


def error_at_a_glance(values: Values, tables: Sequence[TableView | StatisticsView]) -> ErrorAtAGlance:
    """Say how accurate a version is: the share of reliable cells, or the reach of the noise.

    Args:
        values: the record's fields by "section.name".
        tables: what the page shows of the tables; empty where there are none.
    Privacy: post-processing; of published numbers and declared noise alone.
    """
    counts = [table for table in tables if isinstance(table, TableView)]
    statistics = [table for table in tables if isinstance(table, StatisticsView) and table.expected]
    cells = sum(grade.number for table in counts for grade in table.grades)
    reaches = sorted(reach for reach in map(_reach, _stated(values)) if reach is not None)
    if cells:
        good = [letter for letter, _ in GOOD]
        reliable = sum(grade.number for table in counts for grade in table.grades if grade.letter in good)
        return ErrorAtAGlance(
            message("{share} of 100 cells", share=100 * reliable // cells),
            message(
                "are within {percent} % of the exact count in 95 % of draws (letters {first} to {last} below)",
                percent=GOOD[-1][1],
                first=good[0],
                last=good[-1],
            ),
        )
    if statistics:
        return ErrorAtAGlance(
            statistics[0].expected[0],
            message("in 95 % of draws, from the noise alone; the tables tell of the others"),
        )
    if reaches:
        ends = {f"{reaches[0]:,}", f"{reaches[-1]:,}"}
        figure = (
            f"±{reaches[0]:,}"
            if len(ends) == 1
            else message("±{low} to ±{high}", low=f"{reaches[0]:,}", high=f"{reaches[-1]:,}")
        )
        return ErrorAtAGlance(figure, message("reach of the noise on each measured count, in 95 % of draws"))
    return ErrorAtAGlance(
        message("not published"), message("a score on the confidential rows would tell more of them")
    )


def _stated(values: Values) -> Sequence[Any]:
    stated = values["utility.expected_error"]
    return stated if isinstance(stated, list) else ()


def _reach(error: Any) -> int | None:
    """Return the reach of the noise on a count [rows]; None of what is no count."""
    reach = error.get("half_width_95")
    return reach if isinstance(reach, int) else None


FOLDER = Path(__file__).parent
MOST_ITEMS = 40
MOST_BRIEF: Final = 10
"""Lines of a list in a chapter; further ones are folded up."""
MOST_OPEN: Final = 3
"""So many tables are open; of more only the first."""
MOST_LINES: Final = 4
LONGEST_TEXT = 600
_TABLES: Final[Mapping[str, Callable[..., list[Any]]]] = {"tables": table_views, "statistics": statistics_views}
_BETWEEN = re.compile(r"(?<=[\u3000-\u303f\uff00-\uff60])\s+(?=[\u3000-\u9fff\uff00-\uff60])")
_HEX = re.compile(r"[0-9a-f]{40,}")


@dataclass(frozen=True)
class Views:
    """The tables and pictures of a version, prepared once for the pages of all languages.

    Args:
        kind: the kind of the product, or "across"; its template extends that of all.
        tables: the tables of counts or of statistics.
        synthetic: the synthetic rows; None where there are none.
        outlines: of places, for the maps of tables; nothing where no column has shapes.
    """

    kind: str
    tables: list[TableView] | list[StatisticsView]
    synthetic: SyntheticView | None
    outlines: Markup


def prepare(explanation: RecordExplanation, read: ReadFile) -> Views:
    """Prepare what the pages show of the data.

    Args:
        explanation: what the public record tells people.
        read: reads the version's files of data and measurements.
    Privacy: reads published files only.
    """
    values, record, replay = explanation.values, explanation.record, explanation.record["replay"]
    kind, contract = str(stated_kind(record)), recorded_contract(replay["contract"])
    return Views(
        kind,
        _TABLES[kind](replay, values, contract, read) if kind in _TABLES else [],
        synthetic_view(record, values, contract, read) if kind == "synthetic" else None,
        outlines(contract) if kind in _TABLES else Markup(),
    )


def public_pages(explanation: RecordExplanation, views: Views) -> dict[str, bytes]:
    """Render the pages of a version, by their names, from what it publishes alone; arguments as for `render_page`."""
    return {page_name(code): render_page(explanation, views, code).encode() for code in languages()}


def render_page(explanation: RecordExplanation, views: Views, code: str = ENGLISH) -> str:
    """Render a record as a page.

    Args:
        explanation: what the public record tells people.
        views: its tables and pictures.
        code: the page's language.
    Returns:
        str: HTML, self-contained; every text is escaped.
    Privacy: shows what the record shows, and released values.
    """
    record, fields = explanation.record, arranged(explanation.fields)
    values = {path: field["value"] for path, field in fields.items()}
    lang, shares = language(code), budget_shares(values)
    page: str = _template(views.kind).render(
        record=record,
        v=values,
        lang=lang,
        t=lang.text,
        tn=lang.texts,
        say=lang.say,
        drawn=lang.drawn,
        others=other_pages(code),
        declared=explanation.declared,
        filled=fields,
        beliefs=words.beliefs(values["guarantee.epsilon"], values["guarantee.delta"]),
        largest=words.largest_attribute(values),
        even="50 %",
        question=words.question(values),
        guessed=words.guessed(values),
        right=words.right_guesses(values),
        dots=charts.dots,
        scale=epsilon_scale(values["guarantee.epsilon"]),
        known=KNOWN,
        undeclared=words.undeclared(explanation),
        subject=words.subject(values),
        protected=words.protected(values),
        at_most=words.at_most,
        lost=partial(words.brief, up=True),
        left=partial(words.brief, up=False),
        loss_unit=words.loss_unit(values),
        further=words.further(values),
        budget_word=words.BUDGET,
        used=words.used(values),
        share=words.share,
        summed=_summed,
        shares=shares,
        shares_of=partial(_draws_share, cap=values["ledger.cap"]),
        budget=budget_bar(shares),
        accuracy=error_at_a_glance(values, views.tables),
        sealed=[entry["sequence"] for entry in values["integrity.journal_entries"]],
        tables=views.tables,
        synthetic=views.synthetic,
        outlines=views.outlines,
        groups=explanation.groups,
        confidence=round(100 * CONFIDENCE),
        digest=_digest,
        numbered=_numbered,
        expected_from=_expected_from(record["replay"]),
        style=_page_style(views, lang),
        constants={"none": NONE, "not_available": NOT_AVAILABLE, "withheld": WITHHELD},
    )
    return page if lang.own else _unspaced(page)


def arranged(value: Any) -> Any:
    """Put the parts of values into the order in which people read them; files have sorted keys.

    What has no place in that order, such as the name of a column, comes last and stays sorted.
    """
    if isinstance(value, dict):
        order = _key_order()
        keys = sorted(value, key=lambda key: (order.get(key, len(order)), key))
        return {key: arranged(value[key]) for key in keys}
    return [arranged(part) for part in value] if isinstance(value, list | tuple) else value


@cache
def _key_order() -> dict[str, int]:
    names = json.loads((FOLDER / "key_order.json").read_text(encoding="utf-8"))
    return {name: place for place, name in enumerate(names)}


def _unspaced(page: str) -> str:
    """Take out the white space between full-width characters: their languages have no word spaces."""
    return _BETWEEN.sub("", page)


def _page_style(views: Views, lang: Language) -> Markup:
    sheets = (FOLDER / "record.css", FOLDER / f"{views.kind}.css", *lang.sheets)
    return style(*(path for path in sheets if path.exists()))


def _digest(value: str) -> Markup:
    return Markup('<code class="digest">{}</code>').format(value)


def _numbered(path: str) -> Markup:
    """Link a file of measurements by its number."""
    return Markup('<a href="{}">{}</a>').format(path, path[13:17])


def _expected_from(replay: dict[str, Any]) -> str:
    """Say what the expected errors of refined tables were estimated from."""
    earlier = replay.get("reference")
    if earlier is None:
        return message("estimated from the noisy counts")
    return message(
        "what this noise would err on the counts of {release} v{number}",
        release=earlier["release"],
        number=earlier["version"],
    )


def _summed(one: str, other: str) -> str:
    return format(Decimal(one) + Decimal(other), "f")


def _draws_share(draws: Sequence[Any], *, cap: str) -> str:
    """Write what the draws of a table cost together, as a share of the cap."""
    cost = sum((Decimal(draw.draw["cost"]) for draw in draws), Decimal(0))
    return words.share(str(cost), cap, up=True)


def _template(kind: str) -> Any:
    return environment().get_template(f"{kind}.html.j2")


@cache
def environment() -> Environment:
    """Return the one environment of pages: every text is escaped, nothing may be missing."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clipped"] = clipped
    environment.filters["model_words"] = words.model_words
    environment.filters["root"] = lambda variance: f"{float(variance) ** 0.5:.3g}"
    environment.filters["percent"] = lambda share: f"{100 * float(Fraction(share)):.3g} %"
    environment.filters["power"] = power_text
    environment.filters["kinds_words"] = kinds_words
    environment.filters["brief_error"] = lambda error: f"{float(error):.3g}"
    environment.tests["digest"] = lambda value: isinstance(value, str) and _HEX.fullmatch(value) is not None
    environment.tests["uniform"] = uniform
    environment.tests["command"] = lambda value: isinstance(value, str) and value.startswith("sudare verify ")
    environment.globals |= {"most_items": MOST_ITEMS, "most_brief": MOST_BRIEF}
    environment.globals |= {"most_open": MOST_OPEN, "most_lines": MOST_LINES}
    return environment


def uniform(value: object) -> bool:
    """Say whether a value is a list of objects with the same keys: a table."""
    if not isinstance(value, list) or not value or not all(isinstance(part, dict) for part in value):
        return False
    return all(list(part) == list(value[0]) for part in value)


def clipped(text: object) -> str:
    """Cut a long text; the whole of it is in record.json."""
    if isinstance(text, Message):
        shorter = {name: clipped(part) if isinstance(part, str) else part for name, part in text.parameters.items()}
        return Message(text.template, shorter, text.many, text.number)
    whole = str(text)
    return whole if len(whole) <= LONGEST_TEXT else whole[:LONGEST_TEXT] + " … (whole in record.json)"
