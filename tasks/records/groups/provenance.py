"""The section provenance: which code ran where, when and how often; exact for auditors, rounded for everybody."""

from __future__ import annotations

from typing import Any, Final

from privacy.grant.draw_replay import LOST
from tasks.records.groups.field import FieldGroup, Run, auditor, public
from tasks.records.groups.release_identity import hour


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
