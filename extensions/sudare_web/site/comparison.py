"""Two versions of a release beside each other, and what they lose together in each account that paid for both.

Losses add up in the calculus of an account, whatever was chosen after the first had been seen; the sum is then said
as ε at the account's δ, as the account's own claim is. Of a few pure releases the sum of their ε is less: then it is
that.
"""

from __future__ import annotations

from typing import Any

from console.comparison import compare_versions
from console.published_folders import Folder
from privacy.accounting.amounts import atto_to_text, percent_text, pico_to_text
from privacy.ledger.terms import AccountState
from privacy.ledger.view import ChargeLine
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.releases import version_object
from sudare_web.site.version import folder_of
from tasks.records.charts import charts


def compare_page(site: Site, release: str, first: int, second: int) -> Page:
    """Compare two versions of a release."""
    one, other = (folder_of(site, release, number) for number in (first, second))
    if not (one.is_readable and other.is_readable):
        raise NotThere
    key = (one.entry.manifest, other.entry.manifest)
    found = site.comparisons.get(key)
    if found is None:
        found = compare_versions(site.folders, one, other)
        site.comparisons.keep(key, found)
    told = {"release": release, "first": version_object(one.entry), "second": version_object(other.entry)}
    together = joint_losses(site, one, other)
    bars = [
        charts.budget_bar([*zip(("before", "charged", "left"), each.pop("parts"), strict=True)]) for each in together
    ]
    return Page("compare", {**told, **found, "together": together}, drawn={"together": bars})


def joint_losses(site: Site, one: Folder, other: Folder) -> list[dict[str, Any]]:
    """Return what two versions took of each account that both were charged to, and what that is as ε together.

    Args:
        site: whose ledger has the charges.
        one, other: the versions; a version held against itself is charged once.
    Returns:
        Accounts by name; none where the two are about other people or days.
    Privacy: of public charges alone. Their sum in an account's calculus bounds what both versions tell together, for
        adaptive choices too; `claim` converts it to ε (docs/derivations.md, section 7).
    """
    taken = [site.view.charged(folder.entry.run_key) for folder in (one, other)]
    found = []
    for name in sorted({*taken[0]} & {*taken[1]}):
        state = site.view.account(name)
        if state is not None:
            same = one.entry.run_key == other.entry.run_key
            found.append(_joint(state, taken[0][name], None if same else taken[1][name]))
    return found


def _joint(state: AccountState, first: ChargeLine, second: ChargeLine | None) -> dict[str, Any]:
    terms, lines = state.terms, [first, *([] if second is None else [second])]
    together = sum(line.amount for line in lines)
    epsilon, delta = terms.calculus.claim(together, terms.delta), terms.delta
    sums = sum(line.epsilon for line in lines), sum(line.delta for line in lines)
    if sums[1] <= terms.delta and sums[0] < epsilon:
        epsilon, delta = sums
    taken = [first.amount, 0 if second is None else second.amount, max(0, state.cap - together)]
    return {
        "account": terms.name,
        "people": terms.population,
        "block": terms.block,
        "epsilon": pico_to_text(epsilon),
        "delta": atto_to_text(delta),
        "first": percent_text(taken[0], state.cap, up=True),
        "second": percent_text(taken[1], state.cap, up=True),
        "together": percent_text(together, state.cap, up=True),
        "parts": [amount / state.cap for amount in taken],
    }
