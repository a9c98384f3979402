"""The JSON Schemas of a version's files, made from their models: `python -m tests.tasks.records.version_schemas`."""

from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from contracts.canonical import readable_json
from tasks.records.model import record_kinds
from tasks.records.model.declarations import SealedRecord
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest, SignedEnvelope, StatusStatement

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schema"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def version_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema (2020-12) of each file that states something, by its name in docs/schema."""
    records: Any = reduce(or_, (record_kinds.record_part(kind).model for kind in record_kinds._PARTS))
    return {
        "record": _schema(records, "Sudare audit record"),
        "manifest": _schema(SignedEnvelope, "Sudare manifest: a DSSE envelope"),
        "dp-release-v1": _schema(Manifest, "Sudare manifest: the in-toto statement in it, with its predicate"),
        "proof": _schema(Proof, "Sudare proof"),
        "journal-status-v1": _schema(StatusStatement, "Sudare public journal: the statement in status/RELEASE.json"),
        "auditor-record": _schema(SealedRecord, "Sudare auditors' record"),
    }


def _schema(model: Any, title: str) -> dict[str, Any]:
    return {"$schema": _DRAFT, **TypeAdapter(model).json_schema(by_alias=True), "title": title}


if __name__ == "__main__":
    for name, schema in version_schemas().items():
        (SCHEMAS / f"{name}.schema.json").write_bytes(readable_json(schema))
