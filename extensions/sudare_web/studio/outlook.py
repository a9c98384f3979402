"""What the plan foretells of the texts in the editors: tables with intervals, what would be left, what is wrong.

Plans follow from spec, contract and ledger. No row is read, and no module that reads rows is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from math import ceil
from typing import Any, Final

from console.accounts import fitting
from console.plan import plan_object
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import Finding, Refused, SudareError
from contracts.reading.yaml_lines import shown, unsaved
from contracts.release.spec import load_spec
from flows.request import read_request
from privacy.accounting.amounts import ATTO, PICO, pico_to_text
from privacy.accounting.posterior import right_of_100
from privacy.ledger.terms import AccountState
from sudare_web.studio.files import FileText
from tasks.storage.workspace.settings import Workspace

SPEC: Final = "spec"
CONTRACT: Final = "contract"
_MOST_FINDINGS: Final = 40
_COUNTS: Final = ("count", "units")

Width = tuple[str, str, int]
"""What it is the width of (empty for a count), the half width, and of how many rows it depends (0 for none)."""


@dataclass(frozen=True)
class AccountBar:
    """An account as a bar.

    Args:
        name: of the account.
        spent, cost, left: shares of the cap, 0 to 1; `left` is below 0 where the release does not fit.
        fits: whether it does.
        largest_epsilon: the largest ε of a release like this one that fits; None where none does.
        runs_left: how often it fits.
        also: other accounts that are charged.
    """

    name: str
    spent: float
    cost: float
    left: float
    fits: bool
    largest_epsilon: str | None
    runs_left: int
    also: tuple[str, ...]


@dataclass(frozen=True)
class Outlook:
    """What is known of the texts.

    Args:
        findings: what is wrong: the parts of a finding, `file` (spec, contract, or empty) and `line` (0 without one).
        plan: the plan as `sudare plan --json` has it; None where something is wrong.
        bar: what would be left of the account; None where no account of that name is open.
        accounts: the open accounts: name, people, block and what they can still give.
        contract: whose relation of neighbours the chances are for; None where something is wrong.
    """

    findings: list[dict[str, Any]]
    plan: dict[str, Any] | None = None
    bar: AccountBar | None = None
    accounts: list[dict[str, Any]] = field(default_factory=list)
    contract: Contract | None = None

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of each table its name, cells, share and expected 95 % intervals."""
        return [] if self.plan is None else _lines_of(self.plan)

    def of_tables(self, tables: Sequence[tuple[str, ...]]) -> dict[int, dict[str, Any]]:
        """Return the line of each table of the form, by its place.

        Args:
            tables: by which columns each counts, in the order of the spec.
        """
        lines = self.lines
        if self.plan is not None and "statistics" in self.plan and len(lines) == len(tables):
            return dict(enumerate(lines))  # two tables of statistics may have the same columns
        known = {frozenset(each["columns"]): each for each in lines}
        return {place: known[frozenset(each)] for place, each in enumerate(tables) if frozenset(each) in known}

    @property
    def right_of_100(self) -> int:
        """How many of 100 guesses at even odds about one person are right at most; 0 without a plan."""
        if self.plan is None:
            return 0
        epsilon, delta = Decimal(self.plan["epsilon"]), Decimal(self.plan["delta"])
        return right_of_100(int(epsilon * PICO), int(delta * ATTO))


def look(workspace: Workspace | None, spec: FileText, contract: FileText | None, rows: int | None) -> Outlook:
    """Plan the release that the editors hold.

    Args:
        workspace: whose ledger knows the accounts; None where there is none yet.
        spec, contract: the texts; they stand for their files.
        rows: about how many rows there are, if that is public.
    Returns:
        Outlook: what is wrong stands in it; nothing is raised for it.
    Privacy: reads no data.
    """
    texts = [text for text in (spec, contract) if text is not None]
    names = {SPEC: spec} | ({} if contract is None else {CONTRACT: contract})
    accounts: Sequence[AccountState] = ()
    findings: list[Finding] = []
    plan, request = None, None
    with unsaved({text.path: text.text for text in texts}):
        try:
            accounts = _accounts(workspace)
        except SudareError as error:
            findings += _of(error)
        try:
            request = read_request(spec.path, workspace)
            plan = plan_object(request, workspace, rows)
        except SudareError as error:  # both texts are looked at, since the plan stops at the first that is wrong
            reads = [lambda: load_spec(spec.path), *([] if contract is None else [_reading(contract)])]
            findings += [each for read in reads for each in _refused(read)] or _of(error)
    bar = None if plan is None else _bar(plan["account"], accounts)
    placed = [_placed(each, names) for each in findings[:_MOST_FINDINGS]]
    return Outlook(placed, plan, bar, _told(accounts), None if request is None else request.contract)


def _reading(contract: FileText) -> Callable[[], object]:
    return lambda: load_contract(contract.path)


def _refused(read: Callable[[], object]) -> list[Finding]:
    try:
        read()
    except SudareError as error:
        return _of(error)
    return []


def _of(error: SudareError) -> list[Finding]:
    """Return the findings of an error; of one that is a sentence, that."""
    if isinstance(error, Refused):
        return list(error.findings)
    return [Finding("sudare", type(error).__name__, str(error), "")]


def _placed(finding: Finding, names: dict[str, FileText]) -> dict[str, Any]:
    """Say beside which editor, and which of its lines, a finding stands."""
    for name, text in names.items():
        begin = f"{shown(text.path)}:"
        if finding.where.startswith(begin) and finding.where.removeprefix(begin).isdigit():
            return {**asdict(finding), "file": name, "line": int(finding.where.removeprefix(begin))}
    return {**asdict(finding), "file": "", "line": 0}


def _accounts(workspace: Workspace | None) -> Sequence[AccountState]:
    if workspace is None:
        return ()
    with closing(workspace.open_ledger()) as ledger:
        return [state for state in ledger.accounts() if state.status == "open"]


def _told(accounts: Sequence[AccountState]) -> list[dict[str, Any]]:
    return [
        {
            "name": state.terms.name,
            "population": state.terms.population,
            "block": state.terms.block,
            "epsilon": pico_to_text(state.terms.epsilon),
            "gives": max((Decimal(each) for each in fitting(state).values() if each is not None), default=Decimal(0)),
        }
        for state in accounts
    ]


def _bar(account: dict[str, Any], accounts: Sequence[AccountState]) -> AccountBar | None:
    state = next((each for each in accounts if each.terms.name == account["name"]), None)
    if not account["open"] or state is None or not state.cap:
        return None
    cap = Decimal(pico_to_text(state.cap))
    spent, cost = (float(Decimal(text) / cap) for text in (pico_to_text(state.spent), account["cost"]))
    return AccountBar(
        name=account["name"],
        spent=spent,
        cost=cost,
        left=1 - spent - cost,
        fits=account["fits"],
        largest_epsilon=account["largest_epsilon"],
        runs_left=account["runs_left"],
        also=tuple(each["name"] for each in account["also_charged"]),
    )


def _lines_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each table, statistic or step.

    Args:
        plan: as `sudare plan --json` has it.
    Returns:
        list: of dicts with `columns`, `step` (the name of a generator's step), `cells`, `share`, `within` (a `Width`
        each) and `below` (rows under which the average count is smaller than its noise).
    """
    if "statistics" in plan:
        return [_of_statistics(each) for each in plan["statistics"]]
    if "steps" in plan:
        return [_line([], None, each["share"], step=each["what"]) for each in plan["steps"]]
    return [_of_table(each) for each in plan.get("draws", ())]


def _line(columns: list[str], cells: int | None, share: float, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"within": [], "below": None, "step": ""}
    return {"columns": columns, "cells": cells, "share": share, **empty, **more}


def _of_table(draw: dict[str, Any]) -> dict[str, Any]:
    reach = draw["interval_95"]
    return _line(
        draw["columns"],
        draw["cells"],
        draw["share"],
        within=[("", f"{reach:,}", 0)],
        below=draw["noise_below_rows"] if draw["columns"] else None,
    )


def _of_statistics(table: dict[str, Any]) -> dict[str, Any]:
    return _line(
        table["columns"],
        table["cells"],
        table["share"],
        within=[(each["statistic"], _width(each), each.get("rows", 0)) for each in table["expected"]],
    )


def _width(error: dict[str, Any]) -> str:
    """Write a half width: that of a count and large ones as a whole number, others with three digits."""
    width = error["half_width_95"]
    if error["statistic"] in _COUNTS:
        width = ceil(width)
    return f"{width:,.0f}" if width >= 1000 or float(width).is_integer() else f"{width:,.3g}"
