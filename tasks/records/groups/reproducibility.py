"""The sections reproducibility and notices: what can be made again, and by whom this release is told to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from contracts.message import SENTENCES, joined, message
from tasks.records.groups.field import FieldGroup, Run, public
from tasks.records.model.record_kinds import record_part

BYTEWISE: Final = message("byte for byte")


def reproducible(run: Run) -> list[dict[str, str]]:
    """List what a stranger makes again, from what, and how exactly."""
    if run.facts.classifier is not None:
        return [line(*each) for each in [*weights(run), loss(run)]]
    if run.facts.synthesis is None:
        made = [
            (table.name, message("the noisy counts of {key}", key=table.measurement.key), BYTEWISE)
            for table in run.facts.tables
        ]
        return [line(*each) for each in [*made, loss(run)]]
    _, synthesis = run.facts.synthetic
    rows = (message("{n} rows", n=synthesis.rows), message("the published model and seed"), BYTEWISE)
    fitted = (
        message("the model"),
        message("the noisy measurements and choices"),
        message("within a stated tolerance (verify --deep)"),
    )
    trained = (
        message("the trained network"),
        message("nothing: the rows and the noise would be needed"),
        message("not at all"),
    )
    return [line(*each) for each in [rows, trained if synthesis.fitted.trainings else fitted, loss(run)]]


def weights(run: Run) -> list[tuple[str, str, str]]:
    """Say from what the weights of a model follow."""
    made = run.facts.trained[1]
    parameters = message("{parameters} weights and biases", parameters=made.model.parameters)
    if made.seed is None:
        return [(parameters, message("the published noisy values"), BYTEWISE)]
    return [
        (
            parameters,
            message("the noisy measurements and the seed"),
            message("within a stated tolerance (verify --deep)"),
        )
    ]


def loss(run: Run) -> tuple[str, str, str]:
    """Say from what the privacy loss follows."""
    draws = sum(entry.kind == "noise_drawn" for entry in run.facts.entries)
    return (
        message("the privacy loss"),
        message("the events of {n} draws", n=draws),
        message("to the last unit, rounded against the spender"),
    )


def line(what: str, source: str, exactly: str) -> dict[str, str]:
    """Write what is made again, from what, and how exactly."""
    return {"what": what, "from": source, "exactly": exactly}


def noise_gone(run: Run) -> str:
    """Say that nobody can make the noise again."""
    draws = sum(entry.kind == "noise_drawn" for entry in run.facts.entries)
    return message(
        "the noise of {n} draws: drawn from the operating system's CSPRNG; its keys are never stored, so that "
        "nobody can take it off again",
        n=draws,
    )


def not_reproducible(run: Run) -> list[str]:
    """List what nobody can make again, on purpose."""
    listed: list[str] = [noise_gone(run)]
    trainings = () if run.facts.of_tables else run.facts.fit[1].fitted.trainings
    for trained in trainings:
        listed.append(
            message(
                "the training {key}: its samples of rows and its noise are not kept, so it cannot be retrained byte "
                "for byte; its last checkpoint is published",
                key=trained.key,
            )
        )
    return listed


REPRODUCIBILITY: Final = FieldGroup(
    "reproducibility",
    "Reproducibility",
    (
        public(
            "reproducible", "What anybody can make again from the published files, and how exactly.", reproducible
        ),
        public("not_reproducible", "What is deliberately not reproducible.", not_reproducible),
    ),
)


def files(run: Run) -> dict[str, str]:
    """Name the notices that lie beside this record."""
    release, number = run.facts.spec.release, run.facts.version.number
    return {
        "privacy_label": f"{release}/v{number}/label.html",
        "registry_entry": f"{release}/v{number}/deployment.yaml",
        "catalogue_entry": f"{release}/v{number}/croissant.json",
        "lineage_event": f"{release}/v{number}/lineage.json",
    }


def items(run: Run) -> dict[str, Any]:
    """Give what a public notice names, of a product that was made in one place."""
    part = record_part(run.facts.spec.product.kind)
    return public_notice(run, part.columns(run), part.notice, run.facts.spec.publish.formats)


def public_notice(run: Run, names: Collection[str], form: str, formats: Iterable[str]) -> dict[str, Any]:
    """Give what a public notice on creation and provision names: categories of information, and the way."""
    columns = run.facts.contract.columns
    return {
        "items": [column.description or column.name for column in columns if column.name in names],
        "form": form,
        "way": message("files: {formats}", formats=joined(formats)),
        "note": message(
            "no legal opinion: whether these are anonymously processed information or statistics is for lawyers"
        ),
    }


def correction(run: Run) -> str:
    """Say how an error is corrected, and whom to write to."""
    address = (
        message("write to the publisher; no contact is declared.")
        if run.facts.about.contact is None
        else message("write to the contact in accountability.contact.")
    )
    new = message(
        "A published file never changes: a correction is a new version of {release} that supersedes this one; the "
        "loss of this one stays charged",
        release=run.facts.spec.release,
    )
    return joined([address, new], SENTENCES)


NOTICES: Final = FieldGroup(
    "notices",
    "Notices",
    (
        public("files", "Notices beside this record.", files),
        public(
            "notice", "Items and way of provision, as a public notice of processed information names them.", items
        ),
        public("correction", "How an error is reported and corrected.", correction),
    ),
)
