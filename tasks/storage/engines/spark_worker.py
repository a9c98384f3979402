"""The Spark side, run by a Python that has PySpark and nothing of ours: requests in, one JSON line each; answers out.

    {"do": "open", "files": [...]}                 the source, in this order; answers names and types of its columns
    {"do": "stage", "sql": "...", "to": "PATH"}    keeps what a SELECT over the source gives; answers how many rows
    {"do": "attach", "path": "PATH"}               the stage that was kept
    {"do": "query", "sql": "..."}                  answers the rows of a SELECT, which are counts

An error is answered by its class alone; what Spark says of it goes to standard error, which is a private file, but
for the keys that SQL holds. The end of the input is the end of the process.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.hadoop.fs.defaultFS": "file:/",
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.redaction.string.regex": "[0-9a-f]{64}",
    "spark.redaction.string.regex": "[0-9a-f]{64}",
}
"""One SQL everywhere, and keys of 64 digits written into no plan. All of Spark is on this machine."""
KEY, _END = re.compile("[0-9a-fA-F]{64}"), "-- end of the requests --"
SOURCE, STAGE = "sudare_source", "sudare_stage"
FILE, ROW = "sudare_file", "sudare_row"


def session(options: dict[str, str]) -> Any:
    """Start Spark with our settings; what was given wins."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sudare")
    for name, value in {**SETTINGS, **options}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def ordered(table: Any, files: list[str]) -> Any:
    """Return a table read from files with the place of each row: of its file in the list, and in its file."""
    from pyspark.sql import functions

    uri = functions.col("_metadata.file_path")
    written = {unquote(urlsplit(row[0]).path): row[0] for row in table.select(uri).distinct().collect()}
    places = [(written[file], number) for number, file in enumerate(files) if file in written]
    if len(places) < len(written):
        raise ValueError("files that were not asked for")
    number = functions.raise_error(functions.lit("a row of no file")).cast("int")
    if places:
        known = functions.create_map(*(functions.lit(each) for place in places for each in place))
        number = functions.coalesce(known[uri], number)
    return table.select("*", number.alias(FILE), functions.col("_metadata.row_index").alias(ROW))


def without_keys(text: str) -> str:
    """Return a text in which every key of 64 digits is struck out."""
    return KEY.sub("*" * 8, text)


class KeysStruckOut:
    """Standard error of this process, and of the Java that it starts, passed on line by line without keys."""

    def __init__(self) -> None:
        self._file = os.dup(2)
        self._read, write = os.pipe()
        os.dup2(write, 2)
        os.close(write)
        self._ended = Event()
        Thread(target=self._pass_on, daemon=True).start()

    def say(self, text: str) -> None:
        """Write a text of our own."""
        os.write(self._file, without_keys(text).encode())

    def end(self) -> None:
        """Wait until everything that was said so far is written; Java may have more to say."""
        os.write(2, f"\n{_END}\n".encode())
        self._ended.wait(5)

    def _pass_on(self) -> None:
        with os.fdopen(self._read, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip() == _END:
                    self._ended.set()
                else:
                    os.write(self._file, without_keys(line).encode())


def written(table: Any, to: str) -> int:
    """Write a table and return how many rows went into the files, counted by the tasks that wrote them."""
    from pyspark.sql import Observation, functions

    seen = Observation("written")
    table.observe(seen, functions.count(functions.lit(1)).alias("rows")).write.parquet(to)
    return int(seen.get["rows"])


def answer(spark: Any, request: dict[str, Any]) -> Any:
    """Do what one request asks for."""
    match request["do"]:
        case "open":
            table = spark.read.parquet(*request["files"])
            ordered(table, request["files"]).createOrReplaceTempView(SOURCE)
            return [[field.name, field.dataType.simpleString()] for field in table.schema.fields]
        case "stage":
            return written(spark.sql(request["sql"]), request["to"])
        case "attach":
            spark.read.parquet(request["path"]).createOrReplaceTempView(STAGE)
        case "query":
            return [list(row) for row in spark.sql(request["sql"]).collect()]
        case other:
            raise ValueError(f"unknown request {other!r}")
    return None


def main() -> None:
    """Answer requests until the input ends; standard output is for answers alone."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    errors = KeysStruckOut()
    os.dup2(2, 1)
    spark = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["do"] == "start":
                spark = session(request["settings"])
                told: dict[str, Any] = {"answer": spark.version}
            else:
                told = {"answer": answer(spark, request)}
        except Exception as error:  # noqa: BLE001 - whatever Spark says may quote a row
            errors.say(traceback.format_exc())
            told = {"error": type(error).__name__}
        answers.write(json.dumps(told) + "\n")
        answers.flush()
    if spark is not None:
        spark.stop()
    errors.end()


if __name__ == "__main__":
    main()
