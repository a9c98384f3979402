"""lineage.json: the run as an OpenLineage event (spec 2-0-2), for catalogues that collect lineage.

A run event of type COMPLETE: the contract's table went in, the published files came out. Facets say what the columns
are, that the declared gates held, how many rows each file has, and what the release cost. The confidential table is
named by its contract only; no outcome of a check that could not stop the release, and no number of its rows, stands
here.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from contracts.canonical import readable_json
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.model.record_kinds import record_part
from tasks.records.public_text import public_field, says_anything, sentence
from tasks.records.record import RecordExplanation
from tasks.records.values import Values

SPEC: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS: Final = "https://openlineage.io/spec/facets"
NAMESPACE: Final = "sudare"
_ABOUT_ROWS: Final = {"type": "INDIRECT", "subtype": "AGGREGATION", "masking": True}
_SAME: Final = {"type": "DIRECT", "subtype": "TRANSFORMATION", "masking": True}
_DERIVED: Final = frozenset({"count", "noisy", "variance", "lower", "upper", "suppressed"})


def lineage_json(explanation: RecordExplanation) -> bytes:
    """Write the run event of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        bytes: canonical readable JSON.
    Privacy: reads the public record only.
    """
    return readable_json(run_event(explanation))


def run_event(explanation: RecordExplanation) -> dict[str, Any]:
    """Describe the run as an OpenLineage RunEvent."""
    values = explanation.values
    producer = f"urn:sudare:{_version(values)}"
    hour = str(values["identity.measured_hour"])
    return {
        "eventType": "COMPLETE",
        "eventTime": f"{hour[:16]}:00.000Z",
        "producer": producer,
        "schemaURL": SPEC,
        "run": {"runId": _run_id(values), "facets": _run_facets(values, producer)},
        "job": {
            "namespace": NAMESPACE,
            "name": values["identity.release_id"],
            "facets": _job_facets(values, producer),
        },
        "inputs": [_input(values, producer)],
        "outputs": [
            _output(file, values, producer, _added(shown, values))
            for file, shown in zip(values["output.files"], explanation.files, strict=True)
        ],
    }


def _version(values: Values) -> str:
    packages = values["noise.packages"]
    return str(packages.get("sudare", "unknown")) if isinstance(packages, dict) else "unknown"


def _run_id(values: Values) -> str:
    """Name the run by the hash of its charge in the journal, as a UUID."""
    return str(uuid5(NAMESPACE_OID, f"sudare:{values['integrity.journal_entries'][0]['hash']}"))


def _facet(producer: str, schema: str, **content: Any) -> dict[str, Any]:
    """Make a facet of the standard; `schema` is its version and name."""
    name = schema.partition("/")[2]
    return {"_producer": producer, "_schemaURL": f"{_FACETS}/{schema}.json#/$defs/{name}", **content}


def _own(producer: str, name: str, **content: Any) -> dict[str, Any]:
    return {"_producer": producer, "_schemaURL": f"urn:sudare:facet:{name}:1", **content}


def _run_facets(values: Values, producer: str) -> dict[str, Any]:
    privacy = {
        "epsilon": values["guarantee.epsilon"],
        "delta": values["guarantee.delta"],
        "unit": values["unit.unit"],
        "scope": values["unit.scope"],
        "adjacency": values["unit.adjacency"],
        "account": values["ledger.account"],
        "charged": values["ledger.charged"],
        "left": values["ledger.left"],
        "draws": len(values["ledger.draws"]),
        "specDigest": values["integrity.spec_digest"],
        "codeDigest": values["noise.code"],
    }
    return {
        "processing_engine": _facet(
            producer, "1-1-1/ProcessingEngineRunFacet", name="Sudare", version=_version(values)
        ),
        "sudare_privacy": _own(producer, "privacy", **privacy),
    }


def _job_facets(values: Values, producer: str) -> dict[str, Any]:
    purpose = (
        sentence(values, "accountability.purpose")
        or f"Release of {values['identity.title']} under differential privacy."
    )
    return {
        "jobType": _facet(
            producer, "2-0-4/JobTypeJobFacet", processingType="BATCH", integration="SUDARE", jobType="RELEASE"
        ),
        "documentation": _facet(producer, "1-1-0/DocumentationJobFacet", description=purpose),
    }


def _source(values: Values) -> dict[str, str]:
    """Name the confidential table by its contract, not by where it is."""
    return {
        "namespace": f"{NAMESPACE}:contract",
        "name": f"{values['contract.contract_id']}.{values['contract.table']}",
    }


def _input(values: Values, producer: str) -> dict[str, Any]:
    fields = [
        {"name": column["name"], "type": column["logical_type"]}
        | ({"description": column["description"]} if says_anything(column["description"]) else {})
        for column in values["contract.columns"]
    ]
    gates = public_field(values, "unprotected.declared_gates")
    names = gates if isinstance(gates, list) else []
    return {
        **_source(values),
        "facets": {
            "schema": _facet(producer, "1-2-0/SchemaDatasetFacet", fields=fields),
            "version": _facet(
                producer, "1-0-1/DatasetVersionDatasetFacet", datasetVersion=str(values["contract.contract_version"])
            ),
            "sudare_snapshot": _own(producer, "snapshot", keyedHash=values["source.snapshot_keyed_hash"]),
        },
        "inputFacets": {
            "dataQualityAssertions": _facet(
                producer, "1-1-0/DataQualityAssertionsDatasetFacet", assertions=[_gate_passed(name) for name in names]
            )
        },
    }


def _gate_passed(gate: str) -> dict[str, Any]:
    """Say that a gate held: it would have stopped the release, so everybody sees that it did."""
    kind, _, column = str(gate).partition(":")
    return {"assertion": kind, "success": True, "severity": "error"} | ({"column": column} if column else {})


def _added(file: WrittenFile, values: Values) -> dict[str, tuple[str, ...]]:
    """Say which columns of a file are of declared ones, beside those grouped by, and of which."""
    if file.role in (DATA, "part"):
        columns = record_part(values["identity.product_type"]).data_columns(values, file.path)
        return {name: column.of for name, column in columns.items()}
    of = next((draw.get("of") for draw in values["ledger.draws"] if draw["key"] == file.draw), None)
    return {} if of is None else dict.fromkeys(_DERIVED, (of,))


def _output(file: dict[str, Any], values: Values, producer: str, added: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    version = f"{values['identity.release_id']}/v{values['identity.version']}"
    fields = [{"name": column["name"], "type": column["type"]} for column in file["columns"]]
    return {
        "namespace": NAMESPACE,
        "name": f"{version}/{file['path']}",
        "facets": {
            "schema": _facet(producer, "1-2-0/SchemaDatasetFacet", fields=fields),
            "version": _facet(
                producer, "1-0-1/DatasetVersionDatasetFacet", datasetVersion=str(values["identity.version"])
            ),
            "storage": _facet(
                producer,
                "1-0-1/StorageDatasetFacet",
                storageLayer="file",
                fileFormat=PurePosixPath(file["path"]).suffix.lstrip("."),
            ),
            "columnLineage": _facet(
                producer, "1-2-0/ColumnLineageDatasetFacet", fields=_column_lineage(file, values, added)
            ),
            "sudare_digest": _own(producer, "digest", sha256=file["sha256"]),
        },
        "outputFacets": {
            "outputStatistics": _facet(
                producer,
                "1-0-2/OutputStatisticsOutputDatasetFacet",
                rowCount=file["rows"],
                size=file["bytes"],
                fileCount=1,
            )
        },
    }


def _column_lineage(file: dict[str, Any], values: Values, added: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Say from which declared columns each column of a file comes; noise stands between all of them."""
    declared = {column["name"] for column in values["contract.columns"]}
    labels = [column["name"] for column in file["columns"] if column["name"] in declared]
    source = _source(values)

    def come(names: list[str], how: dict[str, Any]) -> dict[str, Any]:
        return {"inputFields": [{**source, "field": name, "transformations": [how]} for name in names]}

    made = [column["name"] for column in file["columns"] if column["name"] in {*_DERIVED, *added} - declared]
    sources = {name: [*labels, *added.get(name, ())] for name in made if name != "structural_zero"}
    return {name: come([name], _SAME) for name in labels} | {
        name: come(names, _ABOUT_ROWS) for name, names in sources.items() if names
    }
