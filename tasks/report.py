"""Report: the files of a version, from what the run knows: data, measurements, record, page, Croissant metadata."""

from __future__ import annotations

import logging
from pathlib import Path

from contracts.canonical import readable_json
from contracts.errors import StoreUnwritable
from tasks.products.product_kind import making_of
from tasks.records.descriptions.description_files import descriptions
from tasks.records.descriptions.descriptions import croissant
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.field import Run
from tasks.records.page.page import prepare, public_pages
from tasks.records.private_record import AuditorRecords
from tasks.records.record import build_record, evidence_of, explained, public_copy
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


def report(facts: RunFacts, *, folder: Path, auditors: AuditorRecords) -> None:
    """Write everything that a version holds but for its manifest and proof.

    Args:
        facts: the finished run.
        folder: the staging folder of the version; gets data/, measurements/, record.json, record.html,
            croissant.json, what is made from the record alone (deployment.yaml, lineage.json, label.html), and
            exchange/ where the spec asks for it.
        auditors: keeps and signs the complete record, to which the published one commits.
    Raises:
        StoreUnwritable: the store or the private folder cannot be written.
    Privacy: released and public values only go to `folder`.
    """
    try:
        with step("report") as bar:
            files = tuple(sorted(write_files(facts, folder), key=lambda file: file.path))
            bar.advance(0.7)
            run = Run(facts, files)
            record, found = build_record(run), evidence_of(run)
            published = public_copy(record, auditors.keep(record))
            (folder / "record.json").write_bytes(readable_json(published))
            told = explained(published, found)
            (folder / "croissant.json").write_bytes(readable_json(croissant(told)))
            for name, content in descriptions(told).items():
                (folder / name).write_bytes(content)
            if facts.spec.publish.exchange:
                from tasks.records.exchange_files import write_exchange  # for the few specs that ask

                write_exchange(told, folder)
            views = prepare(told, lambda name: (folder / name).read_bytes())
            for name, content in public_pages(told, views).items():
                (folder / name).write_bytes(content)
    except OSError as error:
        raise StoreUnwritable.because(error, folder) from error
    logger.info("wrote the record of %s v%d", facts.version.release, facts.version.number)


def write_files(facts: RunFacts, folder: Path) -> tuple[WrittenFile, ...]:
    """Write data and measurements of a run, as its kind of product has them."""
    marks = {
        "sudare_release": facts.version.release,
        "sudare_version": str(facts.version.number),
        "sudare_contract_digest": facts.contract.digest,
        "sudare_spec_digest": facts.charge.request.spec_digest,
    }
    if facts.write is not None:
        made: tuple[WrittenFile, ...] = facts.write(folder, marks)
        return made
    return making_of(facts.spec.product.kind).write_files(facts, folder, marks=marks)
