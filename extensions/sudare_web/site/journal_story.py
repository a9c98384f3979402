"""The journal as a story: one line for each run and for each other entry, with what a sentence about it needs.

A line is told from the entries that a page shows: what stands on another page is left out of its sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from privacy.accounting.amounts import atto_to_text, percent_text, pico_to_text
from privacy.ledger.entries import RUN_KINDS, SEALED, Entry
from sudare_web.site.asking import Site

_LONGEST: Final = 300
_ENDS: Final = {"version_published": "published", "charge_returned": "returned"}
_ALONE: Final = frozenset(
    {"ledger_created", "account_opened", "account_closed", "charges_inherited", "version_withdrawn"}
)


def story(site: Site, found: Sequence[Entry], *, by_run: bool) -> list[dict[str, Any]]:
    """Tell what entries say, the newest first.

    Args:
        site: gives the caps of accounts, and the versions of runs.
        found: entries, the newest first.
        by_run: whether the entries of a run are one line.
    Returns:
        Lines: `what` names the sentence; `entries` are the numbers, the newest first; the rest fills the sentence.
    """
    lines: list[dict[str, Any]] = []
    runs: dict[str, list[Entry]] = {}
    for entry in found:
        key = str(entry.body.get("run_key")) if by_run and entry.kind in RUN_KINDS else ""
        if entry.kind in SEALED:
            lines.append({"what": "sealed", "entries": [entry.sequence], "at": None, "hash": entry.hash})
        elif not key:
            lines.append(_alone(entry))
        elif key in runs:
            runs[key].append(entry)
        else:
            runs[key] = [entry]
            lines.append({"run": key})
    names = {run: version.release for run, version in site.view.versions_of_runs(list(runs)).items()}
    return [_run(site, line["run"], runs[line["run"]], names) if "run" in line else line for line in lines]


def _alone(entry: Entry) -> dict[str, Any]:
    """Tell of an entry that is no part of a run, or that is looked at by itself."""
    body, what = entry.body, entry.kind if entry.kind in _ALONE else "other"
    told: dict[str, Any] = {"what": what, "entries": [entry.sequence], "at": entry.at, "kind": entry.kind}
    words = ("name", "population", "block", "release", "number", "reason", "account", "key")
    told |= {word: str(body[word])[:_LONGEST] for word in words if isinstance(body.get(word), str | int)}
    if what == "account_opened":
        told |= {"epsilon": pico_to_text(body["epsilon"]), "delta": atto_to_text(body["delta"])}
    return told


def _run(site: Site, run_key: str, entries: Sequence[Entry], names: dict[str, str]) -> dict[str, Any]:
    """Tell of a run: how it ended, what it claimed and took, how often noise was drawn."""
    kinds = [entry.kind for entry in entries]
    bodies = {entry.kind: entry.body for entry in reversed(entries)}
    end = next((_ENDS[kind] for kind in kinds if kind in _ENDS), "open")
    told: dict[str, Any] = {
        "what": end,
        "run": run_key,
        "entries": [entry.sequence for entry in entries],
        "at": entries[0].at,
        "release": names.get(run_key, run_key),
        "draws": kinds.count("noise_drawn"),
    }
    if "charge_reserved" in bodies:
        told |= _charged(site, bodies["charge_reserved"])
    if "version_published" in bodies:
        told |= {name: bodies["version_published"][name] for name in ("release", "number")}
    return told


def _charged(site: Site, body: dict[str, Any]) -> dict[str, Any]:
    """Tell what a run claims, and what it took from the account that its spec names, as a share of the cap."""
    account, parts = str(body["account"]), {part["account"]: part["amount"] for part in body["parts"]}
    state = site.view.account(account)
    told = {"release": str(body["release"])[:_LONGEST], "account": account, "epsilon": pico_to_text(body["epsilon"])}
    if state is not None and account in parts:
        told["share"] = percent_text(parts[account], state.cap, up=True)
    return told
