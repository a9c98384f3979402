"""ClickHouse's side, run by a Python that has chdb and uses nothing of ours: the requests of `spark_worker`.

ClickHouse reads Parquet files of this machine and writes the stage as one more. It has no server, no port, and no
log but standard error, which is a private file.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

SETTINGS = {
    "precise_float_parsing": 1,
    "session_timezone": "'UTC'",
    "joined_subquery_requires_alias": 0,
    "count_distinct_implementation": "'uniqExact'",
    "output_format_json_quote_64bit_integers": 0,
    "output_format_parquet_string_as_string": 1,
    "schema_inference_make_columns_nullable": 1,
    "max_query_size": 1 << 26,
    "max_ast_elements": 1 << 20,
    "max_expanded_ast_elements": 1 << 21,
    "max_threads": os.cpu_count() or 1,
}
"""The nearest double of a text, exact distinct counts, and numbers as JSON numbers."""
SOURCE, STAGE, KEYS = "sudare_source", "sudare_stage", "sudare_keys"
FILE, ROW, PART = "sudare_file", "sudare_row", "part-0.parquet"


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class ClickHouseSession:
    """A session of chdb in a folder of the run.

    Args:
        folder: where ClickHouse keeps what it keeps.
    """

    def __init__(self, folder: str) -> None:
        from chdb.session import Session

        place = Path(folder) / "clickhouse"
        place.mkdir(mode=0o700, exist_ok=True)
        self._session: Any = Session(str(place))
        for name, value in SETTINGS.items():
            self._session.query(f"SET {name} = {value}")

    def rows(self, sql: str) -> list[list[Any]]:
        """Return the rows of a SELECT."""
        told = json.loads(str(self._session.query(sql, "JSONCompact")))
        if "exception" in told:
            raise RuntimeError(told["exception"])
        rows: list[list[Any]] = told["data"]
        return rows

    def view(self, name: str, select: str) -> None:
        """Let a name stand for a SELECT."""
        self._session.query(f"CREATE OR REPLACE VIEW {name} AS {select}")

    def open(self, files: list[str]) -> list[list[str]]:
        """Take files as the source, in this order; return names and types of their columns."""
        place = f"AS {FILE}, toInt64(_row_number) AS {ROW}"
        parts = [
            f"SELECT *, toInt64({number}) {place} FROM file({literal(file)}, 'Parquet')"
            for number, file in enumerate(files)
        ]
        self.view(SOURCE, " UNION ALL ".join(parts))
        return [[name, kind] for name, kind, *_ in self.rows(f"DESCRIBE {SOURCE}")]

    def stage(self, sql: str, to: str) -> int:
        """Keep what a SELECT over the source gives in a folder; return how many rows the file says that it has."""
        Path(to).mkdir(mode=0o700)
        file = f"file({literal(f'{to}/{PART}')}, 'Parquet')"
        self._session.query(f"INSERT INTO FUNCTION {file} {sql}")
        [[written]] = self.rows(f"SELECT toInt64(num_rows) FROM file({literal(f'{to}/{PART}')}, 'ParquetMetadata')")
        return int(written)


def answer(session: ClickHouseSession, request: dict[str, Any]) -> Any:
    """Do what one request asks for."""
    match request["do"]:
        case "open":
            return session.open(request["files"])
        case "keys":
            session.view(KEYS, f"SELECT * FROM file({literal(request['path'])}, 'Parquet')")
        case "stage":
            return session.stage(request["sql"], request["to"])
        case "attach":
            session.view(STAGE, f"SELECT * FROM file({literal(request['path'] + '/' + PART)}, 'Parquet')")
        case "query":
            return session.rows(request["sql"])
        case other:
            raise ValueError(f"unknown request {other!r}")
    return None


def main() -> None:
    """Answer requests until the input ends; standard output is for answers alone."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    session = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["do"] == "start" or session is None:
                session = ClickHouseSession(request["folder"])
                told: dict[str, Any] = {"answer": {}}
            else:
                told = {"answer": answer(session, request)}
        except Exception as error:  # noqa: BLE001 - whatever ClickHouse says may quote a row
            traceback.print_exc()
            told = {"error": type(error).__name__}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
