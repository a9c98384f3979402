"""OpenLineage events of runs (spec 2-0-2): START, COMPLETE and FAIL, to a file or a server.

START and FAIL say which contract's table a release reads, with its declared columns. COMPLETE is the event that was
published with the version (`lineage.json`), under the id of this run: what stands there is public. FAIL adds a
word for the error and nothing of its text. No event holds a value, a number of rows of the source, or the outcome of
a check that could not stop the release. Whatever goes wrong on the way is a warning, and never stops a release.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

from contracts.canonical import canonical_json
from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from flows.observers import Observer
from flows.outcome import Outcome
from flows.request import Request
from tasks.records.descriptions.description_files import LINEAGE
from tasks.records.descriptions.lineage import NAMESPACE, SPEC
from tasks.storage.progress import StepTime
from tasks.storage.workspace.lineage_target import LineageTarget
from tasks.storage.workspace.settings import Workspace

_FACETS: Final = "https://openlineage.io/spec/facets"
_ADDRESS: Final = re.compile(r"([a-z0-9+]+://[^/]*)/(.+)")
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


logger = logging.getLogger(__name__)

TIMEOUT = 5.0
_FAILURES = (OSError, ValueError, http.client.HTTPException)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the bearer token to somebody else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def send(target: LineageTarget, event: dict[str, Any]) -> bool:
    """Deliver an event to everybody who wants it.

    Args:
        target: where events go.
        event: the event.
    Returns:
        bool: whether all got it. What failed is logged by its class, without addresses or texts of others.
    """
    delivered, data = True, canonical_json(event)
    for way, deliver in ((target.file, _append), (target.url, _post)):
        if way is None:
            continue
        try:
            deliver(target, data)
        except _FAILURES as error:
            delivered = False
            logger.warning("lineage: the event %s was not delivered (%s)", event["eventType"], type(error).__name__)
    return delivered


def _append(target: LineageTarget, data: bytes) -> None:
    """Append one line, in one write, so that events of several processes do not mix; a new file is its owner's."""
    path = target.file or Path()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, data + b"\n")
    finally:
        os.close(descriptor)


def _post(target: LineageTarget, data: bytes) -> None:
    """Post to the server; any answer of the 200s will do."""
    url = target.url or ""
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address of another kind")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {target.key}"} if target.key else {})
    request = urllib.request.Request(url, data=data, headers=headers, method="POST")
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
        pass


class Lineage(Observer):
    """Tells collectors that a run starts, and how it ends."""

    def __init__(self, request: Request, workspace: Workspace, began: int) -> None:
        spec, contract, self._target = request.spec, request.contract, workspace.lineage
        producer, named = f"urn:sudare:{_version()}", self._target.source_path
        self._run = RunIdentity(str(uuid4()), self._target.namespace, producer, spec, contract, named)

    @classmethod
    def is_wanted(cls, workspace: Workspace) -> bool:
        """Say whether `[lineage]` or OPENLINEAGE_URL names anybody."""
        return workspace.lineage.is_configured

    def begin(self) -> None:
        """Emit START."""
        send(self._target, start_event(self._run, datetime.now(UTC)))

    def end(self, outcome: Outcome, steps: Sequence[StepTime]) -> None:
        """Emit COMPLETE."""
        send(self._target, complete_event(self._run, datetime.now(UTC), Path(outcome.folder)))

    def fail(self, word: str, steps: Sequence[StepTime], *, timed: bool) -> None:
        """Emit FAIL."""
        send(self._target, fail_event(self._run, datetime.now(UTC), word))


def _version() -> str:
    try:
        return version("sudare")
    except PackageNotFoundError:
        return "unknown"
