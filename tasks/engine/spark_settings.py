"""Where Spark is: the Python that has PySpark, and the cluster that it is to work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPARK_KEYS = {
    "spark.python": "the Python of an environment with pyspark; a relative path is meant from this file",
    "spark.master": 'a Spark master, such as "local[2]" or "spark://HOST:7077"',
    "spark.memory": 'of the driver and of each executor, such as "1g"',
}


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started.

    Args:
        python: the Python that has PySpark.
        master: the cluster.
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
    """Read the settings of a workspace; None where they name no Python with PySpark."""
    python = values.get("spark.python")
    if not python:
        return None
    own = {name: values[f"spark.{name}"] for name in ("master", "memory") if values.get(f"spark.{name}")}
    return SparkSettings(root / python, **own)
