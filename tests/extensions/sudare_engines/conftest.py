"""Spark on this machine, for the tests that `make test-spark` runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks._spark_archive import archived_java
from benchmarks._spark_place import quick_java
from sudare_engines.spark import SparkWorker
from sudare_engines.spark_settings import SparkSettings

MASTER, MEMORY = "local[2]", "1g"


@pytest.fixture(scope="session")
def spark_as_found() -> SparkSettings:
    """Spark in the Python that SUDARE_SPARK_PYTHON names, started as an operator starts it."""
    return SparkSettings(Path(os.environ["SUDARE_SPARK_PYTHON"]), MASTER, MEMORY)


@pytest.fixture(scope="session")
def java(spark_as_found: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Options of a Java that starts quickly: each test starts one or more, which live for seconds."""
    return archived_java(tmp_path_factory.mktemp("archive") / "classes.jsa", spark_as_found.python)


@pytest.fixture(scope="session")
def spark(spark_as_found: SparkSettings, java: str, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    quick = quick_java(tmp_path_factory.mktemp("quick") / "python", spark_as_found.python, java)
    return SparkSettings(quick, MASTER, MEMORY)


@pytest.fixture(scope="session")
def worker(spark: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorker]:
    """One session for many sources: to start one takes longer than to read one."""
    made = SparkWorker(spark, tmp_path_factory.mktemp("worker"))
    yield made
    made.close()
