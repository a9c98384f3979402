"""What a reviewer would say of a plan, before anything is charged; reads spec, contract and plan, and no row.

| rule | what it is about |
|---|---|
| `large-epsilon` | an ε above 10, at which the promise says next to nothing |
| `large-delta` | a δ above one over the rows that the person typed, where the contract declares none |
| `only-noise` | tables whose noise is larger than the average count, by a number of rows that is public |
| `source` | a file that is not there, and would stop the run |
| `select` | a select that compares with literals: it is published word for word |
| `contract` | what `sudare contract lint` warns of |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import advise
from contracts.reading.scalars import spelled
from contracts.release.spec_checks import declared_rows
from contracts.sql.select import compares_literals
from privacy.accounting.amounts import PICO, pico_to_text

if TYPE_CHECKING:  # `contract lint` takes this module's warnings of a select, and loads no plan for it
    from flows.request import Request

LARGE_EPSILON: Final = 10
MOST_NAMED: Final = 8

Warned = dict[str, str]


def warnings_of(request: Request, draws: Sequence[dict[str, Any]], rows: int | None) -> list[Warned]:
    """List what a reviewer would warn of.

    Args:
        request: what would be released.
        draws: the plan's draws of tables as JSON objects; none of other products.
        rows: how many rows there are, as far as that is public; None where nobody said so.
    """
    return [
        *_epsilon(request),
        *_delta(request, rows),
        *_noise(draws, rows),
        *_source(request),
        *warnings_of_select(request.spec.source.select),
        *_contract(request),
    ]


def known_rows(request: Request, typed: int | None) -> int | None:
    """Return the number of rows that is public: the contract's declared total, else what the person typed."""
    total = request.contract.total
    return typed if total is None else total.value


def _epsilon(request: Request) -> Iterator[Warned]:
    epsilon = request.plan.epsilon
    if epsilon <= LARGE_EPSILON * PICO:
        return
    odds = epsilon / PICO
    sure = f"e^{odds:g} : 1" + (f", {math.exp(odds):,.0f} : 1" if odds < 30 else "")
    yield {
        "rule": "large-epsilon",
        "found": f"ε = {pico_to_text(epsilon)}",
        "why": f"whoever gives a guess about one person even odds may come out at {sure}. A bound so loose promises "
        "next to nothing; what still protects people is not what the record claims",
        "remedy": "ask for ε of 1 or less and look at the expected error; publish fewer or smaller tables instead",
    }


def delta_unheld(request: Request, rows: int | None) -> str | None:
    """Say that delta was held against no number of rows; None where it was, or is 0.

    Args:
        request: what would be released.
        rows: how many the person typed; they are held against delta as a warning.
    """
    if not request.plan.delta or rows is not None or declared_rows(request.spec, request.contract) is not None:
        return None
    return "δ was not held against the number of rows: none is declared (--rows N holds it against N)"


def _delta(request: Request, rows: int | None) -> Iterator[Warned]:
    delta = request.spec.charge.delta
    if rows is None or delta * rows <= 1 or declared_rows(request.spec, request.contract) is not None:
        return
    yield {
        "rule": "large-delta",
        "found": f"δ = {spelled(delta)} with {rows:,} rows",
        "why": "publishing the whole row of one person in so many, chosen by chance, would keep such a promise",
        "remedy": "take a δ far below one over the number of people",
    }


def _noise(draws: Sequence[dict[str, Any]], rows: int | None) -> Iterator[Warned]:
    dense = [draw for draw in draws if draw["columns"] and draw["sparse"] is None]
    if rows is None or not dense:
        return
    noisy = [draw for draw in dense if draw["noise_below_rows"] > rows]
    if not noisy:
        return
    named = ", ".join(" × ".join(draw["columns"]) for draw in noisy[:MOST_NAMED])
    more = f" and {len(noisy) - MOST_NAMED:,} more (--json has all)" if len(noisy) > MOST_NAMED else ""
    yield {
        "rule": "only-noise",
        "found": f"{len(noisy):,} of {len(dense):,} tables at {rows:,} rows: {named}{more}",
        "why": "the average count of a cell is smaller than its expected error: most of what they say is noise",
        "remedy": "drop columns, declare wider bins, publish fewer tables, or give them a larger share of ε",
    }


def _source(request: Request) -> Iterator[Warned]:
    path = request.spec.source.path
    if isinstance(path, Path) and not path.exists():
        yield {
            "rule": "source",
            "found": f"{path} is not there",
            "why": "a run stops before it charges",
            "remedy": "correct source.path (relative to the spec's folder), or deliver the file",
        }


def warnings_of_select(written: str | None) -> Iterator[Warned]:
    """Warn of a select that holds columns against literals; none of them is shown."""
    if written is not None and compares_literals(written):
        yield {
            "rule": "select",
            "found": "a `select:` that compares columns with values",
            "why": "the record publishes it word for word, for good; a value that only one person has tells of them",
            "remedy": "write what anybody may read; mark other rows in a column of the source, and select by it",
        }


def _contract(request: Request) -> Iterator[Warned]:
    path = request.spec.contract
    formulas = request.spec.publish.formulas
    found = advise(request.contract, contract_document(path), formulas=formulas)
    if found:
        rules = ", ".join(dict.fromkeys(each.rule for each in found))
        yield {
            "rule": "contract",
            "found": f"{len(found)} warning{'s' * (len(found) > 1)} about the contract: {rules}",
            "why": "domains decide what noise costs and what a cell means",
            "remedy": f"sudare contract lint {path}",
        }


def print_warnings(console: Console, warnings: Sequence[Warned]) -> None:
    """Print the warnings, each with why and what to do."""
    for each in warnings:
        console.print(Text("\n! ", style="yellow") + Text(f"{each['rule']}: {each['found']}", style="default"))
        console.print(Text(f"    why: {each['why']}"))
        console.print(Text(f"    do:  {each['remedy']}", style="green"))
