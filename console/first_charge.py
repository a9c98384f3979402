"""The questions about a charge: whose rows these are, which epsilon in words, and the account with its cap.

Privacy: what is asked is answered out of the ledger's terms and plans. No row is read.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from console.budget import account_terms
from console.first_questions import planned
from console.first_release import ROW, FirstRelease
from console.interview import AnswerRefused, Interview, Misunderstood, read_yes
from console.products.product_view import product_view
from contracts.drafting.yaml_words import slug
from contracts.errors import Finding
from contracts.periods.time_blocks import time_block
from contracts.release.source import written_source_name
from privacy.accounting.amounts import PICO
from privacy.accounting.posterior import PRIORS, largest_posterior, odds_bound
from privacy.ledger.accounts.admission import fitting_epsilon
from privacy.ledger.terms import AccountState, AccountTerms
from tasks.products.charge_request import request_for
from tasks.storage.workspace.settings import Workspace

_EXAMPLES: Final = ("0.1", "0.5", "1", "2", "4")
_SHOWN: Final = 12
_PRECISE: Final = (
    "A count of 200 with ±6 lies between 194 and 206 in 95 of 100 draws.",
    "A larger ε is more precise and protects less.",
    "Fewer tables, or fewer and wider bins, are more precise at the same ε.",
)
_ACCOUNT: Final = (
    "A name for these people in these days. Specs name it under `charge:`; later releases share its cap.",
)
_AMOUNT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,12})?|\.[0-9]{1,12}")


@dataclass(frozen=True)
class FirstAnswers:
    """All answers, held against contract, spec, plan and ledger.

    Args:
        first: contract and spec.
        terms: of the account that is opened; None for one that is open already.
        source: the canonical name of the rows.
        place: the workspace; None for one that is made in `folder`.
        folder: of the workspace.
    """

    first: FirstRelease
    terms: AccountTerms | None
    source: str
    place: Workspace | None
    folder: Path


class ChargeQuestions:
    """The questions from the people to the cap.

    Args:
        interview: asks.
        place: the workspace that is near; None without one.
        here: the folder that contract and spec will lie in.
    """

    def __init__(self, interview: Interview, place: Workspace | None, here: Path) -> None:
        self._ask, self._say = interview.ask, interview.say
        self._place, self._here = place, here

    def answers(self, first: FirstRelease, folder: Path) -> FirstAnswers:
        """Ask what a release still needs; `folder` is offered where there is no workspace."""
        name = written_source_name(first.path if first.inner is None else f"{first.path}::{first.inner}")
        first = self._people(first, name)
        if self._place is None:
            more: tuple[str, ...] = ("The folder of ledger, keys and releases. `sudare init` makes the same.",)
            folder = self._ask("Where may the workspace be made?", _free_folder, default=str(folder), more=more)
        first, terms = self._price(first)
        return FirstAnswers(first, terms, name, self._place, folder)

    def _people(self, first: FirstRelease, source_name: str) -> FirstRelease:
        """Ask whose rows these are, and of which days; a source that is bound has told already."""
        bound = None
        if self._place is not None:
            with closing(self._place.open_ledger()) as ledger:
                bound = ledger.sources().get(source_name)
        if bound is not None:
            self._say("", f"The ledger knows whose rows these are: {bound[0]}, {bound[1].text}.")
            return replace(first, population=bound[0], block=bound[1].text)
        more: tuple[str, ...] = ("One name for the same people in all files: what they lose adds up under it.",)
        people = self._ask("Who are these people, in a word?", str, default=slug(first.table), more=more)
        more = (
            "2025, 2025-H1, 2025-Q1, 2025-03, 2025-04-01..2026-04-01. These days have an account of their own.",
            "lifetime: the same people come again in other years, and are protected over all of them.",
        )
        block = self._ask(
            "Which days are the rows about? A year, a quarter, A..B, or lifetime",
            lambda typed: time_block(typed).text,
            more=more,
        )
        return replace(first, population=people, block=block)

    def _price(self, first: FirstRelease) -> tuple[FirstRelease, AccountTerms | None]:
        """Ask for epsilon with what it means and how far off it would be, and for the account and its cap."""
        state = self._account_of(first)
        left = "" if state is None else f" The account {state.terms.name} pays."
        self._say("", f"ε bounds what anybody may learn of one person.{left} Who was half sure whether")
        words = (f"{each}: {_half_sure(each)}" for each in _EXAMPLES)
        self._say(f"somebody is among them may be this sure afterwards, at most: {', '.join(words)}.")
        more: tuple[str, ...] = ("Smaller protects better and is noisier. 1 or less is usual for one release.",)
        while True:
            priced = self._ask(
                "Which ε may the release cost?", lambda typed: self._priced(first, typed, state), more=more
            )
            if self._ask("Precise enough? yes, or no for another ε", read_yes, default="yes", more=_PRECISE):
                break
        if state is not None:
            return replace(priced, account=state.terms.name), None
        name = f"{priced.population}-{priced.block}"
        asked = "What is the account called? It bounds what all releases may learn"
        name = self._ask(asked, str, default=name, more=_ACCOUNT)
        priced = replace(priced, account=name)
        more = ("All releases about these people together never pass it. It cannot be raised after the first.",)
        terms = self._ask(
            "Which ε may all releases about these people cost together?",
            lambda typed: _terms(priced, typed),
            more=more,
        )
        return priced, terms

    def _account_of(self, first: FirstRelease) -> AccountState | None:
        """Return the account that these people have, if they have one; it has to fit what was answered."""
        if self._place is None:
            return None
        with closing(self._place.open_ledger()) as ledger:
            states = [each for each in ledger.accounts() if each.terms.population == first.population]
        days = time_block(first.block)
        state = next((each for each in states if each.terms.days == days), None)
        unit = first.unit or ROW
        if state is not None and (state.terms.unit, state.terms.adjacency) != (unit, "add_remove"):
            found = f"the account {state.terms.name} protects {state.terms.unit} under {state.terms.adjacency}"
            allowed = f"{unit} under add_remove, as you answered"
            remedy = f"answer {state.terms.unit} at the second question, or write the spec by hand"
            raise AnswerRefused([Finding("sudare new", "unit", found, allowed, f"{remedy}; nothing was written")])
        return state

    def _priced(self, first: FirstRelease, epsilon: str, state: AccountState | None) -> FirstRelease:
        """Plan the release at an epsilon, and say how far off it would be."""
        asked, priced = _amount(epsilon), replace(first, epsilon=epsilon, account="none")
        request = planned(priced, self._here)
        if state is not None:
            largest = fitting_epsilon(state, request_for(request.spec, request.contract, request.plan))
            if largest is None or largest < asked:
                room = "nothing" if largest is None else f"ε = {float(largest):.12g}"
                raise Misunderstood(f"the account {state.terms.name} has room for {room}: ask for less")
        self._say(f"  ε = {epsilon}: who was half sure may be {_half_sure(epsilon)} sure. How far counts are off:")
        draws = product_view("tables").plan_object(request.spec, request.plan)["draws"]
        shown = [draw for draw in draws if draw["columns"]]
        for draw in shown[:_SHOWN]:
            off = f"{draw['cells']:,} cells, each ±{draw['interval_95']:,} in 95 of 100 draws"
            self._say(f"  {' x '.join(draw['columns'])}: {off}")
        self._say(*([f"  and {len(shown) - _SHOWN} more tables"] if len(shown) > _SHOWN else []))
        return priced


def _amount(typed: str) -> Decimal:
    if not _AMOUNT.fullmatch(typed) or not Decimal(typed):
        raise Misunderstood("a decimal number above 0 with a point, such as 0.5 or 1")
    return Decimal(typed)


def _half_sure(epsilon: str) -> str:
    """Return how sure somebody may be afterwards who was half sure before (delta = 0)."""
    return largest_posterior(PRIORS[-1], odds_bound(int(Decimal(epsilon) * PICO), 0))


def _free_folder(typed: str) -> Path:
    """Return a folder that a workspace can be made in."""
    if (Path(typed) / "sudare.toml").exists():
        raise Misunderstood(f"{typed} is a workspace already: begin again with --workspace {typed}")
    if Path(typed).exists() and not Path(typed).is_dir():
        raise Misunderstood(f"{typed} is a file: name a folder, which may be new")
    return Path(typed)


def _terms(first: FirstRelease, typed: str) -> AccountTerms:
    """Return the terms of a new account whose cap holds the release."""
    if _amount(typed) < Decimal(first.epsilon):
        raise Misunderstood(f"at least {first.epsilon}, which this release costs")
    people, unit = first.population, first.unit or ROW
    return account_terms(first.account, people, first.block, unit, "add_remove", "pure", typed)
