"""The public rows that a model may have begun with: their marginals, as a version publishes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contracts.canonical import readable_json
from contracts.message import message
from contracts.release.public_prior import PRIOR_FILE
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import WrittenFile, written
from tasks.records.groups.field import Run
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.synthetic_statements import SyntheticReplay
from tasks.records.modifiers.record_modifier import RecordModifier


class PriorRecord(RecordModifier):
    """A prior."""

    def write(self, facts: RunFacts, folder: Path) -> tuple[WrittenFile, ...]:
        """Write its marginals, which are public."""
        prior = facts.synthetic[0].task.prior
        if prior is None:
            return ()
        path = folder / PRIOR_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(readable_json(prior.to_json()))
        return (written(folder, PRIOR_FILE, "", "prior", 1, ()),)

    def files(self, replay: SyntheticReplay) -> Iterator[tuple[str, ShownFile]]:
        """Yield the file of its marginals."""
        yield PRIOR_FILE, ("", "prior", "dense")

    def unprotected(self, run: Run) -> list[str]:
        """Return that its exact counts are published, and why they may be."""
        prior = run.facts.spec.synthetic_product.prior
        if prior is None:
            return []
        return [
            message(
                "the exact counts of {file}, whose rows the publisher declares public ({reason}); they are in "
                "{place}",
                file=prior.path,
                reason=prior.public_because,
                place=PRIOR_FILE,
            )
        ]
