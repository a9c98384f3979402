"""Where lineage events go: `[lineage]` of sudare.toml, or the environment variables that OpenLineage's clients know.

| variable | means | in sudare.toml |
|---|---|---|
| OPENLINEAGE_URL | a server; events are posted to its OPENLINEAGE_ENDPOINT, `api/v1/lineage` without one | `url` |
| OPENLINEAGE_API_KEY | a bearer token; never in a file | |
| OPENLINEAGE_NAMESPACE | namespace of the jobs, `sudare` without one | `namespace` |
| OPENLINEAGE_DISABLED | `true`: no event at all | |
| | a file to which each event is appended, one a line | `file` |
| | `yes`: name the source's path beside its contract | `source_path` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LINEAGE_KEYS = {
    "lineage.url": "the URL of an OpenLineage server; empty for none",
    "lineage.file": "a file to which events are appended; empty for none",
    "lineage.namespace": 'the namespace of the jobs, "sudare" without it',
    "lineage.source_path": '"yes" to name the source\'s path in events, "no" to name its contract only',
}
ENDPOINT = "api/v1/lineage"
NAMESPACE = "sudare"


@dataclass(frozen=True)
class LineageTarget:
    """Where events go, and what they may name.

    Args:
        url: where they are posted, or None.
        file: the file to which they are appended, or None.
        namespace: namespace of the jobs.
        source_path: whether the source's path is named.
        key: bearer token of the server, or None; shown nowhere.
    """

    url: str | None = None
    file: Path | None = None
    namespace: str = NAMESPACE
    source_path: bool = False
    key: str | None = field(default=None, repr=False)

    @property
    def is_configured(self) -> bool:
        """Whether there is anybody to tell."""
        return self.url is not None or self.file is not None


NOBODY = LineageTarget()


def lineage_target(root: Path, values: Mapping[str, str], environment: Mapping[str, str]) -> LineageTarget:
    """Read where events go.

    Args:
        root: the workspace; a relative file is meant from there.
        values: the settings of sudare.toml by `table.key`.
        environment: the environment variables, which win.
    """
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1"):
        return NOBODY
    server = environment.get("OPENLINEAGE_URL") or values.get("lineage.url")
    endpoint = environment.get("OPENLINEAGE_ENDPOINT") or ENDPOINT
    file = values.get("lineage.file")
    return LineageTarget(
        url=f"{server.rstrip('/')}/{endpoint.lstrip('/')}" if server else None,
        file=root / file if file else None,
        namespace=environment.get("OPENLINEAGE_NAMESPACE") or values.get("lineage.namespace") or NAMESPACE,
        source_path=values.get("lineage.source_path", "no").strip().lower() == "yes",
        key=environment.get("OPENLINEAGE_API_KEY") or None,
    )
