"""An archive of the classes that Spark loads, with which each later Java starts in about six tenths of the time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks._spark_cluster import JAVA, spark_home

PROGRAM: Final = """\
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.range(100).selectExpr("id", "cast(id % 7 as string) kind", "id * 0.5d value", "current_date day")
rows.write.parquet("rows")
spark.read.parquet("rows").createOrReplaceTempView("people")
ranked = "select *, row_number() over (partition by kind order by sha2(concat(kind, id), 256)) place from people"
spark.sql(f"select kind, day, count(*), sum(value), max(id) from ({ranked}) where place < 9 group by 1, 2").collect()
spark.sql("select a.kind, count(distinct b.value) from people a join people b on a.id = b.id group by 1").collect()
"""


def archived_java(file: Path, python: Path) -> str:
    """Return options of a Java that starts quickly, with an archive of classes that is written where there is none.

    A Java that has no use for the archive would say so on standard output, where Spark reads a command: it is silent.

    Args:
        file: the archive; some 170 MB.
        python: the Python that has PySpark.
    Raises:
        subprocess.CalledProcessError: Spark does not run.
    """
    file = file.absolute()
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=file.parent) as name:
            made, program = Path(name) / file.name, Path(name) / "program.py"
            program.write_text(PROGRAM)
            submit = f"{spark_home(python)}/bin/spark-submit"
            options = {"JAVA_TOOL_OPTIONS": JAVA, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}"}
            subprocess.run(
                [submit, "--master=local[2]", "--conf=spark.log.level=WARN", program],
                env=os.environ | options | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=name,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            made.rename(file)
    return f"{JAVA} -XX:SharedArchiveFile={file} -Xlog:disable"
