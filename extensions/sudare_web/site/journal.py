"""The pages of the journal: its entries with search, one entry with its proof, and the signed checkpoints.

The story has one line for each run and for each other entry, told from the entries of the page. Amounts, which
the journal holds as integers (10^-12 of a loss, 10^-18 of δ), are shown as decimals and as shares of the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from contracts.canonical import canonical_json
from privacy.accounting.amounts import atto_to_text, percent_text, pico_to_text
from privacy.ledger.entries import KINDS, RUN_KINDS, SEALED, Entry
from privacy.ledger.journal.merkle import root_from_proof
from privacy.ledger.journal.notes import signed_head
from privacy.ledger.journal.signing import key_id
from privacy.ledger.store.search import EntryFilter, Inclusion, entries, entry_at, prove
from privacy.ledger.view import CheckpointLine
from sudare_web.site.asking import PAGE, NotThere, Page, Site

_LINE_WORDS = ("release", "number", "name", "account", "key", "reason", "population", "run_key")
_LONGEST: Final = 300
_ENDS: Final = {"version_published": "published", "charge_returned": "returned"}
_ALONE: Final = frozenset(
    {"ledger_created", "account_opened", "account_closed", "charges_inherited", "version_withdrawn"}
)
Share = Callable[[str, int], str]
"""An account's name and an amount to the share of its cap; empty where no such account is known."""
_LOSSES: Final = frozenset({"epsilon", "noise_epsilon"})
_FAILURES: Final = ("failure_before", "failure_after")


def journal_page(site: Site, *, filters: dict[str, str | None], before: int | None) -> Page:
    """List entries, the newest first: all, or those of a kind, about a release, an account or a run.

    A sealed entry shows no more than its number and its hash, and no search finds it.
    """
    asked = {name: value or None for name, value in filters.items()}
    narrowed = any(asked.values())
    with site.view.reading() as connection:
        if asked["kind"] in SEALED or (asked["kind"] is not None and asked["kind"] not in KINDS):
            found: tuple[Entry, ...] = ()
        else:
            search = EntryFilter(**asked, without=SEALED if narrowed else ())
            found = entries(connection, search, before=before, limit=PAGE + 1)
    told = {
        "entries": [_line(entry) for entry in found[:PAGE]],
        "story": story(site, found[:PAGE], by_run=asked["run"] is None and asked["kind"] is None),
        "filter": asked,
        "kinds": [kind for kind in KINDS if kind not in SEALED],
        "next": found[PAGE - 1].sequence if len(found) > PAGE else None,
        "size": site.view.size(),
        "first_page": before is None,
    }
    return Page("journal", told)


def entry_page(site: Site, sequence: int) -> Page:
    """Show one entry, and the proof that it is under the last checkpoint."""
    with site.view.reading() as connection:
        entry = entry_at(connection, sequence)
        if entry is None:
            raise NotThere
        proof = prove(connection, sequence)
    sealed = entry.kind in SEALED
    told: dict[str, Any] = {
        "sequence": entry.sequence,
        "hash": entry.hash,
        "previous": entry.previous,
        "sealed": sealed,
        "entry": None if sealed else entry.to_json(),
        "logged": entry.logged.decode(),
        "canonical": None if sealed else canonical_json(entry.to_json()).decode(),
        "proof": None if proof is None else _proof(site, entry, proof),
        "size": site.view.size(),
    }
    if not sealed:
        told["about"] = _about(site, entry)
        told["amounts"] = readable(entry, lambda account: _cap(site, account))
    return Page("entry", told)


def _cap(site: Site, account: str) -> int | None:
    state = site.view.account(account)
    return None if state is None else state.cap


def checkpoints_page(site: Site, *, before: int | None) -> Page:
    """List the signed checkpoints, the largest first, each with its signature checked."""
    found = site.view.checkpoints(before=before, limit=PAGE + 1)
    told = {
        "checkpoints": [
            {**vars(line), "holds": _signed(site, line), "our_key": line.key_id == key_id(site.public_key)}
            for line in found[:PAGE]
        ],
        "ledger": site.ledger_id,
        "key_id": key_id(site.public_key),
        "public_key": site.public_key,
        "size": site.view.size(),
        "next": found[PAGE - 1].size if len(found) > PAGE else None,
        "first_page": before is None,
    }
    return Page("checkpoints", told)


def _line(entry: Entry) -> dict[str, Any]:
    """Return one line of the journal."""
    if entry.kind in SEALED:
        return {"sequence": entry.sequence, "hash": entry.hash, "sealed": True, "kind": None, "at": None, "says": {}}
    says = {word: str(entry.body[word])[:200] for word in _LINE_WORDS if isinstance(entry.body.get(word), str | int)}
    told = {"sequence": entry.sequence, "hash": entry.hash, "sealed": False}
    return {**told, "kind": entry.kind, "at": entry.at, "says": says}


def _about(site: Site, entry: Entry) -> dict[str, Any] | None:
    """Return the version that an entry's run was published as, where it was."""
    run_key = entry.body.get("run_key")
    if not isinstance(run_key, str):
        return None
    version = site.view.versions_of_runs([run_key]).get(run_key)
    if version is None or site.folders.of(version).standing == "coming":
        return {"run": run_key, "release": None, "version": None}
    return {"run": run_key, "release": version.release, "version": version.number}


def _proof(site: Site, entry: Entry, proof: Inclusion) -> dict[str, Any]:
    """Return an inclusion proof, worked out again: where the path leads, and whether the signature holds."""
    line = CheckpointLine(proof.size, proof.root, proof.at, proof.key_id, "", proof.note)
    reached = root_from_proof(entry.hash, entry.sequence, proof.size, proof.path)
    return {**vars(proof), "path": list(proof.path), "leads": reached == proof.root, "holds": _signed(site, line)}


def _signed(site: Site, line: CheckpointLine) -> bool:
    """Say whether this ledger's key signed a checkpoint."""
    try:
        head = signed_head(line.note, site.public_key)
    except ValueError:
        return False
    return (head.size, head.root) == (line.size, line.root)


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
