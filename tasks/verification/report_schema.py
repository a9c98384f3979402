"""The JSON Schema of what `sudare verify --json` prints; docs/schema/verify-report.schema.json is a copy."""

from __future__ import annotations

from typing import Any

from tasks.verification.outcomes import ALL_RULES, REPORT_SCHEMA

_TEXT = {"type": "string"}
_CODE = {"enum": [rule.code for rule in ALL_RULES]}

_TEXT_OR_NULL = {"type": ["string", "null"]}
_KEY = {
    "file": {**_TEXT, "description": "Where the key stands that was used."},
    "whose": {**_TEXT, "description": "What it is: named, a pin of yours, a pin or the own key of a workspace."},
    "pinned_since": {**_TEXT_OR_NULL, "description": "When it was pinned; null for what is no pin."},
    "passed_over": {**_TEXT_OR_NULL, "description": "Another key that lies nearer, and was not used."},
}


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a verification report."""
    finding = {
        "code": {**_CODE, "description": "The rule that it breaks, for programs."},
        "meaning": {**_TEXT, "description": "What it means for whoever relies on the version."},
        "where": {**_TEXT, "description": "The file."},
        "field": {**_TEXT, "description": "The place in it: a field, a line and byte, or a column and row from 1."},
        "found": {**_TEXT, "description": "What stands there."},
        "allowed": {**_TEXT, "description": "What may stand there."},
        "remedy": {**_TEXT, "description": "What to do; may be empty."},
    }
    check = {
        "rule": {"type": "integer", "minimum": 1, "maximum": len(ALL_RULES)},
        "code": _CODE,
        "name": {**_TEXT, "description": "What the rule says."},
        "passed": {"type": "boolean", "description": "All of the rule was checked and holds."},
        "findings": {"type": "array", "items": _object(finding)},
        "skipped": {"type": "array", "items": _TEXT, "description": "What could not be checked, and why."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sudare verification report",
        "description": "See docs/verify.md. Exit code 0 if `ok`, 6 if it holds but was withdrawn, else 5.",
        **_object(
            {
                "schema": {"const": REPORT_SCHEMA},
                "ok": {"type": "boolean", "description": "Every rule was checked and holds."},
                "release": {"type": ["string", "null"], "description": "As the manifest states it."},
                "version": {"type": ["integer", "null"], "minimum": 1, "description": "As the manifest states it."},
                "key_id": {"type": "string", "pattern": "^[0-9a-f]{16}$", "description": "Of the pinned key."},
                "key": _object(_KEY),
                "checks": {"type": "array", "items": _object(check), "minItems": 10},
                "notes": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "What lies around the version: other versions, latest. Not held against it.",
                },
                "cannot_tell": {"type": "array", "items": _TEXT, "description": "What no check can establish."},
                "publishers_word": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "Fields of the record that follow from nothing published.",
                },
            }
        ),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
