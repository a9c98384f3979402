"""The sections output and integrity: the files, and what a stranger checks them against."""

from __future__ import annotations

from typing import Any

from contracts.contract.spreadsheet import stated
from contracts.message import SEMICOLON, joined, message
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, public


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
        public(
            "row_count_origin",
            "Where the number of rows comes from.",
            row_count_origin,
        ),
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
