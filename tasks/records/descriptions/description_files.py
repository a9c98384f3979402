"""Which files of a version are made from its public record alone, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tasks.records.descriptions.deployment_entry import deployment_yaml
from tasks.records.descriptions.descriptions import label_html
from tasks.records.descriptions.lineage import lineage_json
from tasks.records.record import RecordExplanation

DEPLOYMENT: Final = "deployment.yaml"
LINEAGE: Final = "lineage.json"
LABEL: Final = "label.html"
FROM_RECORD: Final[Mapping[str, Callable[[RecordExplanation], bytes]]] = {
    DEPLOYMENT: deployment_yaml,
    LINEAGE: lineage_json,
    LABEL: label_html,
}
"""Each file with what makes it of the public record."""


def descriptions(explanation: RecordExplanation) -> dict[str, bytes]:
    """Make all of them."""
    return {name: make(explanation) for name, make in FROM_RECORD.items()}
