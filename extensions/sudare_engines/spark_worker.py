"""The Spark side, run by a Python that has PySpark and nothing of ours: requests in, one JSON line each; answers out.

    {"do": "start", "settings": {...}, ...}        a session, with "secret" elsewhere; answers what it says of itself
    {"do": "open", "files": [...]}                 the source, in this order; answers names and types of its columns
    {"do": "keys", "path": "PATH"}                 the keys that statements name, in one row
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final
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
"""One SQL everywhere, and keys of 64 digits written into no plan. The driver is on this machine."""
SESSION = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}
"""What a session of its own may set on a server."""
EXECUTOR_SECONDS, PROBE_SECONDS = 120, 30
FULL = (
    "a disk of Spark's is full (free some space where its workers spill, `spark.local.dir`, and where the run's "
    "folder lies, then run again)"
)
CAUSES = {
    "No space left on device": FULL,
    "Quota exceeded": FULL,
    "Disk quota exceeded": FULL,
    "Permission denied": "a process of Spark's may not read or write a folder",
}
"""What is told of an error beside its class: fixed words, where Spark's own text has the phrase."""
_OF_FILES: Final = re.compile(r"\bjava\.n?io\.\w[\w.]*Exception: [^\n]*")
KEY, _END = re.compile("[0-9a-fA-F]{64}"), "-- end of the requests --"
SOURCE, STAGE, KEYS = "sudare_source", "sudare_stage", "sudare_keys"
FILE, ROW = "sudare_file", "sudare_row"


class SecretNotTaken(Exception):
    """The other machine does not take the secret, or takes what it should not."""

    def __init__(self, strangers: list[str]) -> None:
        super().__init__("refused")
        self.strangers = strangers


def started(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Start or reach Spark with our settings, where what was given wins; return the session and what it says."""
    options = {**SETTINGS, **request["settings"]}
    if "remote" in request:
        return connected(request)
    strangers = [] if "secret" not in request else met(request, options)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sudare")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    return spark, {} if "secret" not in request else said(spark, request, strangers)


def met(request: dict[str, Any], options: dict[str, str]) -> list[str]:
    """Start Java, and try the master's door with the secret, with a wrong one, and with none; return who else got in.

    Java finds the secret in its environment, which its own user alone can read. It never passes the pipe between
    Python and Java, which is a socket in clear, nor a command line; executors never get it from us.
    """
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(options.items())))
    java, address = SparkContext._jvm, request["address"]
    clear = {name: value for name, value in options.items() if not name.startswith(("spark.auth", "spark.network"))}
    doors = (
        ("", options, None),
        ("without a secret", clear, None),
        ("with a wrong secret", options, os.urandom(32).hex()),
    )
    # A door that stays shut is known by its silence alone, so all are tried at once.
    with ThreadPoolExecutor(len(doors)) as pool:
        opened = list(pool.map(lambda door: met_by(java, address, door[1], door[2]), doors))
    strangers = [who for (who, _, _), opens in zip(doors, opened, strict=True) if who and opens]
    if strangers or not opened[0]:
        raise SecretNotTaken(strangers)
    return strangers


def met_by(java: Any, address: list[Any], options: dict[str, str], secret: str | None = None) -> bool:
    """Say whether a master answers a process with these settings, and a secret in place of the environment's."""
    from py4j.protocol import Py4JJavaError

    spark = java.org.apache.spark
    conf = spark.SparkConf(False)
    patience = dict.fromkeys(
        ("spark.network.timeout", "spark.rpc.lookupTimeout", "spark.rpc.askTimeout"), f"{PROBE_SECONDS}s"
    )
    for name, value in {**options, **patience}.items():
        conf.set(name, value)
    file = getattr(spark.SecurityManager, "$lessinit$greater$default$3")()
    manager = spark.SecurityManager(conf, java.scala.Option.empty(), file)
    if secret is not None:
        # A field that Spark itself fills asks no setting and no variable: it is looked at first.
        field = manager.getClass().getDeclaredField("secretKey")
        field.setAccessible(True)
        field.set(manager, secret)
    process = spark.rpc.RpcEnv.create("sudare", options["spark.driver.host"], 0, conf, manager, True)
    try:
        process.setupEndpointRef(spark.rpc.RpcAddress(*address), "Master")
    except Py4JJavaError:
        return False
    finally:
        process.shutdown()
    return True


def connected(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Reach a Connect server, which must turn a wrong token away."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.client.retries import DefaultPolicy

    def met(token: str) -> bool:
        # A client without a session: the first session of a process is asked for settings ever after.
        client = SparkConnectClient(connection=request["remote"] + token)
        client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
        try:
            return bool(client._analyze(method="spark_version").spark_version)
        except PySparkException:
            return False
        finally:
            client.close()

    strangers = ["with a wrong token"] if met(os.urandom(32).hex()) else []
    if not met(request["secret"]):
        raise SecretNotTaken(strangers)
    spark = SparkSession.builder.remote(request["remote"] + request["secret"]).create()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=5000)])
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    return spark, said(spark, request, strangers)


def said(spark: Any, request: dict[str, Any], strangers: list[str]) -> dict[str, Any]:
    """Return what a running session on other machines says of its settings, and of those of its executors."""
    if "remote" in request:
        of: Callable[[str], Any] = lambda name: spark.conf.get(name, None)  # noqa: E731 - or it is the session's own
    else:
        until, tracker = monotonic() + EXECUTOR_SECONDS, spark.sparkContext._jsc.sc().statusTracker()
        while len(tracker.getExecutorInfos()) < 2:
            if monotonic() > until:
                raise TimeoutError(f"no executor within {EXECUTOR_SECONDS} s")
            sleep(0.2)
        of = spark.sparkContext.getConf().get
    master = of("spark.master")
    executors: list[dict[str, Any]] = []
    if not str(master).startswith("local"):
        asked = ", ".join(
            f"reflect('java.lang.System', 'getProperty', '{name}') AS s{place}"
            for place, name in enumerate(request["says"])
        )
        rows = spark.sql(f"SELECT DISTINCT {asked} FROM range(0, 16, 1, 16)").collect()
        executors = [dict(zip(request["says"], row, strict=True)) for row in rows]
    return {
        "master": master,
        "session": {name: of(name) for name in request["says"]},
        "executors": executors,
        "wanted": {name: [value, spark.conf.get(name, None)] for name, value in SESSION.items()},
        "strangers": strangers,
    }


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


def without_keys(text: str, secret: str = "") -> str:
    """Return a text in which every key of 64 digits is struck out, and the secret of the place."""
    for each in {secret, unquote(secret)} - {""}:
        text = text.replace(each, "*" * 8)
    return KEY.sub("*" * 8, text)


def cause(text: str) -> str:
    """Return what may be told of an error's text: words of ours, never its own; of what Java says of its files alone.

    Elsewhere the text may quote a row.
    """
    said = " ".join(_OF_FILES.findall(text))
    return next((f": {words}" for phrase, words in CAUSES.items() if phrase in said), "")


class KeysStruckOut:
    """Standard error of this process, and of the Java that it starts, passed on line by line without keys."""

    def __init__(self) -> None:
        self._file = os.dup(2)
        self._read, write = os.pipe()
        os.dup2(write, 2)
        os.close(write)
        self._ended, self.secret = Event(), ""
        Thread(target=self._pass_on, daemon=True).start()

    def say(self, text: str) -> None:
        """Write a text of our own."""
        os.write(self._file, without_keys(text, self.secret).encode())

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
                    os.write(self._file, without_keys(line, self.secret).encode())


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
        case "keys":
            spark.read.parquet(request["path"]).createOrReplaceTempView(KEYS)
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
                errors.secret = request.get("secret", "")
                spark, about = started(request)
                told: dict[str, Any] = {"answer": {"version": spark.version, **about}}
            else:
                told = {"answer": answer(spark, request)}
        except SecretNotTaken as refused:
            errors.say(traceback.format_exc())
            told = {"refused": refused.strangers}
        except Exception as error:  # noqa: BLE001 - whatever Spark says may quote a row
            text = traceback.format_exc()
            errors.say(text)
            told = {"error": type(error).__name__ + cause(text)}
        answers.write(json.dumps(told) + "\n")
        answers.flush()
    if spark is not None:
        spark.stop()
    errors.end()


if __name__ == "__main__":
    main()
