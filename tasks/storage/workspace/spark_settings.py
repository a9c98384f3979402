"""Where Spark is: the Python that has PySpark, and how many processors of this machine it may use.

Spark on other machines is refused, and so are workers of its own on this one (`local-cluster`). The driver is bound
to loopback, and nothing between Spark's processes is authenticated or encrypted: the SQL that they exchange holds the
keys that choose rows, and the rows follow. A worker also writes what a task says, values of rows among it, into files
that others may read, and serves them on a page without a login.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tasks.storage.workspace.keys import refusal

SPARK_KEYS = {
    "spark.python": "the Python of an environment with pyspark; a relative path is meant from this file",
    "spark.master": 'a Spark master on this machine, such as "local[2]"',
    "spark.memory": 'of the driver and of each executor, such as "1g"',
}

_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(, ?\d+)?\])?")


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started.

    Args:
        python: the Python that has PySpark.
        master: `local[N]`: this machine.
        memory: of the driver and of each executor [text, such as "1g"].
    """

    python: Path
    master: str = "local[2]"
    memory: str = "1g"

    @property
    def configuration(self) -> dict[str, str]:
        """Spark's own settings."""
        return {
            "spark.master": self.master,
            "spark.driver.memory": self.memory,
            "spark.executor.memory": self.memory,
        }


def spark_settings(root: Path, values: Mapping[str, str]) -> SparkSettings | None:
    """Read the settings of a workspace; None where they name no Python with PySpark.

    Raises:
        WorkspaceRefused: the master is on another machine.
    """
    python = values.get("spark.python")
    if not python:
        return None
    own = {name: values[f"spark.{name}"] for name in ("master", "memory") if values.get(f"spark.{name}")}
    if not _LOCAL.fullmatch(own.get("master", "local")):
        allowed = (
            "local, local[N] or local[*]: between processes keys and rows would travel in clear, to whoever answers"
        )
        remedy = 'write master = "local[*]", or leave `engine:` out'
        raise refusal(str(root / "sudare.toml"), "spark.master", repr(own["master"][:60]), allowed, remedy)
    return SparkSettings(root / python, **own)
