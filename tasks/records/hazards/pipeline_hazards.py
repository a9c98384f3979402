"""Checklist of the pipeline: what leaves a well-made mechanism by another door."""

from __future__ import annotations

from typing import Final

from contracts.message import message
from tasks.records.groups.field import Run
from tasks.records.hazards.hazard import Hazard


def _public_fields(run: Run) -> str:
    entries = run.facts.entries
    return message(
        "this record and {entries} journal entries hold no exact count and no noise seed; the entries name the rows "
        "by a keyed mark alone",
        entries=len(entries),
    )


HAZARDS: Final = (
    Hazard(
        "scores against the real rows given out",
        "they are private, for auditors, in a type that shows no number; the public record has errors from the "
        "declared "
        "noise and from noisy values (utility)",
    ),
    Hazard(
        "the orchestrator keeps rows, results or error texts",
        "rows travel as a reference that refuses pickling; results are not persisted, nothing is cached, "
        "messages are "
        "replaced by their kind",
    ),
    Hazard("seeds, noise or exact counts in the audit trail", _public_fields),
    Hazard(
        "a plain hash of a small table, which can be guessed",
        lambda run: message(
            "the mark {mark}… is keyed, and salted with the spec", mark=run.facts.charge.request.snapshot_hash[:12]
        ),
    ),
    Hazard(
        "times that tell how long rows took",
        lambda _: message(
            "journal, proof and files tell to the hour when this was charged, drawn and published; seconds are for "
            "auditors. Who watches the machine, the site, the store or the orchestrator meanwhile sees how long it "
            "takes, and a run of hours shows how many (limit 1)"
        ),
        limit=True,
    ),
    Hazard(
        "half a release, a changed file, a version that was never published",
        lambda run: message(
            "{files} data files are covered by a signed manifest; the journal proves this publication; sudare "
            "verify checks both",
            files=len(run.files),
        ),
    ),
    Hazard(
        "attacks that found nothing, taken for a proof",
        "audits give lower bounds, on small domains; a pass is not a proof (audits)",
        limit=True,
    ),
    Hazard(
        "the operator, or whoever can read the workspace",
        "trusted: whoever runs the release sees the rows (limit 7)",
        limit=True,
    ),
    Hazard(
        "a ledger restored from an older copy",
        lambda run: message(
            "the proof of this version holds the journal up to entry {entry} and beyond; draws that were never "
            "published are not found (limit 8)",
            entry=run.facts.entries[-1].sequence,
        ),
        limit=True,
    ),
    Hazard(
        "publications elsewhere of the same people",
        "no ledger can know of them: losses add up all the same",
        limit=True,
    ),
)
