"""What the plan foretells of the texts in the editors: tables with intervals, what would be left, what is wrong.

Plans follow from spec, contract and ledger. No row is read, and no module that reads rows is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Final

from console.accounts import fitting
from console.plan import plan_object
from console.studio.files import FileText
from contracts.contract.odcs import load_contract
from contracts.errors import Finding, Refused, SudareError
from contracts.reading.yaml_lines import shown, unsaved
from contracts.release.spec import load_spec
from flows.request import read_request
from privacy.accounting.amounts import pico_to_text
from privacy.ledger.terms import AccountState
from tasks.storage.workspace.settings import Workspace

SPEC: Final = "spec"
CONTRACT: Final = "contract"
_MOST_FINDINGS: Final = 40


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
    """

    findings: list[dict[str, Any]]
    plan: dict[str, Any] | None = None
    bar: AccountBar | None = None
    accounts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of each table its name, cells, share and expected 95 % intervals."""
        return [] if self.plan is None else _lines(self.plan)


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
    plan = None
    with unsaved({text.path: text.text for text in texts}):
        try:
            accounts = _accounts(workspace)
        except SudareError as error:
            findings += _of(error)
        try:
            plan = plan_object(read_request(spec.path, workspace), workspace, rows)
        except SudareError as error:  # both texts are looked at, since the plan stops at the first that is wrong
            reads = [lambda: load_spec(spec.path), *([] if contract is None else [_reading(contract)])]
            findings += [each for read in reads for each in _refused(read)] or _of(error)
    bar = None if plan is None else _bar(plan["account"], accounts)
    return Outlook([_placed(each, names) for each in findings[:_MOST_FINDINGS]], plan, bar, _told(accounts))


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


def _lines(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each table, statistic or step."""
    if "statistics" in plan:
        return [
            {
                "columns": each["columns"],
                "cells": each["cells"],
                "share": each["share"],
                "within": [(f"{one['statistic']} ", f"{one['half_width_95']:,.4g}") for one in each["expected"]],
                "below": None,
            }
            for each in plan["statistics"]
        ]
    if "steps" in plan:
        return [
            {"columns": [each["what"]], "cells": None, "share": each["share"], "within": [], "below": None}
            for each in plan["steps"]
        ]
    return [
        {
            "columns": each["columns"],
            "cells": each["cells"],
            "share": each["share"],
            "within": [("", f"{each['interval_95']:,}")],
            "below": each["noise_below_rows"] if each["columns"] else None,
        }
        for each in plan.get("draws", ())
    ]
