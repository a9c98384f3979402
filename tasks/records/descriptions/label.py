"""label.html: the version's privacy label, one page that prints on A4, from the public record alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from privacy.accounting.amounts import power_text
from privacy.accounting.posterior import PRIORS
from tasks.records.explanation import RecordExplanation
from tasks.records.model.record_kinds import record_part
from tasks.records.page import words
from tasks.records.page.budget_view import budget_bar, budget_shares
from tasks.records.page.language import ENGLISH, other_pages
from tasks.records.page.style import style
from tasks.records.public_text import plain, public_field, says_anything, sentence
from tasks.records.relations import kept_relations

FOLDER: Final = Path(__file__).parent
MOST_LINES: Final = 6
LONGEST: Final = 150


def label_html(explanation: RecordExplanation) -> bytes:
    """Render the label of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        bytes: HTML in UTF-8, self-contained, without script; every text is escaped.
    Privacy: reads the public record only.
    """
    values, record = explanation.values, explanation.record
    shares = budget_shares(values)
    page: str = _template().render(
        record=record,
        v=values,
        product=record_part(values["identity.product_type"]).words.label,
        relations=kept_relations(record["replay"]),
        epsilon=words.brief(values["guarantee.epsilon"], up=True),
        rounded=Decimal(words.brief(values["guarantee.epsilon"], up=True)) != Decimal(values["guarantee.epsilon"]),
        subject=words.subject(values),
        protected=words.protected(values),
        learned=_learned(values),
        largest=words.largest_attribute(values),
        used=words.used(values),
        budget=budget_bar(shares),
        shares=shares,
        unprotected=_unprotected(values),
        more=max(0, len(_word_list(values)) - MOST_LINES),
        people=_people(values),
        mechanism=_short(sentence(values, "noise.mechanism")),
        sampler=_short("; ".join(map(plain, values["noise.samplers"]))),
        others=other_pages(ENGLISH),
        style=style(FOLDER / "label.css"),
    )
    return page.encode()


def _learned(values: dict[str, Any]) -> list[tuple[str, list[words.Belief]]]:
    """Return what the record says of beliefs, drawn: of one unit, then of one column of a unit in the table."""
    largest, whole = (
        words.largest_attribute(values),
        {"epsilon": values["guarantee.epsilon"], "delta": values["guarantee.delta"]},
    )
    column = "any column" if largest.column is None else _short(largest.column)
    return [
        (words.question(values), _beliefs({**values["guarantee.largest_posterior"], **whole})),
        (f"{column} of somebody known to be in it", _beliefs(values["guarantee.largest_attribute"])),
    ]


def _beliefs(stated: dict[str, Any]) -> list[words.Belief]:
    drawn = words.beliefs(stated["epsilon"], stated["delta"], priors=PRIORS)
    return [replace(belief, most=stated["at_most"][belief.before]) for belief in drawn]


def _word_list(values: dict[str, Any]) -> list[Any]:
    quantities = public_field(values, "unprotected.quantities")
    return quantities if isinstance(quantities, list) else [quantities] if says_anything(quantities) else []


def _unprotected(values: dict[str, Any]) -> list[str]:
    return [_short(plain(quantity)) for quantity in _word_list(values)[:MOST_LINES]]


def _people(values: dict[str, Any]) -> list[tuple[str, str]]:
    """List who answers for the release, as far as it is declared."""
    asked = (
        ("Curator", "accountability.curator"),
        ("Contact", "accountability.contact"),
        ("Legal basis", "accountability.legal_basis"),
    )
    return [(name, _short(text)) for name, path in asked if (text := sentence(values, path))]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 2].rstrip() + " …"


@cache
def _template() -> Any:
    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["power"] = power_text
    return environment.get_template("label.html.j2")
