"""How an account reads, as JSON and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from rich.console import Console

from console.output import print_facts, table
from contracts.periods.time_blocks import TimeBlock
from privacy.accounting.amounts import atto_to_text, budget_used, percent_text, pico_to_text
from privacy.accounting.scale import further_epsilons
from privacy.ledger.accounts.admission import loss_name
from privacy.ledger.terms import AccountState, Charge

HEADINGS = ("account", "people", "block", "cap ε", "δ", "used", "runs out", "status")
_BAR = 50
_SEGMENTS = "█▓"
_LEFT = "░"
SELECTIONS = "selections of keys"
"""What a scheduled run is refused for where its loss would fit."""
EXACT = ("can still give: Laplace", "Gaussian", "lost", "left of it", "together ε")
NUMBERS = ("cap ε", "δ", "used", *EXACT)


def account_object(
    state: AccountState,
    charges: Sequence[Charge],
    sources: Mapping[str, tuple[str, TimeBlock]],
    accounts: Sequence[AccountState],
) -> dict[str, Any]:
    """Return an account as a JSON object; every amount is an exact decimal text."""
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
            "share_spent": percent_text(state.spent, state.cap, up=True),
            "share_left": percent_text(state.remaining, state.cap, up=False),
            "used": budget_used(state.spent, state.cap),
        },
        "claim": pico_to_text(state.claim),
        **({"selections": told} if (told := selections(state)) else {}),
        "fits": fitting(state),
        "sources": sorted(
            name
            for name, (population, block) in sources.items()
            if population == terms.population and block.overlaps(terms.days)
        ),
        "overlaps": [
            other.terms.name
            for other in accounts
            if other.terms.population == terms.population
            and other.terms.name != terms.name
            and other.terms.days.overlaps(terms.days)
        ],
        "releases": _by_release(charges, state),
        "charges": [
            {
                "run_key": charge.request.run_key,
                "release": charge.request.release,
                "amount": pico_to_text(charge.amount_of(terms.name)),
                "share": percent_text(charge.amount_of(terms.name), state.cap, up=True),
                "epsilon": pico_to_text(charge.request.epsilon),
                "delta": atto_to_text(charge.request.delta),
                "status": charge.status,
            }
            for charge in charges
        ],
    }


def selections(state: AccountState) -> dict[str, str]:
    """Return what the account has for selections of keys, of its δ; nothing where it sets nothing aside."""
    aside = state.terms.calculus.selection_delta
    told = {"delta": aside, "spent": state.failure, "remaining": state.selections_left}
    return {name: atto_to_text(units) for name, units in told.items()} if aside else {}


def fitting(state: AccountState) -> dict[str, str | None]:
    """Return the largest epsilon of one more release, by its noise: Laplace, or Gaussian at the account's delta.

    None where nothing fits, as in an account that is closed.
    """
    left = state.remaining if state.status == "open" else 0
    fits = further_epsilons(state.terms.calculus, state.terms.delta, left)
    return {name: None if epsilon is None else f"{float(epsilon):.12g}" for name, epsilon in fits.items()}


def _by_release(charges: Sequence[Charge], state: AccountState) -> list[dict[str, Any]]:
    """Sum up by release, those that spent most first: its share of the cap, and its own ε at its δ."""
    account = state.terms.name
    standing: dict[str, list[Charge]] = {}
    for charge in charges:
        if charge.status != "returned":
            standing.setdefault(charge.request.release, []).append(charge)
    spent = {release: sum(each.amount_of(account) for each in made) for release, made in standing.items()}
    claims = {
        release: sorted({(each.request.epsilon, each.request.delta) for each in made})
        for release, made in standing.items()
    }
    return [
        {
            "release": release,
            "runs": len(standing[release]),
            "spent": pico_to_text(spent[release]),
            "share": percent_text(spent[release], state.cap, up=True),
            "claims": [
                {"epsilon": pico_to_text(epsilon), "delta": atto_to_text(delta)} for epsilon, delta in claims[release]
            ],
        }
        for release in sorted(standing, key=lambda name: -spent[name])
    ]


def calendar_object(calendar: Mapping[str, Any], state: AccountState) -> dict[str, Any]:
    """Return what the schedule means for an account, as JSON."""
    name = state.terms.name
    scheduled = []
    for forecast in calendar["forecasts"]:
        cost = {part.account: part.amount for part in forecast.parts}.get(name)
        if cost is not None or forecast.trouble is not None:
            scheduled.append(
                {
                    "spec": forecast.spec,
                    "cron": forecast.cron,
                    "release": forecast.release,
                    "next": forecast.following.isoformat(),
                    "cost": None if cost is None else pico_to_text(cost),
                    "runs_left": forecast.runs_left,
                    "trouble": forecast.trouble,
                }
            )
    refusal = calendar["refusals"].get(name)
    runs_out = None
    if refusal is not None:
        of = SELECTIONS if refusal.for_selections else "loss"
        runs_out = {"at": refusal.at.isoformat(), "release": refusal.name, "of": of}
    return {"schedule": scheduled, "runs_out": runs_out}


def account_row(account: Mapping[str, Any], *, exact: bool) -> tuple[str, ...]:
    """Return the line of an account's JSON object under `HEADINGS`, and `EXACT` where that is asked for."""
    loss, runs_out, fits = account["loss"], account["runs_out"], account["fits"]
    more = (
        f"ε = {fits['laplace']}" if fits["laplace"] else "none",
        "-" if "gaussian" not in fits else f"ε = {fits['gaussian']}" if fits["gaussian"] else "none",
        *(loss["spent"], loss["remaining"], account["claim"]),
    )
    return (
        account["name"],
        account["population"],
        account["block"],
        account["epsilon"],
        account["delta"],
        loss["share_spent"],
        "-" if runs_out is None else runs_out["at"][:10],
        account["status"],
        *(more if exact else ()),
    )


def print_account(console: Console, account: Mapping[str, Any], *, exact: bool) -> None:
    """Print an account's JSON object for a person: what each release claims, and how much of the budget is used.

    What it can still give, and losses in its own units, in which they add up, are shown where that is asked for.
    """
    loss, closed = account["loss"], account["status"] == "closed"
    more = [
        ("can still give", "nothing: it is closed" if closed else _fits_words(account["fits"], account["delta"])),
        ("lost together", f"ε = {account['claim']} at δ = {account['delta']}"),
        ("left", f"{loss['remaining']} of {loss['cap']} {loss['what']}"),
    ]
    facts = [
        ("account", f"{account['name']} ({account['status']})"),
        ("people", f"{account['population']}, block {account['block']}, unit {account['unit']}"),
        ("neighbours", account["adjacency"]),
        ("cap", f"ε = {account['epsilon']} at δ = {account['delta']}"),
        *_selection_facts(account),
        ("budget", loss["used"]),
        ("", cap_bar(account)),
        ("released", "\n".join(_claims_words(each) for each in account["releases"]) or "nothing yet"),
        *(more if exact else ()),
        ("charged as well", ", ".join(account["overlaps"]) or "no other account: these days have this one only"),
        ("sources", "\n".join(account["sources"]) or "none is bound: sudare budget bind --help"),
    ]
    print_facts(console, [*facts, *_calendar_facts(account)])
    if account["releases"] and exact:
        sums = [(each["release"], str(each["runs"]), each["spent"]) for each in account["releases"]]
        console.print()
        console.print(table(("release", "runs", "spent"), sums, numbers=("runs", "spent")))
    if account["schedule"]:
        console.print()
        _print_schedule(console, account["schedule"], exact=exact)
    if account["charges"]:
        rows = [
            (
                *(c["release"], c["run_key"], c["share"], c["epsilon"], c["delta"], c["status"]),
                *((c["amount"],) if exact else ()),
            )
            for c in account["charges"]
        ]
        headings = ("release", "run", "of the cap", "its ε", "δ", "status", *(("charged",) if exact else ()))
        console.print()
        console.print(table(headings, rows, numbers=("of the cap", "its ε", "δ", "charged")))


def cap_bar(account: Mapping[str, Any]) -> str:
    """Draw the cap of an account's JSON object in letters: a segment for each release, then what is left."""
    loss, drawn, reached = account["loss"], "", Decimal(0)
    unit = _BAR / Decimal(loss["cap"]) if Decimal(loss["cap"]) else Decimal(_BAR)
    for place, each in enumerate(account["releases"]):
        reached += Decimal(each["spent"])
        drawn += _SEGMENTS[place % len(_SEGMENTS)] * (int(unit * reached) - len(drawn))
    spent = min(_BAR, int((unit * Decimal(loss["spent"])).to_integral_value(ROUND_CEILING)))
    drawn += (drawn[-1:] or _SEGMENTS[0]) * (spent - len(drawn))
    return drawn + _LEFT * (_BAR - len(drawn))


def _selection_facts(account: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Say what is left for selections of keys, where a part of δ is set aside for them."""
    if "selections" not in account:
        return []
    selections = account["selections"]
    return [
        ("for selected keys", f"δ = {selections['remaining']} left of {selections['delta']}, a part of the cap's δ")
    ]


def _claims_words(release: Mapping[str, Any]) -> str:
    """Say what each run of a release claimed: its own ε at its δ."""
    claims = [f"ε = {each['epsilon']} at δ = {each['delta']}" for each in release["claims"]]
    runs = "" if release["runs"] == 1 else f"{release['runs']} runs, each "
    return f"{release['release']}: {release['share']} of the cap; {runs}{' or '.join(claims)}"


def _fits_words(fits: Mapping[str, str | None], delta: str) -> str:
    """Say which ε one more release may have, by what it is."""
    laplace, gaussian = fits["laplace"], fits.get("gaussian")
    told = [f"ε = {laplace} at δ = 0: tables with Laplace noise" if laplace else "no tables with Laplace noise"]
    if "gaussian" not in fits:
        told.append("nothing else: an account of δ = 0 holds Laplace noise only")
    else:
        tables = "tables with Gaussian noise, synthetic rows of tables"
        told.append(f"ε = {gaussian} at δ = {delta}: {tables}" if gaussian else f"no {tables}")
        told.append("what is trained: `sudare plan SPEC` tells, for its own sampling and steps")
    return "\n".join(told)


def _calendar_facts(account: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not account["schedule"]:
        return []
    if all(each["trouble"] for each in account["schedule"]):
        return [("runs out", "cannot be told: no scheduled spec can run")]
    refused = account["runs_out"]
    told = (
        "not within ten years or 100,000 runs"
        if refused is None
        else f"{refused['at'][:16]}, when {refused['release']} is refused"
    )
    if refused is not None and refused["of"] == SELECTIONS:
        told += "\nnot for its loss: the δ that is set aside for selections of keys is used up by then"
    return [("runs out", told)]


def _print_schedule(console: Console, schedule: Sequence[Mapping[str, Any]], *, exact: bool) -> None:
    rows: list[tuple[str, ...]] = [
        (
            each["spec"],
            each["cron"],
            each["next"][:16],
            str(each["runs_left"]) if each["trouble"] is None else "none",
            *((each["cost"] or "-",) if exact else ()),
        )
        for each in schedule
    ]
    headings = ("scheduled", "cron", "next", "runs left", *(("cost",) if exact else ()))
    console.print(table(headings, rows, numbers=("cost", "runs left")))
    for each in schedule:
        if each["trouble"] is not None:
            console.print(f"{each['spec']}: {each['trouble']}")
