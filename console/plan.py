"""`sudare plan`: what a release would cost and how far off it would be, without touching data."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console import plan_model
from console.options import AsJson, At, Exact, Spec, workspace_at
from console.plan_synthetic import facts, plan_object, print_steps
from console.plan_warnings import delta_unheld, draw_lines, known_rows, noise_below_rows, print_warnings, warnings_of
from console.render import answer, print_facts, table
from contracts.release.classifier import ModelProduct
from flows.capacity import check_capacity
from flows.request import Request, read_request
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.events import CountNoise
from privacy.generators.release_plan import FittedPlan
from privacy.ledger.accounts.admission import fitting_epsilon
from privacy.ledger.errors import BudgetExceeded
from privacy.ledger.forecast import runs_left
from privacy.marginals.suppression import threshold_for
from privacy.table_plans.plan import TablesPlan
from privacy.table_plans.sparse_plan import SparsePlan
from tasks.products.charge_request import request_for
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace

# Measured on 2 cores with releases of 1 to 5.4 million cells; what reading the data takes comes on top.
BASE_MEGABYTES, BYTES_PER_CELL = 450, 50
BASE_SECONDS, SECONDS_PER_CELL = 6.0, 6e-7
# A row that a sparse table lists, measured with 5.4 million of them.
BYTES_PER_ROW, SECONDS_PER_ROW = 150, 1.5e-6

NUMBERS = ("cells", "share", "expected error", "95 % within", "noise below [rows]")


def plan(
    spec: Spec,
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="About how many rows there are, if that is public: tells which tables are noise."),
    ] = None,
    exact: Exact = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show what a release would cost, what error to expect, and what the account can still give. Reads no data.

    It also says what a reviewer would warn of: a large epsilon, tables that are
    all noise, a source that is not there, what `contract lint` finds.
    Exit 4 where the charge does not fit what is left.

    Examples:

        sudare plan examples/adult/tables.yaml

        sudare plan examples/adult/tables.yaml --rows 48842

        sudare plan visits.yaml --period 2024Q3

        sudare plan examples/adult/tables.yaml --json
    """
    request = read_request(spec, _workspace(workspace), period)
    check_capacity(request, _workspace(workspace))
    payload = {
        **_plan_object(request),
        "lambda_reference": _lambda_reference(request, workspace),
        "account": _account_left(request, workspace),
    }
    known = known_rows(request, rows)
    payload["delta_unheld"] = delta_unheld(request, known)
    payload["warnings"] = warnings_of(request, payload.get("draws", ()), known)
    answer(payload, lambda console: _print(console, payload, exact=exact), as_json=as_json)
    if not payload["account"].get("fits", True):
        raise typer.Exit(BudgetExceeded.exit_code)


def _plan_object(request: Request) -> dict[str, Any]:
    """Return the plan as a JSON object; amounts as exact decimal text."""
    plan = request.plan
    return {
        "release": request.spec.release,
        "kind": request.spec.product.kind,
        "epsilon": pico_to_text(plan.epsilon),
        "delta": atto_to_text(plan.delta),
        **_product_object(request, plan),
    }


def _product_object(request: Request, plan: TablesPlan | FittedPlan[Any]) -> dict[str, Any]:
    """Return the part of the plan that only this kind of product has."""
    if isinstance(plan, TablesPlan):
        return _tables_object(plan)
    if isinstance(request.spec.product, ModelProduct):
        return plan_model.plan_object(plan)
    return plan_object(request.spec, plan)


def _tables_object(plan: TablesPlan) -> dict[str, Any]:
    """Return the part of the plan that is about tables."""
    return {
        "mechanism": plan.mechanism,
        "expected_rmse": {noise: float(error) for noise, error in plan.expected_rmse.items()},
        "draws": [
            {
                "key": draw.key,
                "level": None if draw.coarsening is None else draw.coarsening.level,
                "columns": list(draw.clique),
                "cells": draw.cells,
                "share": float(draw.share),
                "expected_error": draw.variance**0.5,
                "interval_95": draw.half_width,
                "noise_below_rows": noise_below_rows(draw.cells, draw.variance**0.5),
                **_threshold(plan, draw.event),
                "event": draw.event.to_json(),
                "sparse": _sparse_object(draw.sparse),
            }
            for draw in plan.draws
        ],
        "cells": plan.cells,
        **_needs(plan),
    }


def _sparse_object(sparse: SparsePlan | None) -> dict[str, int] | None:
    """Return from where on a sparse table lists its cells, and how many empty ones are then expected."""
    if sparse is None:
        return None
    first, least = sparse.thresholds
    return {"first_threshold": first, "least_threshold": least, "expected_rows": sparse.expected_rows}


def _needs(plan: TablesPlan) -> dict[str, Any]:
    """Foretell memory and time; of a sparse table from the rows that are expected at its first threshold."""
    draws = plan.draws
    dense = sum(draw.cells for draw in draws if draw.sparse is None)
    listed = sum(draw.sparse.expected_rows for draw in draws if draw.sparse is not None)
    return {
        "megabytes": BASE_MEGABYTES + round((dense * BYTES_PER_CELL + listed * BYTES_PER_ROW) / 1e6),
        "seconds": round(BASE_SECONDS + dense * SECONDS_PER_CELL + listed * SECONDS_PER_ROW, 1),
    }


def _threshold(plan: TablesPlan, event: CountNoise) -> dict[str, int]:
    """Return the least noisy count that a minimum-frequency rule lets out, if there is such a rule."""
    rule = plan.minimum_frequency
    return {} if rule is None else {"published_from": threshold_for(rule, event).value}


def _lambda_reference(request: Request, folder: Path | None) -> str | None:
    """Name the earlier version on which λ is chosen, if the spec names one; refuse one that a run would refuse."""
    reference, workspace = request.spec.reference, _workspace(folder)
    if reference is not None and workspace is not None:
        # the reader of versions, with Arrow: for the few specs that name one
        from tasks.products.tables.reference_version import earlier_version

        with closing(workspace.open_ledger()) as ledger:
            earlier_version(request.spec, request.contract, ledger, request.store(workspace))
    return None if reference is None else reference.reference


def _account_left(request: Request, folder: Path | None) -> dict[str, Any]:
    """Return what the release would cost its people's accounts, where there are any; refuse what is never charged."""
    name = request.spec.charge.account
    missing = {"name": name, "open": False}
    workspace = _workspace(folder)
    if workspace is None:
        return missing
    with closing(workspace.open_ledger()) as ledger:
        if name not in {state.terms.name for state in ledger.accounts()}:
            return missing
        asked = request_for(request.spec, request.contract, request.plan)
        priced = ledger.price(asked)
    costs = {part.account: part.amount for part in priced.parts}
    remaining = {state.terms.name: state.remaining for state in priced.accounts}
    fitting = [fitting_epsilon(state, asked) for state in priced.accounts]
    smallest = None if None in fitting else min(epsilon for epsilon in fitting if epsilon is not None)
    return {
        "name": name,
        "open": True,
        "cost": pico_to_text(costs[name]),
        "remaining": pico_to_text(remaining[name]),
        "fits": priced.fits,
        "runs_left": runs_left(priced.parts, remaining),
        "largest_epsilon": None if smallest is None else f"{float(smallest):.12g}",
        "also_charged": [
            {"name": each, "cost": pico_to_text(costs[each]), "remaining": pico_to_text(remaining[each])}
            for each in costs
            if each != name
        ],
    }


def _workspace(folder: Path | None) -> Workspace | None:
    """Return the workspace, or None where none was named and there is none here."""
    try:
        return workspace_at(folder)
    except WorkspaceRefused:
        if folder is not None:
            raise
        return None


def _print(console: Console, payload: dict[str, Any], *, exact: bool) -> None:
    fitted = {"synthetic": facts, "model": plan_model.facts}.get(payload["kind"])
    noise = "" if fitted else f" ({payload['mechanism']} noise)"
    earlier = payload["lambda_reference"]
    print_facts(
        console,
        [
            ("release", payload["release"]),
            ("cost", f"ε = {payload['epsilon']} at δ = {payload['delta']}{noise}"),
            *([("delta", payload["delta_unheld"])] if payload["delta_unheld"] else []),
            *(fitted(payload) if fitted else [("error", _error_words(payload))]),
            *([("lambda", f"chosen on {earlier}, at no cost")] if earlier else []),
            ("account", _account_words(payload["account"], exact=exact)),
            ("memory", f"about {payload['megabytes']} MB, and what DuckDB may use to read the data"),
            ("time", f"about {payload['seconds']:.0f} s, and what reading the data takes"),
            ("data read", "none"),
        ],
    )
    console.print()
    if fitted:
        print_steps(console, payload)
        print_warnings(console, payload["warnings"])
        return
    rows = draw_lines(payload["draws"])
    numbers = (*NUMBERS, "published from") if "published_from" in payload["draws"][0] else NUMBERS
    console.print(table(("marginal", *numbers), rows, numbers=numbers))
    for draw in payload["draws"]:
        if draw["sparse"] is not None:
            console.print(_sparse_words(draw))
    print_warnings(console, payload["warnings"])


def _sparse_words(draw: dict[str, Any]) -> str:
    """Say which cells a sparse table will list."""
    sparse = draw["sparse"]
    words = (
        f"{' × '.join(draw['columns'])} is sparse: it lists noisy counts from {sparse['first_threshold']:,} on, "
        f"about {sparse['expected_rows']:,} of empty cells and those of populated ones"
    )
    if sparse["least_threshold"] == sparse["first_threshold"]:
        return words + "."
    return words + f"; from {sparse['least_threshold']:,} on at the most, if its refinement needs more."


def _error_words(payload: dict[str, Any]) -> str:
    """Say what error is expected over all cells, and of which noise it would be more."""
    chosen, errors = payload["mechanism"], payload["expected_rmse"]
    words = f"±{errors[chosen]:.3g} over all cells, before refinement"
    return words + "".join(f"; {noise} noise: ±{error:.3g}" for noise, error in errors.items() if noise != chosen)


def _account_words(account: dict[str, Any], *, exact: bool) -> str:
    """Say what the accounts can still give in this kind of release, and how often it fits; units where asked for."""
    if not account["open"]:
        return f"{account['name']}: no such account here"
    each_account, largest = (account, *account["also_charged"]), account["largest_epsilon"]
    can = f"can still give ε = {largest} in a release like this" if largest else "can give nothing more of this kind"
    lines = [f"{', '.join(each['name'] for each in each_account)}: {can}"]
    if exact:
        lines += [f"{each['name']}: {each['remaining']} left, this takes {each['cost']}" for each in each_account]
    if account["fits"]:
        lines.append(f"it fits {account['runs_left']} times, if nothing else is charged")
    else:
        lines.append("it does not fit: " + (f"ask for epsilon {largest} or less" if largest else "nothing more does"))
    return "\n".join(lines)
