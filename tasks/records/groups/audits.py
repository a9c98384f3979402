"""The section audits: empirical audits of the code, as they are stored with it. A pass is not a proof."""

from __future__ import annotations

from typing import Any, Final

from contracts.message import message
from tasks.records.groups.field import FieldGroup, Run, public

NO_RESULTS: Final = message(
    "no results are stored with this installation: `python -m benchmarks.privacy_games` writes them"
)
NO_PROOF: Final = message(
    "each lower bound holds with the stated confidence; one below the claim shows that these attacks, on these small "
    "domains, found nothing. A pass is not a proof: the guarantee rests on its derivation"
)


def games(run: Run) -> Any:
    """Quote the games: mechanism, threat, trials, bounds, and the broken twin that each must catch."""
    return _stored(run, "games")


def attacks(run: Run) -> Any:
    """Quote membership and attribute inference and the like, where they were run."""
    return _stored(run, "attacks")


def _stored(run: Run, name: str) -> Any:
    stored = run.facts.software.audits
    return None if stored is None else stored.get(name) or None


def summary(run: Run) -> dict[str, Any] | None:
    """Say how many games there were, how many bounds stay below their claims, and how many twins were caught."""
    played = games(run)
    if not played:
        return None
    below = sum(bool(each["holds"]) for each in played)
    caught = sum(bool(each["negative_control"]["caught"]) for each in played)
    return {"games": len(played), "bounds_below_the_claim": below, "broken_twins_caught": caught, "means": NO_PROOF}


def of_this_code(run: Run) -> str | None:
    """Say whether the audits are of the code that made the release."""
    stored, running = run.facts.software.audits, run.facts.software.audited_code
    if stored is None:
        return None
    found = str(stored.get("code_digest"))
    if found == running:
        return message("yes: the digest of the audited sources is {digest}", digest=found)
    return message(
        "no: they were run on sources of digest {found}; those of this release have {running}",
        found=found,
        running=running,
    )


AUDITS: Final = FieldGroup(
    "audits",
    "Empirical checks",
    (
        public("summary", "How many audits, and what came of them.", summary, absent=NO_RESULTS),
        public("of_this_code", "Whether the audits are of the code that ran.", of_this_code, absent=NO_RESULTS),
        public(
            "games",
            "Distinguishing games with worst-case canaries, and their broken twins.",
            games,
            absent=NO_RESULTS,
        ),
        public(
            "attacks",
            "Membership and attribute inference, singling out, linkability, on surrogate data.",
            attacks,
            absent="none is stored with this installation",
        ),
    ),
)
