"""How an account reads, as JSON and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from console.render import print_facts, table

if TYPE_CHECKING:
    from privacy.ledger.terms import AccountState

HEADINGS = ("account", "people", "block", "cap ε", "claimed ε", "δ", "lost", "left", "status")
NUMBERS = ("cap ε", "claimed ε", "δ", "lost", "left")


def account_object(state: AccountState, sources: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return an account as a JSON object; every amount is an exact decimal text."""
    from privacy.accounting.amounts import atto_to_text, pico_to_text
    from privacy.ledger.admission import loss_name

    terms = state.terms
    return {
        **terms.to_json(),
        "epsilon": pico_to_text(terms.epsilon),
        "delta": atto_to_text(terms.delta),
        "status": state.status,
        "loss": {
            "what": loss_name(terms.calculus),
            "cap": pico_to_text(state.cap),
            "spent": pico_to_text(state.spent),
            "remaining": pico_to_text(state.remaining),
        },
        "claim": pico_to_text(state.claim),
        "sources": sorted(name for name, people in sources.items() if people == (terms.population, terms.block)),
        "charges": [
            {
                "run_key": charge.request.run_key,
                "release": charge.request.release,
                "amount": pico_to_text(charge.amount),
                "epsilon": pico_to_text(charge.request.epsilon),
                "delta": atto_to_text(charge.request.delta),
                "status": charge.status,
            }
            for charge in state.charges
        ],
    }


def account_row(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the line of an account's JSON object under `HEADINGS`."""
    loss = account["loss"]
    named = (account["name"], account["population"], account["block"])
    return (
        *named,
        account["epsilon"],
        account["claim"],
        account["delta"],
        loss["spent"],
        loss["remaining"],
        account["status"],
    )


def print_account(console: Console, account: Mapping[str, Any]) -> None:
    """Print an account's JSON object for a person."""
    loss = account["loss"]
    print_facts(
        console,
        [
            ("account", f"{account['name']} ({account['status']})"),
            ("people", f"{account['population']}, block {account['block']}, unit {account['unit']}"),
            ("neighbours", account["adjacency"]),
            ("cap", f"ε = {account['epsilon']} at δ = {account['delta']}"),
            ("claimed so far", f"ε = {account['claim']}"),
            ("left", f"{loss['remaining']} of {loss['cap']} {loss['what']}"),
            ("sources", "\n".join(account["sources"]) or "none is bound: sudare budget bind --help"),
        ],
    )
    if account["charges"]:
        rows = [(c["release"], c["run_key"], c["amount"], c["epsilon"], c["status"]) for c in account["charges"]]
        headings = ("release", "run", "charged", "its ε", "status")
        console.print()
        console.print(table(headings, rows, numbers=("charged", "its ε")))
