"""Which files of a version are made from its public record alone, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from contracts.canonical import canonical_json
from tasks.records.descriptions.deployment_entry import deployment_yaml
from tasks.records.descriptions.label import label_html
from tasks.records.descriptions.lineage import lineage_json

DEPLOYMENT: Final = "deployment.yaml"
LINEAGE: Final = "lineage.json"
LABEL: Final = "label.html"
FROM_RECORD: Final[Mapping[str, Callable[[dict[str, Any]], bytes]]] = {
    DEPLOYMENT: deployment_yaml,
    LINEAGE: lineage_json,
    LABEL: label_html,
}
"""Each file with what makes it of the public record."""


def descriptions(record: dict[str, Any]) -> dict[str, bytes]:
    """Make all of them, of the record as it reads once it is written."""
    read: dict[str, Any] = json.loads(canonical_json(record))
    return {name: make(read) for name, make in FROM_RECORD.items()}
