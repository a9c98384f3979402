"""The group of a record that says how a release was made across sites: who took part, who is trusted, who paid."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from contracts.message import message, plural
from contracts.release.federation_spec import FederationTerms
from privacy.accounting.amounts import pico_to_text
from privacy.grant.draw_replay import LOST
from tasks.records.across import words
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.model.across_statements import ExecutionStatement

PARTIES: Final = frozenset({"sites", "rows_about", "trust"})
"""What of a plan other fields say."""


def execution_of(run: Run) -> ExecutionStatement:
    """Return how the release was made.

    Raises:
        TypeError: it was made in one place.
    """
    if run.facts.execution is None:
        raise TypeError("the release was made in one place")
    return run.facts.execution


def terms_of(run: Run) -> FederationTerms:
    """Return what the parties agreed on."""
    return FederationTerms.model_validate(execution_of(run).spec)


def how(run: Run) -> str:
    """Say in a sentence how the release was made."""
    execution = execution_of(run)
    rounds = len(execution.rounds)
    sites = len(terms_of(run).sites)
    return plural(
        "across {sites} sites, which keep their rows: in one round a coordinator got the sum over the sites that "
        "answered, and released it with its noise; all else follows from this sum",
        "across {sites} sites, which keep their rows: in each of {rounds} rounds a coordinator got the sum over the "
        "sites that answered, and released it with its noise; all else follows from these sums",
        rounds,
        sites=sites,
        rounds=rounds,
    )


def sites(run: Run) -> list[dict[str, Any]]:
    """List each site with its declared number of rows, and the rounds that it is in."""
    members, execution = terms_of(run).sites, execution_of(run)
    present = [each.present for each in execution.rounds]
    return [
        {
            "site": member.name,
            "rows_about": member.rows_about,
            "rounds": message("{part} of {whole}", part=sum(here[place] for here in present), whole=len(present)),
            "without": ranges([number for number, here in enumerate(present, 1) if not here[place]]) or NONE,
        }
        for place, member in enumerate(members)
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending whole numbers as ranges: 2, 5-9."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def keys(run: Run) -> list[dict[str, str]] | str:
    """Give the fingerprint of each site's key: the first 16 digits of the SHA-256 of its text in the spec."""
    found = terms_of(run).site_keys
    listed = [
        {"site": name, "sha256": hashlib.sha256(key.encode()).hexdigest()[:16]} for name, key in sorted(found.items())
    ]
    return listed or words.WITHOUT_KEYS


def lost(run: Run) -> int:
    """Count the attempts of rounds that were lost, and paid."""
    drawn = [entry.body["key"] for entry in run.facts.entries if entry.kind == "noise_drawn"]
    return sum(f"/{LOST}-" in key for key in drawn)


def noise(plan: Mapping[str, Any]) -> str:
    """Say how much noise the accounting counts on; `plan` as JSON values."""
    if plan["kind"] == "phases":
        sums = " ".join(f"{float(2 * Fraction(each['rho'])) ** -0.5:.3g}" for each in plan["sums"]["sums"])
        trained = noise(plan["training"])
        return message("{sums} times a person's bound, sum after sum; then {training}", sums=sums, training=trained)
    if plan["kind"] == "counts":
        deviation = f"{float(Fraction(plan['sigma_squared'])) ** 0.5:.4g}"
        return message("standard deviation {deviation} rows a cell, every table", deviation=deviation)
    factor = f"{float(Fraction(plan['training']['noise_multiplier'])):.4g}"
    return message("{factor} times the clipping norm, every round", factor=factor)


def _plan(value: Any) -> Any:
    """Return a plan without what other fields say."""
    if isinstance(value, dict):
        return {name: _plan(part) for name, part in value.items() if name not in PARTIES}
    return [_plan(part) for part in value] if isinstance(value, list) else value


EXECUTION: Final = FieldGroup(
    "execution",
    "Execution",
    (
        public("how", "How the release was made.", how),
        public("sites", "Who took part in which rounds; numbers of rows are as declared.", sites),
        public(
            "fewest",
            "Sites that a round needs; one with fewer is never summed.",
            lambda run: terms_of(run).trust.fewest,
        ),
        public("trust", "Who is trusted with what.", lambda run: words.trusted(terms_of(run), run.facts.contract)),
        public("not_checked", "What no check can tell.", lambda run: words.NOT_CHECKED),
        public("noise", "Noise that the accounting counts on.", lambda run: noise(execution_of(run).plan)),
        public(
            "person",
            "For which rows of a person the loss is.",
            lambda run: words.person(terms_of(run), run.facts.contract),
        ),
        public(
            "person_epsilon",
            "Loss of a person at all sites together, at most; the coordinator's account paid it.",
            lambda run: pico_to_text(run.facts.charge.request.epsilon),
        ),
        public("record", "For which rows a site's own account pays.", lambda run: words.record(run.facts.contract)),
        public(
            "record_epsilon",
            "Loss of a record at its site, at most; that site's own account paid it.",
            lambda run: pico_to_text(execution_of(run).record_epsilon),
        ),
        public("lost", "Attempts of rounds that were lost, and paid.", lost),
        public("keys", "Keys by which sites are known.", keys),
        public("plan", "What each round samples, clips and adds.", lambda run: _plan(execution_of(run).plan)),
    ),
)
