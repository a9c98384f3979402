"""A worker of a cluster whose disk is full: a small file system of its own, where Spark spills what it shuffles."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks._spark_cluster import SECURE, standalone_cluster, start_worker
from benchmarks._spark_place import quick_java
from sudare_engines.spark_settings import SparkSettings
from tests.extensions.sudare_engines.engine_rows import write_people
from tests.extensions.sudare_engines.small_disks import small_disk
from tests.extensions.sudare_engines.spark_releases import make_place

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SECRET = "not-for-anyone-4711-0815"
PYTHON = Path(os.environ.get("SUDARE_SPARK_PYTHON", ""))
ROWS = 40_000


@pytest.mark.usefixtures("prefect_server")
def test_a_full_disk_of_a_worker_costs_nothing_and_the_next_run_completes(
    tmp_path: Path, java: str, monkeypatch: pytest.MonkeyPatch
):
    """The message says what is full, what to do and how the charge stands, and quotes no row; with more room the same
    command publishes, charged once."""
    monkeypatch.setenv("SUDARE_CREDENTIALS_FAR", json.dumps({"secret": SECRET}))
    (tmp_path / "spark").mkdir()
    place = make_place(tmp_path, write_people(tmp_path / "people", rows=ROWS))
    scratch = tmp_path / "spark" / "worker0-scratch"
    with (
        small_disk(scratch, "512k"),
        standalone_cluster(tmp_path / "spark", PYTHON, secret=SECRET, workers=0, java=java) as cluster,
    ):
        start_worker(cluster, "worker0", {**SECURE, "spark.authenticate.secret": SECRET})
        quick = quick_java(tmp_path / "spark" / "python", PYTHON, java)
        place.engine(SparkSettings(quick, f"spark://127.0.0.1:{cluster.port}", "512m", "far"))
        with pytest.raises(AssertionError, match="run ended with 1") as raised:
            place.run("tables", name="full")
        told = str(raised.value)
        assert "a disk of Spark's is full (free some space where its workers spill, `spark.local.dir`" in told
        assert "nothing was charged" in told
        assert "ü" not in told
        [account] = json.loads(place.sudare("budget", "show", "--json", "--workspace", str(place.root)))["accounts"]
        assert account["charges"] == []
        subprocess.run(["mount", "-o", "remount,size=64m", str(scratch)], check=True)
        again = place.run("tables", name="full")
        assert (again["version"], again["repeated"]) == (1, False)
        place.verify(again["folder"])
        [account] = json.loads(place.sudare("budget", "show", "--json", "--workspace", str(place.root)))["accounts"]
        assert len(account["charges"]) == 1
        assert not place.left_behind()
