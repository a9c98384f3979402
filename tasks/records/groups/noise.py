"""The section noise: how the noise was drawn."""

from __future__ import annotations

from typing import Any

from contracts.message import joined, message
from tasks.records.groups.field import FieldGroup, Run, public
from tasks.records.groups.release_identity import hour
from tasks.records.sentences import mechanism_choice

SAMPLERS = {
    "discrete_laplace": message("discrete Laplace on the integers, sampled exactly, without floating point"),
    "discrete_laplace_vector": message("discrete Laplace on the integers, sampled exactly, without floating point"),
    "discrete_gaussian": message("discrete Gaussian on the integers, sampled exactly, without floating point"),
}
MECHANISMS = {
    "laplace": message("laplace mechanism on marginals"),
    "gaussian": message("gaussian mechanism on marginals"),
}
ENTROPY = {
    "csprng": message("AES-256 in counter mode under keys from the operating system's CSPRNG; keys are never stored"),
    "seeded": message("a seeded generator: for tests, never published"),
}


def samplers(run: Run) -> list[str]:
    """Name how each kind of noise that was drawn is sampled."""
    return [SAMPLERS[kind] for kind in sorted({event.kind for event in run.facts.charge.request.events})]


def entropy(run: Run) -> str | None:
    """Say what the noise was drawn from, as the ledger has it."""
    return None if run.facts.charge.security is None else ENTROPY[run.facts.charge.security]


def choice(run: Run) -> dict[str, Any]:
    """Say who chose the mechanism, and the expected error of each kind of noise that was weighed."""
    return mechanism_choice(run.facts.spec.tables_product, run.facts.tables_plan)


def timing_policy(run: Run) -> str:
    """Say what the journal tells of when noise was drawn, and that the duration of draws is not hidden."""
    times = sorted({hour(entry.at) for entry in run.facts.entries if entry.kind == "noise_drawn"})
    drawn = sum(entry.kind == "noise_drawn" for entry in run.facts.entries)
    return message(
        "the journal tells of {number} draws only in which hour each was made ({hours}). How long a draw takes is "
        "not hidden from whoever can watch the machine: samplers are exact, and not constant in time",
        number=drawn,
        hours=joined(times),
    )


NOISE = FieldGroup(
    "noise",
    "Mechanism and noise",
    (
        public(
            "mechanism",
            "How noise is added.",
            lambda run: MECHANISMS[run.facts.tables_plan.mechanism],
        ),
        public("mechanism_choice", "Who chose it, and the error that is expected of each kind of noise.", choice),
        public("samplers", "How the noise is sampled.", samplers),
        public("entropy", "Where its randomness comes from.", entropy),
        public("code", "Digest of the source files of Sudare that ran.", lambda run: run.facts.software.code),
        public("packages", "Versions of the libraries that ran.", lambda run: dict(run.facts.software.packages)),
        public("python", "Version of Python.", lambda run: run.facts.software.python),
        public("platform", "Operating system and machine type.", lambda run: run.facts.software.platform),
        public("timing_policy", "How the duration of draws is hidden.", timing_policy),
    ),
)
