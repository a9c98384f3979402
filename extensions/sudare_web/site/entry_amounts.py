"""The amounts in a journal entry as people read them: ε and δ as decimals, what is charged as a share of the cap.

The journal holds integers (10^-12 of a loss, 10^-18 of δ). A page shows the words of here, and the integer beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from privacy.accounting.amounts import atto_to_text, percent_text, pico_to_text
from privacy.ledger.entries import Entry

Share = Callable[[str, int], str]
"""An account's name and an amount to the share of its cap; empty where no such account is known."""
_LOSSES: Final = frozenset({"epsilon", "noise_epsilon"})
_FAILURES: Final = ("failure_before", "failure_after")


def readable(entry: Entry, cap_of: Callable[[str], int | None]) -> dict[str, list[dict[str, str]]]:
    """Write the amounts of an entry for people.

    Args:
        entry: of the journal.
        cap_of: gives the cap of an account by its name [10^-12]; None where there is none of that name.
    Returns:
        Of each field that holds amounts its lines. `what` of a line names its sentence (epsilon, delta, share, moved,
        inherited, aside), and the rest fills it. A field without a line is shown as the journal has it.
    """

    def share(account: str, amount: int) -> str:
        cap = cap_of(account)
        return percent_text(amount, cap, up=True) if cap else ""

    try:
        return {name: list(lines) for name, lines in _fields(entry, share)}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return {}  # an entry that somebody forged: its numbers are shown as they stand


def _fields(entry: Entry, share: Share) -> Iterator[tuple[str, Iterator[dict[str, str]]]]:
    body = entry.body
    for name, value in body.items():
        if name in _LOSSES and value is not None:
            yield name, iter([{"what": "epsilon", "epsilon": pico_to_text(value)}])
        elif name == "delta":
            yield name, iter([{"what": "delta", "delta": atto_to_text(value)}])
        elif name in ("cap", "spent"):
            yield name, _shares([(str(body["name"]), value)], share)
        elif name == "costs":
            yield name, _shares(value.items(), share)
        elif name == "parts":
            yield name, _parts(body, value, share)


def _shares(amounts: Any, share: Share) -> Iterator[dict[str, str]]:
    for account, amount in amounts:
        if percent := share(account, amount):
            yield {"what": "share", "account": account, "share": percent}


def _parts(body: Mapping[str, Any], parts: Any, share: Share) -> Iterator[dict[str, str]]:
    """Tell what each part of a charge took; of an account that sets some δ aside also that."""
    for part in parts:
        account, amount = str(part.get("account", body.get("account"))), part["amount"]
        if not (percent := share(account, amount)):
            continue
        told = {"what": "share", "account": account, "share": percent}
        if "run_key" in part:
            told |= {"what": "inherited", "run": str(part["run_key"])}
        if "before" in part:
            told |= {
                "what": "moved",
                "before": share(account, part["before"]),
                "after": share(account, part["after"]),
            }
        yield told
        if all(name in part for name in _FAILURES):
            before, after = (atto_to_text(part[name]) for name in _FAILURES)
            yield {"what": "aside", "account": account, "before": before, "after": after}
