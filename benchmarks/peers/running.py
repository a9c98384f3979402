"""What every peer's script does around the peer: read codes, seed, time one call, write codes and a report."""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

Synthesize = Callable[[pd.DataFrame, dict[str, int], argparse.Namespace], pd.DataFrame]


def main(methods: dict[str, Synthesize], *packages: str) -> None:
    """Run one method on `--data` and `--domain`, write the rows to `--out` and the report to standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", choices=sorted(methods), required=True)
    for name in ("data", "domain", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    asked = parser.parse_args()
    rows, domain = pd.read_parquet(asked.data), json.loads(asked.domain.read_text())
    random.seed(asked.seed)
    np.random.seed(asked.seed)  # noqa: NPY002 (the peers draw from the global generator)
    begun = time.perf_counter()
    with redirect_stdout(sys.stderr):
        made = methods[asked.method](rows[list(domain)], domain, asked)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report = {
        "seconds": round(time.perf_counter() - begun, 2),
        "cpu_seconds": round(sum(used.ru_utime + used.ru_stime for used in usage), 2),
        "peak_gigabytes": round(max(used.ru_maxrss for used in usage) * 1024 / 1e9, 2),
        "versions": {package: version(package) for package in packages},
    }
    made[list(domain)].astype(np.int64).to_parquet(asked.out)
    print(json.dumps(report))
