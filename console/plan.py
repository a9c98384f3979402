"""`sudare plan`: what a release would cost and how far off it would be, without touching data."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from console.options import AsJson, At, Spec, workspace_at
from console.render import answer, print_facts, table
from tasks.settings import Workspace, WorkspaceRefused

if TYPE_CHECKING:
    from flows.request import Request

# Measured on 2 cores with releases of 1 to 5.4 million cells; what reading the data takes comes on top.
BASE_MEGABYTES, BYTES_A_CELL = 450, 50
BASE_SECONDS, SECONDS_A_CELL = 6.0, 6e-7

NUMBERS = ("cells", "share", "expected error", "95 % within")


def plan(spec: Spec, workspace: At = None, as_json: AsJson = False) -> None:
    """Show what a release would cost, what error to expect, and what the account has left. Reads no data.

    Examples:

        sudare plan examples/adult/tables.yaml

        sudare plan examples/adult/tables.yaml --json
    """
    from flows.request import read_request

    request = read_request(spec)
    payload = {**_plan_object(request), "account": _account_left(request, workspace)}
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _plan_object(request: Request) -> dict[str, Any]:
    """Return the plan as a JSON object; amounts as exact decimal text."""
    from privacy.accounting.amounts import atto_to_text, pico_to_text

    return {
        "release": request.spec.release,
        "mechanism": request.spec.product.mechanism,
        "epsilon": pico_to_text(request.plan.epsilon),
        "delta": atto_to_text(request.plan.delta),
        "draws": [
            {
                "key": draw.key,
                "columns": list(draw.clique),
                "cells": draw.cells,
                "share": float(draw.share),
                "expected_error": draw.variance**0.5,
                "interval_95": draw.half_width,
                "event": draw.event.to_json(),
            }
            for draw in request.plan.draws
        ],
        "cells": request.plan.cells,
        "megabytes": BASE_MEGABYTES + round(request.plan.cells * BYTES_A_CELL / 1e6),
        "seconds": round(BASE_SECONDS + request.plan.cells * SECONDS_A_CELL, 1),
    }


def _account_left(request: Request, folder: Path | None) -> dict[str, Any]:
    """Return what the release would cost its account, where there is one; refuse what could not be charged."""
    from privacy.accounting.amounts import pico_to_text
    from privacy.ledger.errors import BudgetExceeded
    from privacy.ledger.ledger import Ledger
    from tasks.charge import request_for

    name = request.spec.charge.account
    missing = {"name": name, "open": False}
    workspace = _workspace(folder)
    if workspace is None:
        return missing
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        state = next((each for each in ledger.accounts() if each.terms.name == name), None)
        if state is None:
            return missing
        try:
            cost = ledger.foresee(request_for(request.spec, request.contract, request.plan))
        except BudgetExceeded as exceeded:
            cost = exceeded.requested
    return {
        "name": name,
        "open": True,
        "cost": pico_to_text(cost),
        "remaining": pico_to_text(state.remaining),
        "fits": cost <= state.remaining,
    }


def _workspace(folder: Path | None) -> Workspace | None:
    """Return the workspace, or None where none was named and there is none here."""
    try:
        return workspace_at(folder)
    except WorkspaceRefused:
        if folder is not None:
            raise
        return None


def _print(console: Console, payload: dict[str, Any]) -> None:
    account = payload["account"]
    left = (
        "no such account here"
        if not account["open"]
        else f"{account['remaining']} left, this takes {account['cost']}"
    )
    if account["open"] and not account["fits"]:
        left += ": it does not fit"
    print_facts(
        console,
        [
            ("release", payload["release"]),
            ("cost", f"ε = {payload['epsilon']} at δ = {payload['delta']} ({payload['mechanism']} noise)"),
            ("account", f"{account['name']}: {left}"),
            ("memory", f"about {payload['megabytes']} MB, and what DuckDB may use to read the data"),
            ("time", f"about {payload['seconds']:.0f} s, and what reading the data takes"),
            ("data read", "none"),
        ],
    )
    console.print()
    rows = [
        (
            " × ".join(draw["columns"]) or "total",
            f"{draw['cells']:,}",
            f"{draw['share']:.1%}",
            f"±{draw['expected_error']:.3g}",
            f"±{draw['interval_95']:,}",
        )
        for draw in payload["draws"]
    ]
    console.print(table(("marginal", *NUMBERS), rows, numbers=NUMBERS))
