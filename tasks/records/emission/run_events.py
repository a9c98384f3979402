"""The events of a run as it happens: START, COMPLETE and FAIL, in OpenLineage's form (spec 2-0-2).

START and FAIL say which contract's table a release reads, with its declared columns. COMPLETE is the event that was
published with the version (`lineage.json`), under the id of this run: what stands there is public. FAIL adds a
word for the error and nothing of its text. No event holds a value, a number of rows of the source, or the outcome of
a check that could not stop the release.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from tasks.records.descriptions.description_files import LINEAGE
from tasks.records.descriptions.lineage import NAMESPACE, SPEC

_FACETS = "https://openlineage.io/spec/facets"
_ADDRESS = re.compile(r"([a-z0-9+]+://[^/]*)/(.+)")
LineageEvent = dict[str, Any]


@dataclass(frozen=True)
class RunIdentity:
    """What all events of a run say alike.

    Args:
        run_id: a UUID of its own for each run, also for one that resumes another.
        namespace: namespace of the job.
        producer: who says it, a URI.
        spec: the release spec; names the job.
        contract: its contract; names and describes the source.
        source_path: whether the source's path is named too.
    """

    run_id: str
    namespace: str
    producer: str
    spec: ReleaseSpec
    contract: Contract
    source_path: bool = False


def start_event(run: RunIdentity, at: datetime) -> LineageEvent:
    """Say that a run begins."""
    return _event("START", run, at)


def fail_event(run: RunIdentity, at: datetime, error: str) -> LineageEvent:
    """Say that a run ended without a version.

    Args:
        run: the run.
        at: when, UTC; the event tells the hour.
        error: the class of the error where it is public; else one word that is the same for all.
    """
    event = _event("FAIL", run, at)
    message = {"message": error, "programmingLanguage": "python"}
    event["run"]["facets"] = {"errorMessage": _facet(run, "1-0-1/ErrorMessageRunFacet", **message)}
    return event


def complete_event(run: RunIdentity, at: datetime, folder: Path) -> LineageEvent:
    """Say which version a run published (or found published): the version's own event, with this run's id and time.

    Args:
        run: the run.
        at: when, UTC; the event tells the hour.
        folder: the published version; one whose own event cannot be read is named without its files.
    """
    event = _event("COMPLETE", run, at)
    try:
        published = json.loads((folder / LINEAGE).read_bytes())
        return {**event, **_as_of(run, published, folder.name)}
    except (OSError, ValueError, KeyError, TypeError):
        return event


def _as_of(run: RunIdentity, published: LineageEvent, version: str) -> LineageEvent:
    """The parts of a version's own event, as this run tells them."""
    own = _own(run, "version", runId=published["run"]["runId"], version=version)
    return {
        "run": {"runId": run.run_id, "facets": {**published["run"]["facets"], "sudare_version": own}},
        "job": {**published["job"], "namespace": run.namespace},
        "inputs": [{**each, "facets": {**each["facets"], **_symlinks(run)}} for each in published["inputs"]],
        "outputs": published["outputs"],
    }


def _event(kind: str, run: RunIdentity, at: datetime) -> LineageEvent:
    return {
        "eventType": kind,
        "eventTime": at.strftime("%Y-%m-%dT%H:00:00.000Z"),  # how long a run takes may depend on the rows
        "producer": run.producer,
        "schemaURL": SPEC,
        "run": {"runId": run.run_id, "facets": {}},
        "job": {"namespace": run.namespace, "name": run.spec.release, "facets": _job_facets(run)},
        "inputs": [_input(run)],
        "outputs": [],
    }


def _job_facets(run: RunIdentity) -> LineageEvent:
    kind = {"processingType": "BATCH", "integration": "SUDARE", "jobType": "RELEASE"}
    return {"jobType": _facet(run, "2-0-4/JobTypeJobFacet", **kind)}


def _input(run: RunIdentity) -> LineageEvent:
    contract = run.contract
    fields = [
        {"name": column.name, "type": column.logical_type}
        | ({"description": column.description} if column.description else {})
        for column in contract.columns
    ]
    version = {"datasetVersion": contract.version}
    return {
        "namespace": f"{NAMESPACE}:contract",
        "name": f"{contract.id}.{contract.table}",
        "facets": {
            "schema": _facet(run, "1-2-0/SchemaDatasetFacet", fields=fields),
            "version": _facet(run, "1-0-1/DatasetVersionDatasetFacet", **version),
            **_symlinks(run),
        },
    }


def _symlinks(run: RunIdentity) -> LineageEvent:
    """Name the source as it lies on the disk, where that is wanted."""
    if not run.source_path:
        return {}
    names = [{**dataset_name(run.spec.source.name), "type": "TABLE"}]
    return {"symlinks": _facet(run, "1-0-1/SymlinksDatasetFacet", identifiers=names)}


def dataset_name(source: str) -> dict[str, str]:
    """Split the canonical name of a source into OpenLineage's namespace and name; it holds no credentials."""
    address = _ADDRESS.fullmatch(source)
    return {"namespace": address[1], "name": address[2]} if address else {"namespace": "file", "name": source}


def _facet(run: RunIdentity, schema: str, **content: Any) -> LineageEvent:
    """Make a facet of the standard; `schema` is its version and name."""
    name = schema.partition("/")[2]
    return {"_producer": run.producer, "_schemaURL": f"{_FACETS}/{schema}.json#/$defs/{name}", **content}


def _own(run: RunIdentity, name: str, **content: Any) -> LineageEvent:
    """Make a facet of our own."""
    return {"_producer": run.producer, "_schemaURL": f"urn:sudare:facet:{name}:1", **content}
