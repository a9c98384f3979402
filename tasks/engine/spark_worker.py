"""The Spark side, run by a Python that has PySpark and nothing of ours: requests in, one JSON line each; answers out.

    {"do": "open", "files": [...]}                 the source, in this order; answers names and types of its columns
    {"do": "stage", "sql": "...", "to": "PATH"}    keeps what a SELECT over the source gives
    {"do": "attach", "path": "PATH"}               the stage that was kept
    {"do": "query", "sql": "..."}                  answers the rows of a SELECT, which are counts

An error is answered by its class alone; what Spark says of it goes to standard error, which is a private file. The
end of the input is the end of the process.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any
from urllib.parse import unquote, urlsplit

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.redaction.string.regex": "[0-9a-f]{64}",
    "spark.redaction.string.regex": "[0-9a-f]{64}",
}
"""One SQL everywhere, and keys of 64 digits written into no plan. All of Spark is on this machine."""
SOURCE, STAGE = "sudare_source", "sudare_stage"
FILE, ROW = "sudare_file", "sudare_row"


def session(given: dict[str, str]) -> Any:
    """Start Spark with our settings; what was given wins."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sudare")
    for name, value in {**SETTINGS, **given}.items():
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


def answer(spark: Any, request: dict[str, Any]) -> Any:
    """Do what one request asks for."""
    match request["do"]:
        case "open":
            table = spark.read.parquet(*request["files"])
            ordered(table, request["files"]).createOrReplaceTempView(SOURCE)
            return [[field.name, field.dataType.simpleString()] for field in table.schema.fields]
        case "stage":
            spark.sql(request["sql"]).write.parquet(request["to"])
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
            traceback.print_exc()
            told = {"error": type(error).__name__}
        answers.write(json.dumps(told) + "\n")
        answers.flush()
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    main()
