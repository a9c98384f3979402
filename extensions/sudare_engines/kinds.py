"""The engines that specs may name; each is registered as `sudare.engines`, and loads nothing before it is used."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.reading.scalars import Problem
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from sudare_engines.spark_settings import spark_settings
from tasks.storage.source_engine import SourceEngine
from tasks.storage.workspace.settings import Workspace

_HAS_PYSPARK: Final = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyspark') is None)"


class SparkEngine(SourceEngine):
    """Ibis writes SQL for it. PySpark lives in an environment of its own, which the workspace names."""

    def missing(self, workspace: Workspace | None) -> Problem | None:
        """Look whether Ibis can be imported, and then for PySpark in that environment."""
        try:
            import_module("ibis")
        except ImportError:
            allowed = "an installation with the extra engines"
            return Problem("ibis is not installed here", allowed, 'pip install "sudare[engines]"')
        return None if workspace is None else _missing_spark(workspace)

    def ingest(
        self,
        source: Source,
        contract: Contract,
        *,
        folder: Path,
        workspace: Workspace,
        beside: Sequence[ValueLattice | KeyColumn] = (),
        lock: int | None = None,
        goes_on: Callable[[PrivateTable], bool] = lambda table: False,
    ) -> PrivateTable:
        """Stage the table, as `sudare_engines.stage` does."""
        from sudare_engines.stage import ingest_in_engine  # with Ibis, which nothing else asks for

        return ingest_in_engine(
            source,
            contract,
            folder=folder,
            key=workspace.snapshot_key(),
            settings=spark_settings(workspace.root, workspace.values),
            beside=beside,
            lock=lock,
            goes_on=goes_on,
        )


def _missing_spark(workspace: Workspace) -> Problem | None:
    settings = spark_settings(workspace.root, workspace.values)
    allowed = "the Python of an environment with pyspark, as `spark.python` in sudare.toml"
    if settings is None:
        remedy = f"name it in {workspace.root}/sudare.toml, or leave `engine:` out"
        return Problem("no `spark.python` in this workspace", allowed, remedy)
    try:
        command = [str(settings.python), "-I", "-c", _HAS_PYSPARK]
        there = subprocess.run(command, capture_output=True, check=False)
        found = "" if there.returncode == 0 else f"{settings.python}, which has no pyspark"
    except OSError as error:
        found = f"{settings.python}: {error.strerror}"
    return Problem(found, allowed, "correct `spark.python`") if found else None


SPARK: Final = SparkEngine("Spark")
