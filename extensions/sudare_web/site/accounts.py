"""The pages of accounts: how much of each budget is used, how it burned down, and when it runs out.

Every ε is a release's own claim, as in `sudare budget show`. What one more may claim, and what the account adds up in
the units of its calculus, is folded away.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from console.accounts import fitting, selections
from privacy.accounting.amounts import atto_to_text, budget_used, percent_text, pico_to_text
from privacy.accounting.calculus import RenyiCalculus
from privacy.ledger.accounts.admission import loss_name
from privacy.ledger.terms import AccountState
from sudare_web.site.asking import PAGE, NotThere, Page, Site
from sudare_web.site.burn_down import Burnt, burn_down, segments

Says = Callable[..., str]


def accounts_page(site: Site, *, after: str) -> Page:
    """List the accounts, with how much of each budget is used."""
    found = site.view.accounts(after=after, limit=PAGE + 1)
    calendar = _forecast(site, found[:PAGE])
    told = {
        "accounts": [{**_object(site, state), "forecast": _known(calendar, state)} for state in found[:PAGE]],
        "forecast": calendar["state"],
        "next": found[PAGE - 1].terms.name if len(found) > PAGE else None,
    }
    return Page("accounts", told)


def account_page(site: Site, name: str, *, before: int | None, says: Says) -> Page:
    """Show one account: its burn-down, who spent it, and how long it lasts."""
    state = site.view.account(name)
    if state is None:
        raise NotThere
    now = datetime.now(UTC)
    charges = site.view.charges(name, before=before, limit=PAGE + 1)
    burnt = site.burn_downs.of(site.view, state)
    calendar = _forecast(site, (state,))
    forecast = _known(calendar, state)
    runs_out = None if forecast is None or forecast["runs_out"] is None else forecast["runs_out"]["at"]
    told = {
        **_object(site, state),
        "charges": [
            {
                **vars(line),
                "amount": pico_to_text(line.amount),
                "share": percent_text(line.amount, state.cap, up=True),
                **_claim(line.epsilon, line.delta),
            }
            for line in charges[:PAGE]
        ],
        "next": charges[PAGE - 1].number if len(charges) > PAGE else None,
        "first_page": before is None,
        "spent_by": _spent_by(burnt, state),
        "spenders": len(burnt.by_release),
        "burn_down": [
            {"at": at, "left": pico_to_text(left), "release": release} for at, left, release in burnt.steps
        ],
        "forecast": forecast,
        "forecast_state": calendar["state"],
    }
    words = {"label": says("burn.label", account=name, share=told["percent_left"])}
    words |= {"now": says("burn.now"), "out": says("burn.out")}
    label = says("account.segments", spent=told["percent_spent"], left=told["percent_left"])
    drawn = {"burn_down": burn_down(state, burnt.steps, runs_out, words, now)}
    drawn["segments"] = segments(burnt, state, label)
    return Page("account", told, drawn=drawn)


def _spent_by(burnt: Burnt, state: AccountState) -> list[dict[str, Any]]:
    """Return the ten releases that took most: their share of the cap, and what their runs claim, each by itself."""
    return [
        {
            "release": release,
            "spent": pico_to_text(amount),
            "share": percent_text(amount, state.cap, up=True),
            "runs": sum(each.runs for each in burnt.claimed if each.release == release),
            "claims": [_claim(each.epsilon, each.delta) for each in burnt.claimed if each.release == release],
        }
        for release, amount in burnt.by_release[:10]
    ]


def _claim(epsilon: int, delta: int) -> dict[str, str]:
    return {"epsilon": pico_to_text(epsilon), "delta": atto_to_text(delta)}


def _fits(site: Site, state: AccountState) -> dict[str, str | None]:
    """Return what the account can still give, by kind of noise; found once for each state of an account."""
    key = (state.terms.calculus, state.terms.delta, state.remaining, state.status)
    fits = site.fits.get(key)
    if fits is None:
        fits = fitting(state)
        site.fits.keep(key, fits)
    return fits


def _object(site: Site, state: AccountState) -> dict[str, Any]:
    """Return an account as JSON values; amounts are exact decimal texts."""
    terms = state.terms
    return {
        "name": terms.name,
        "population": terms.population,
        "block": terms.block,
        "unit": terms.unit,
        "adjacency": terms.adjacency,
        "status": state.status,
        "loss": loss_name(terms.calculus),
        "order": f"{float(terms.calculus.order):g}" if isinstance(terms.calculus, RenyiCalculus) else None,
        "epsilon": pico_to_text(terms.epsilon),
        "delta": atto_to_text(terms.delta),
        "fits": _fits(site, state),
        "claim": pico_to_text(state.claim),
        "cap": pico_to_text(state.cap),
        "spent": pico_to_text(state.spent),
        "left": pico_to_text(state.remaining),
        "selections": selections(state),
        "used": budget_used(state.spent, state.cap),
        "percent_left": percent_text(state.remaining, state.cap, up=False),
        "percent_spent": percent_text(state.spent, state.cap, up=True),
        "share_left": state.remaining / state.cap if state.cap else 0.0,
    }


def _forecast(site: Site, states: tuple[AccountState, ...]) -> dict[str, Any]:
    """Return what is known of the forecast; it is worked out again when something was spent."""
    if not site.workspace.schedule:
        return {"state": "none", "value": {}}
    key = tuple((state.terms.name, state.spent) for state in states)
    answer = site.forecasts.ask(key, str(site.workspace.root))
    return {"state": answer.state, "value": answer.value if answer.state == "done" else {}}


def _known(calendar: dict[str, Any], state: AccountState) -> dict[str, Any] | None:
    """Return the forecast of an account; where specs are and what is wrong with them is private."""
    found = calendar["value"].get(state.terms.name)
    if found is None:
        return None
    schedule = [
        {name: each[name] for name in ("cron", "release", "next", "cost", "runs_left")}
        for each in found["schedule"]
        if each["cost"] is not None
    ]
    return {"schedule": schedule, "runs_out": found["runs_out"]}
