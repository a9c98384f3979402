"""What a release would cost and how far off it would be, without touching data: what `sudare plan` tells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from console.output import print_facts, workspace_at
from console.plan_warnings import delta_unheld, known_rows, print_warnings, warnings_of
from console.products.product_view import product_view
from contracts.errors import SourceUnreadable
from contracts.reading.scalars import Problem, nearest
from contracts.reading.yaml_lines import nearest_file
from contracts.release.engine_kinds import EngineKind, engine_kind
from flows.outcome import still
from flows.request import Request, check_capacity
from privacy.accounting.amounts import atto_to_text, budget_used, pico_to_text
from privacy.ledger.accounts.admission import Admission, fitting_epsilon
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.forecast import remaining_of, runs_left, times
from tasks.products.charge_request import request_for
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace

if TYPE_CHECKING:
    from console.aimed_plan import AimedRequest


def plan_object(
    request: Request,
    workspace: Workspace | None,
    rows: int | None,
    *,
    aims: Sequence[str] = (),
    rows_come_later: bool = False,
) -> dict[str, Any]:
    """Return all that is told of a plan, as a JSON object; reads no data.

    Args:
        request: what would be released.
        workspace: whose ledger knows the accounts; None where there is none.
        rows: about how many rows there are, if that is public.
        aims: how exact it shall be; then the plan is one at the least epsilon that is enough.
        rows_come_later: whether the source is a table in memory, whose file is there only while it is released.
    Raises:
        SudareError: it would be refused; nothing was charged.
    """
    found = _aimed(request, aims, workspace) if aims else None
    request = request if found is None else found.request
    check_capacity(request, workspace)
    payload = {
        **_plan_object(request),
        "lambda_reference": _lambda_reference(request, workspace),
        "account": _account_left(request, workspace, rows_come_later=rows_come_later),
        **({} if found is None else {"aims": found.to_json()}),
    }
    known = known_rows(request, rows)
    payload["delta_unheld"] = delta_unheld(request, known)
    warnings = warnings_of(request, payload.get("draws", ()), known)
    payload["warnings"] = [each for each in warnings if not (rows_come_later and each["rule"] == "source")]
    return payload


def _aimed(request: Request, aims: Sequence[str], workspace: Workspace | None) -> AimedRequest:
    """Find the least epsilon that is enough."""
    from console.aimed_plan import aimed  # for the few plans that have aims

    return aimed(request, aims, workspace)


def _plan_object(request: Request) -> dict[str, Any]:
    """Return the plan as a JSON object; amounts as exact decimal text."""
    plan = request.plan
    return {
        "release": request.spec.release,
        "kind": request.spec.product.kind,
        "epsilon": pico_to_text(plan.epsilon),
        "delta": atto_to_text(plan.delta),
        **({} if request.spec.source.engine is None else {"engine": request.spec.source.engine}),
        **product_view(request.spec.product.kind).plan_object(request.spec, plan),
    }


def _lambda_reference(request: Request, workspace: Workspace | None) -> str | None:
    """Name the earlier version on which λ is chosen, if the spec names one; refuse one that a run would refuse."""
    reference = request.spec.reference
    if reference is not None and workspace is not None:
        # the reader of versions, with Arrow: for the few specs that name one
        from tasks.products.tables.reference_version import earlier_version

        with closing(workspace.open_ledger()) as ledger:
            earlier_version(request.spec, request.contract, ledger, request.store(workspace))
    return None if reference is None else reference.reference


def _account_left(request: Request, workspace: Workspace | None, *, rows_come_later: bool) -> dict[str, Any]:
    """Return what the release would cost its people's accounts, where there are any; refuse what is never charged."""
    name = request.spec.charge.account
    missing = {"name": name, "open": False}
    if workspace is None:
        return missing
    with closing(workspace.open_ledger()) as ledger:
        known = {state.terms.name for state in ledger.accounts()}
        if name not in known:
            return missing | ({"meant": meant} if (meant := nearest(name, known)) else {})
        asked = request_for(request.spec, request.contract, request.plan)
        try:
            priced = ledger.price(asked)
        except LedgerRefusal:
            if not rows_come_later:
                _check_source(request)
            raise
    return _priced(name, priced, [fitting_epsilon(state, asked) for state in priced.accounts])


def _priced(name: str, priced: Admission, fitting: Sequence[Fraction | None]) -> dict[str, Any]:
    """Return what a release would cost its people's accounts.

    Args:
        name: of the account that its spec names.
        priced: what each account would be charged.
        fitting: the largest epsilon that each account holds; None where no epsilon fits.
    """
    costs = {part.account: part.amount for part in priced.parts}
    each = {
        state.terms.name: {
            "name": state.terms.name,
            "cost": pico_to_text(costs[state.terms.name]),
            "remaining": pico_to_text(state.remaining),
            "used": budget_used(state.spent + priced.fits * costs[state.terms.name], state.cap),
        }
        for state in priced.accounts
    }
    smallest = None if None in fitting else min(epsilon for epsilon in fitting if epsilon is not None)
    return {
        **each[name],
        "open": True,
        "fits": priced.fits,
        "fits_but_for_selections": not priced.over and not priced.fits,
        "for_selections": atto_to_text(min(left)) if (left := _for_selections(priced)) else None,
        "runs_left": runs_left(priced.parts, remaining_of(priced.accounts), failure=priced.failure),
        "largest_epsilon": None if smallest is None else f"{float(smallest):.12g}",
        "also_charged": [each[other] for other in costs if other != name],
    }


def _for_selections(priced: Admission) -> list[int]:
    """Return what each account has left for selections of keys, where the release has one [10⁻¹⁸]."""
    return [max(0, state.selections_left) for state in priced.accounts] if priced.failure else []


def _check_source(request: Request) -> None:
    """Refuse a file that is not there: a path with a typing error is bound to nobody, and is not to be bound."""
    path = request.spec.source.path
    if isinstance(path, Path) and not path.exists():
        meant = nearest_file(path)
        remedy = meant if meant.startswith("write") else "correct source.path (relative to the spec's folder)"
        problem = Problem(f"no such file: {path}", "an existing file", remedy)
        raise SourceUnreadable([request.spec.finding(("source", "path"), problem)])


def nearest_workspace(folder: Path | None) -> Workspace | None:
    """Return the workspace, or None where none was named and there is none here."""
    try:
        return workspace_at(folder)
    except WorkspaceRefused:
        if folder is not None:
            raise
        return None


def _reads(payload: dict[str, Any]) -> str:
    """Say who needs memory beside this process: what reads the rows."""
    engine = payload.get("engine")
    return (
        "DuckDB may use to read the data" if engine is None else f"{_title(engine)} needs, where it counts the rows"
    )


def _takes(payload: dict[str, Any]) -> str:
    """Say what takes time beside the noise."""
    engine = payload.get("engine")
    return "reading the data takes" if engine is None else f"counting in {_title(engine)} takes"


def _title(engine: str) -> str:
    title: str = engine_kind(engine, EngineKind).title
    return title


def print_plan(console: Console, payload: dict[str, Any], *, exact: bool) -> None:
    """Print a plan."""
    view, earlier = product_view(payload["kind"]), payload["lambda_reference"]
    print_facts(
        console,
        [
            ("release", payload["release"]),
            ("cost", f"ε = {payload['epsilon']} at δ = {payload['delta']}{view.noise_words(payload)}"),
            *([("delta", payload["delta_unheld"])] if payload["delta_unheld"] else []),
            *view.plan_facts(payload),
            *([("lambda", f"chosen on {earlier}, at no cost")] if earlier else []),
            ("account", _account_words(payload["account"], payload["delta"], exact=exact)),
            ("memory", f"about {payload['megabytes']} MB, and what {_reads(payload)}"),
            ("time", f"about {payload['seconds']:.0f} s on an idle core, and what {_takes(payload)}"),
            (
                "data read",
                "none" if "surrogate" not in payload else f"{payload['surrogate']['file']}, which is public",
            ),
        ],
    )
    console.print()
    view.print_draws(console, payload)
    if "aims" in payload:
        from console.aimed_plan import print_aims  # for the few plans that have aims

        print_aims(console, payload["aims"])
    print_warnings(console, payload["warnings"])
    if not payload["account"].get("fits", True):
        console.print(Text(f"\ndo: {_mended(payload['account'])}", style="green"))


def _what_would_fit(account: dict[str, Any]) -> str:
    """Say what the accounts hold of a release that does not fit."""
    if account["fits_but_for_selections"]:
        return f"its selections of keys may fail with at most δ = {account['for_selections']} more"
    largest = account["largest_epsilon"]
    return f"ask for epsilon {largest} or less" if largest else "nothing more does"


def _mended(account: dict[str, Any]) -> str:
    """Say what to write so that a release fits."""
    if account["fits_but_for_selections"]:
        return "ask for fewer selections of keys, or charge an account that has set more of δ aside for them"
    if account["largest_epsilon"]:
        return f"write epsilon: {account['largest_epsilon']}, or less, under `charge:` in the spec"
    return "charge an account of other people or other days: this one holds nothing more of this kind"


def _account_words(account: dict[str, Any], delta: str, *, exact: bool) -> str:
    """Say how much of the budget is used with this release, and how often it fits; the rest where asked for."""
    if not account["open"]:
        meant = f"\n{account['meant']}" if account.get("meant") else ""
        opened = "add --workspace DIR, or open it: sudare budget open --help"
        return f"{account['name']}: no such account here{meant}\n{opened}"
    each_account = (account, *account["also_charged"])
    when = "with" if account["fits"] else "before"
    lines = [f"{each['name']}: {each['used']} {when} this release" for each in each_account]
    if exact:
        lines.append(f"can still give: {still(account['largest_epsilon'], delta)}")
        lines += [f"{each['name']}: {each['remaining']} left, this takes {each['cost']}" for each in each_account]
    if account["fits"]:
        lines.append(f"it fits {times(account['runs_left'])}, if nothing else is charged")
    else:
        lines.append(f"it does not fit: {_what_would_fit(account)}")
    return "\n".join(lines)
