"""A Spark worker: a process beside ours that is sent SQL and answers counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from contracts.domains.statements import ValueKind
from contracts.errors import Finding
from contracts.release.source import ENGINES
from contracts.sql.portable.compiler import Dialect
from tasks.storage.engines import spark_worker
from tasks.storage.engines.engine import EngineFailed, EngineNotTrusted
from tasks.storage.engines.engine_process import EngineProcess, scratch_of
from tasks.storage.engines.spark_trust import refused_handshake, start_of, weaknesses
from tasks.storage.workspace.spark_settings import SparkSettings

LOG: Final = "spark.private.log"
_KINDS: Final[dict[str, ValueKind]] = {
    "string": "text",
    "tinyint": "whole",
    "smallint": "whole",
    "int": "whole",
    "bigint": "whole",
    "float": "real",
    "double": "real",
    "boolean": "flag",
    "date": "day",
    "timestamp": "moment",
    "timestamp_ntz": "moment",
    "void": "nothing",
}
_DECIMAL: Final = re.compile(r"decimal\(\d+,\d+\)")


class SparkWorker(EngineProcess):
    """One Spark session in a process of its own, for as long as a run lasts.

    Args:
        settings: where Spark is.
        folder: the run's private folder.
        lock: as for `EngineProcess`.
    Raises:
        EngineFailed: no session could be started.
        EngineNotTrusted: Spark is on other machines, and its session is not authenticated and encrypted.
        SourceUnreadable: there are no credentials of the name that the settings say.
    """

    name: ClassVar[str] = ENGINES["spark"]
    dialect: ClassVar[Dialect] = "pyspark"
    log_name: ClassVar[str] = LOG
    remedy: ClassVar[str] = "Look which Spark `spark.master` in sudare.toml names, and run again"

    def __init__(self, settings: SparkSettings, folder: Path, *, lock: int | None = None) -> None:
        start = start_of(settings, scratch_of(folder))
        command = [str(settings.python), "-I", spark_worker.__file__]
        try:
            super().__init__(command, folder, environment=start.environment, lock=lock)
        except OSError as error:
            allowed, remedy = "the Python of an environment with pyspark", "correct `spark.python` in sudare.toml"
            found = Finding("workspace", "spark.python", error.strerror or "not to be run", allowed, remedy)
            raise EngineFailed(str(found)) from None
        try:
            self._start(settings, start.request)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: SparkSettings, request: Mapping[str, Any]) -> None:
        """Start the session, and let nothing else be asked before it has said how it is guarded."""
        told = self.ask("start", **request)
        if "refused" in told:
            raise refused_handshake(settings, told["refused"])
        found = [] if settings.kind == "local" else weaknesses(settings, told)
        if found:
            raise EngineNotTrusted(found)

    @staticmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of Spark's types, or None."""
        return "fixed" if _DECIMAL.fullmatch(written) else _KINDS.get(written)

    @staticmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the keyed sums in Spark's SQL.

        The CRC-32 of 4 bytes is one to one, so its sums tell as much as those of the bytes read as numbers, which
        Spark takes ten times as long to read (`conv`).
        """
        row = ", ',', ".join(f"CAST({name} AS STRING)" for name in columns)
        digest = f"unhex(sha2(concat(hash_outer, sha2(concat(hash_inner, {row}), 256)), 256))"
        sums = ", ".join(f"sum(crc32(substring(h, {1 + 4 * part}, 4)))" for part in range(8))
        return f"SELECT count(*), {sums} FROM (SELECT {digest} AS h FROM {relation})"
