"""Spark on this machine, for the tests that `make test-spark` runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks._spark_place import quick_java
from tasks.storage.workspace.spark_settings import SparkSettings

MASTER, MEMORY = "local[2]", "1g"


@pytest.fixture(scope="session")
def spark_as_found() -> SparkSettings:
    """Spark in the Python that SUDARE_SPARK_PYTHON names, started as an operator starts it."""
    return SparkSettings(Path(os.environ["SUDARE_SPARK_PYTHON"]), MASTER, MEMORY)


@pytest.fixture(scope="session")
def spark(spark_as_found: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """The same with a Java that compiles little: each test starts one, which lives for seconds."""
    quick = quick_java(tmp_path_factory.mktemp("quick") / "python", spark_as_found.python)
    return SparkSettings(quick, MASTER, MEMORY)
