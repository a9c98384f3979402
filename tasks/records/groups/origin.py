"""The sections reproducibility and notices: what can be made again, and by whom this release is told to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from contracts.contract.labels import stated
from contracts.message import SEMICOLON, SENTENCES, joined, message
from privacy.grant.draw_replay import LOST
from privacy.ledger.journal.signing import key_id
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public, unsourced
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


# --- The sections output and integrity.


def data_files(run: Run) -> list[dict[str, Any]]:
    """List the data files."""
    return [_file(file) for file in run.files]


def _file(file: WrittenFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "sha256": file.sha256,
        "bytes": file.bytes,
        "rows": file.rows,
        "columns": [{"name": name, "type": kind} for name, kind in file.columns],
    }


def partitioning(run: Run) -> str:
    """Say how many files hold how many draws, and how many hold parts of them."""
    draws, parts = {file.draw for file in run.files}, sum(file.role == "part" for file in run.files)
    whole = message(
        "{files} files for {draws} draws, each with all rows of its draw",
        files=len(run.files) - parts,
        draws=len(draws),
    )
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else message("none: {files}", files=whole)


def in_parts(parts: int) -> str:
    """Say what parts are."""
    return message("the rows of the data files once more in parts, a row group each: {files} files", files=parts)


def _formulas(run: Run) -> str:
    return stated(run.facts.spec.publish.formulas)


def _labels(run: Run) -> str:
    if run.facts.spec.publish.labels is None:
        return message("labels stand alone")
    return message(
        "beside each column of labels stand their declared order (_order), and the ends of bins (_lower, _upper) or "
        "the codes that have labels (_code); all of it is from the contract"
    )


def _exchange(run: Run) -> str | list[str]:
    return list(run.facts.spec.publish.exchange) or NONE


def row_count_origin(run: Run) -> str:
    """Say which numbers of rows the declared domains fix, and which are released with the noisy counts."""
    draws = run.facts.tables_plan.measured
    cells = sum(draw.cells for draw in draws if draw.sparse is None)
    sparse = [draw.key.removeprefix("table:") for draw in draws if draw.sparse is not None]
    if not sparse:
        return message("fixed: one row a cell of the declared domains, {cells} over all draws", cells=cells)
    return message(
        "fixed: one row a cell of the declared domains, {cells} over all dense draws. Not fixed, but released: of "
        "the "
        "sparse tables ({names}) the cells are listed whose noisy count reached the threshold, and refined ones "
        "above "
        "0; how many they are is computed from the released noisy counts alone",
        cells=cells,
        names=joined(sparse),
    )


OUTPUT = FieldGroup(
    "output",
    "Output",
    (
        public("files", "Data files with digest, size and columns.", data_files),
        public("row_count_origin", "Where the number of rows comes from.", row_count_origin),
        public("formats", "Formats that were asked for.", lambda run: list(run.facts.spec.publish.formats)),
        public("formulas", "How CSV files write labels that a spreadsheet would run.", _formulas),
        public("labels", "What stands beside labels in the data files.", _labels),
        public("exchange", "Forms for exchange between offices, in exchange/.", _exchange),
        public("partitioning", "How files are split.", partitioning),
    ),
)


def journal_entries(run: Run) -> list[dict[str, Any]]:
    """List the run's journal entries by position and hash; PROOF.json has them whole."""
    return [
        {"sequence": entry.sequence, "kind": entry.kind, "previous": entry.previous, "hash": entry.hash}
        for entry in run.facts.entries
    ]


def draw_digests(run: Run) -> dict[str, str]:
    """Give the digest of each draw's values, as the journal has it."""
    return {entry.body["key"]: entry.body["sha256"] for entry in run.facts.entries if entry.kind == "noise_drawn"}


INTEGRITY = FieldGroup(
    "integrity",
    "Integrity",
    (
        public(
            "journal_entries", "The run's entries in the hash-chained journal, before publication.", journal_entries
        ),
        public(
            "draw_digests",
            "SHA-256 of each draw's noisy values (int64, little-endian, row-major); of a sparse one with its cells.",
            draw_digests,
        ),
        public("spec_digest", "SHA-256 of the release spec.", lambda run: run.facts.charge.request.spec_digest),
        public(
            "contract_digest",
            "SHA-256 of the contract, as it was charged.",
            lambda run: run.facts.charge.request.contract_digest,
        ),
        public(
            "signatures",
            "Where the signatures are.",
            lambda run: message(
                "MANIFEST.json and PROOF.json of version {version}", version=run.facts.version.number
            ),
        ),
        public(
            "verify_command",
            "How to check this version; the key comes from the publisher by another way.",
            lambda run: f"sudare verify {run.facts.version.release}/v{run.facts.version.number} --key FILE",
        ),
        declares("witness", "Who else keeps the journal's head."),
    ),
)


# --- Identity, accountability and source.


def _approvals(run: Run) -> str | list[dict[str, str]]:
    stated = run.facts.approvals
    if stated is None:
        return NONE
    names = {each.key: each.name for each in stated.by}
    return [{"name": names.get(each.key, NONE), "key_id": key_id(each.key), "at": each.at} for each in stated.given]


IDENTITY = FieldGroup(
    "identity",
    "Identity",
    (
        public(
            "release_id", "Name of the product; stays the same over its versions.", lambda run: run.facts.spec.release
        ),
        public("version", "Number of this publication.", lambda run: run.facts.version.number),
        public(
            "status_when_written",
            "Status in the ledger when this record was written; the status of today is in the signed journal.",
            lambda run: run.facts.version.status,
        ),
        public("supersedes", "Number of the version before.", lambda run: run.facts.supersedes or NONE),
        unsourced(
            "superseded_by",
            "Number of the version after; known later, and then in the signed journal.",
            "a signed record does not change; `sudare releases` and the journal know",
        ),
        public("title", "Name of the data.", lambda run: run.facts.contract.name),
        public("product_type", "What is published.", lambda run: run.facts.spec.product.kind),
        public("reference_period", "Time block of the account that paid.", lambda run: run.facts.account.terms.block),
        public(
            "due",
            "Date on which this version was due, by `redraw: on_schedule`; that it was made does not depend on the "
            "rows.",
            lambda run: run.facts.spec.due or NONE,
        ),
        public(
            "measured_hour",
            "Hour (UTC) in which the measurements were complete.",
            lambda run: hour(run.facts.finished),
        ),
        auditor(
            "started",
            "When the attempt that published it began, to the second.",
            lambda run: run.facts.attempt[0] if run.facts.attempt else run.facts.started,
        ),
        auditor(
            "finished",
            "When that attempt had measured, to the second.",
            lambda run: run.facts.attempt[1] if run.facts.attempt else run.facts.finished,
        ),
        declares("sector", "Sector of the publisher."),
        declares("region", "Region that the data are about."),
        declares("registry_id", "Entry in a public registry of deployments."),
    ),
)

ACCOUNTABILITY = FieldGroup(
    "accountability",
    "Accountability",
    (
        public(
            "purpose",
            "What the data are for, as the contract says.",
            lambda run: described(run, "purpose"),
            absent="the contract has no `description: {purpose: ...}`",
        ),
        declares("audience", "For whom the release is made."),
        declares("curator", "Who is responsible for the data."),
        declares("operator", "Who ran the release."),
        declares("approvers", "Who approved it, and when."),
        public("approvals", "Who signed the plan before it was charged; the signatures are checked.", _approvals),
        declares("legal_basis", "Legal basis, or reference of the impact assessment."),
        declares("policy_version", "Privacy policy that the release follows."),
        declares("rationale", "Why this epsilon, and why this cap."),
        declares("contact", "Whom to write to about errors."),
    ),
)

SOURCE = FieldGroup(
    "source",
    "Source",
    (
        auditor(
            "source", "The confidential table, as the ledger knows it.", lambda run: run.facts.charge.request.source
        ),
        auditor("source_path", "Where it was read.", lambda run: str(run.facts.spec.source.path)),
        public("source_format", "Format of the file.", lambda run: run.facts.spec.source.format),
        public(
            "select",
            "Row-wise projection and filter on the way in.",
            lambda run: run.facts.spec.source.select or NONE,
        ),
        public(
            "snapshot_keyed_hash",
            "Mark of the encoded rows, keyed and salted with the spec: it does not link releases of different specs.",
            lambda run: run.facts.charge.request.snapshot_hash,
        ),
        public("population", "The people.", lambda run: run.facts.account.terms.population),
        public("time_block", "The time that the account covers.", lambda run: run.facts.account.terms.block),
        declares("lineage", "From which systems the table came."),
        declares("retention", "When the snapshot and the source are deleted."),
        declares("trust_model", "Who sees the confidential rows, and who is trusted."),
    ),
)


def hour(time: str) -> str:
    """Cut a time (ISO 8601, UTC) down to its hour."""
    return f"{time[:13]}:00Z"


def described(run: Run, key: str) -> str | None:
    """Return what the contract's description says under a key."""
    return run.facts.contract.description.get(key)


# --- The section provenance.


def commit(run: Run) -> dict[str, Any] | None:
    """Give the commit of the installed code, and whether files differed from it."""
    software = run.facts.software
    if software.commit is None:
        return None
    return {"commit": software.commit, "changed_since": "unknown" if software.dirty is None else software.dirty}


def attempts(run: Run) -> dict[str, int]:
    """Count how often the run was opened, and which draws were lost and paid again, by the journal."""
    kinds = [entry.kind for entry in run.facts.entries]
    drawn = [entry.body["key"] for entry in run.facts.entries if entry.kind == "noise_drawn"]
    return {
        "reserved": kinds.count("charge_reserved"),
        "opened": kinds.count("grant_opened"),
        "draws": len(drawn),
        "lost": sum(f"/{LOST}-" in key for key in drawn),
    }


def sbom(run: Run) -> dict[str, Any] | None:
    """Give the digest of the list of all installed distributions; auditors have the list."""
    software = run.facts.software
    if not software.installed:
        return None
    return {"distributions": len(software.installed), "sha256": software.installed_sha256}


PROVENANCE: Final = FieldGroup(
    "provenance",
    "Provenance",
    (
        public(
            "commit",
            "Commit of the installed code, and whether files were changed since.",
            commit,
            absent="the code was not installed from a git repository; noise.code has its digest",
        ),
        public(
            "sbom",
            "SHA-256 of the list of all installed distributions, a line of name==version each, sorted.",
            sbom,
            absent="no distribution is installed",
        ),
        auditor(
            "installed",
            "The list itself.",
            lambda run: list(run.facts.software.installed) or None,
            absent="no distribution is installed",
        ),
        public(
            "container",
            "Digest of the container image.",
            lambda run: run.facts.software.container,
            absent="not told: set SUDARE_CONTAINER to the image's digest, sha256:...",
        ),
        auditor(
            "hardware",
            "Machine, as far as it could be told; no name.",
            lambda run: run.facts.software.hardware,
            absent="the software does not tell",
        ),
        auditor(
            "flow_run",
            "The orchestrator's id of the flow run, and of its deployment.",
            lambda run: run.facts.flow_run or None,
            absent="the run was not made by the orchestrator",
        ),
        public("attempts", "How often the run was opened; draws that were lost and paid again.", attempts),
        public("started_hour", "Hour (UTC) in which the run was charged.", lambda run: hour(run.facts.started)),
        public("measured_hour", "Hour (UTC) of the last draw.", lambda run: hour(run.facts.finished)),
    ),
)


# --- The section audits.


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
