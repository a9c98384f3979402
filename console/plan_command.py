"""`sudare plan`: the command. What it tells without rows is `console.plan`, which the studio shows too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.output import AsJson, At, Exact, Spec, answer
from console.plan import nearest_workspace, plan_object, print_plan
from flows.request import read_request
from privacy.ledger.entries import BudgetExceeded

Surrogate = Annotated[
    Path | None,
    typer.Option("--surrogate", metavar="FILE", help="Public rows that stand for yours: an older census."),
]
PublicBecause = Annotated[
    str | None, typer.Option("--public-because", metavar="REASON", help="Why those rows are public.")
]


def plan(
    spec: Spec,
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="About how many rows there are, if that is public: tells which tables are noise."),
    ] = None,
    aims: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="AIM",
            help='Find the least epsilon that is so exact: "±5% where count >= 1000", "age: ±50". More than once.',
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Write the trade-off of --for as a picture.")
    ] = None,
    surrogate: Surrogate = None,
    public_because: PublicBecause = None,
    exact: Exact = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show what a release would cost, what error to expect, and what the account can still give. Reads no data.

    It also says what a reviewer would warn of: a large epsilon, tables that are
    all noise, a source that is not there, what `contract lint` finds.
    Exit 4 where the charge does not fit what is left. With --surrogate it
    also says what refined counts of a public stand-in are off by.

    Examples:

        sudare plan examples/adult/tables.yaml

        sudare plan examples/adult/tables.yaml --rows 48842

        sudare plan visits.yaml --period 2024Q3

        sudare plan examples/adult/tables.yaml --for "±5% where count >= 1000"

        sudare plan examples/adult/tables.yaml --for "age: ±50" --picture trade-off.svg

        sudare plan examples/adult/tables.yaml --surrogate census-2010.parquet --public-because "published in 2012"

        sudare plan examples/adult/tables.yaml --json
    """
    if picture is not None:
        from console.trade_off import check_picture  # for the few plans that have a picture

        check_picture(picture, aims or ())
    where = nearest_workspace(workspace)
    request = read_request(spec, where, period)
    payload = plan_object(request, where, rows, aims=aims or ())
    if surrogate is not None or public_because is not None:
        from console.surrogate_plan import told_of_surrogate  # for the few plans that have a stand-in

        epsilon = Decimal(payload["aims"]["epsilon"]) if "aims" in payload else request.spec.charge.epsilon
        payload["surrogate"] = told_of_surrogate(request, surrogate, public_because, workspace, epsilon=epsilon)
    if picture is not None:
        from console.trade_off import write_picture

        write_picture(picture, payload["aims"], request.spec.release)
        payload["aims"]["picture"] = str(picture)
    answer(payload, lambda console: _print(console, payload, exact=exact), as_json=as_json)
    if not payload["account"].get("fits", True):
        raise typer.Exit(BudgetExceeded.exit_code)


def _print(console: Console, payload: dict[str, Any], *, exact: bool) -> None:
    print_plan(console, payload, exact=exact)
    if "surrogate" in payload:
        from console.surrogate_plan import print_surrogate  # for the few plans that have a stand-in

        print_surrogate(console, payload["surrogate"])
