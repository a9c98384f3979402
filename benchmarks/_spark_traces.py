"""Values that no contract names, planted in a few rows, and where they are looked for: packets, files and web pages.

A contract names its categories and the ends of its bins, so these stand in statements, plans and records. A text that
fits no category, an exact income and a key are known from the rows or the workspace alone: wherever one of them is
read, a row or a key has leaked.
"""

from __future__ import annotations

import json
import socket
import struct
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._platform_data import CATEGORIES, INCOME, NUMBERS
from benchmarks._spark_cluster import SparkProcesses

FILE: Final = "planted.parquet"
TEXTS_PER_COLUMN: Final = 4


@dataclass(frozen=True)
class Planted:
    """What was planted.

    Args:
        texts: values of columns of categories, none of which is one.
        incomes: numbers inside the bins of `income`, with seven digits that no bin has.
    """

    texts: tuple[str, ...]
    incomes: tuple[float, ...]

    @classmethod
    def drawn(cls, source: Random) -> Planted:
        """Draw values that no other run has."""
        number = len(CATEGORIES) * TEXTS_PER_COLUMN
        texts = tuple(f"planted-{source.getrandbits(64):016x}" for _ in range(number))
        return cls(texts, tuple(round(source.uniform(*INCOME[:2]), 7) for _ in texts))

    def write(self, folder: Path) -> None:
        """Write a Parquet file of a row a value, in the place of an earlier one."""
        rows = len(self.texts)
        columns: dict[str, pa.Array] = {
            name: pa.array(
                [text if each % len(CATEGORIES) == place else None for each, text in enumerate(self.texts)]
            )
            for place, name in enumerate(CATEGORIES)
        }
        columns |= {name: pa.array([low] * rows, pa.int32()) for name, (low, _, _) in NUMBERS.items()}
        columns |= {"income": pa.array(self.incomes, pa.float64()), "since": pa.nulls(rows, pa.date32())}
        pq.write_table(pa.table(columns), folder / FILE)

    @property
    def forms(self) -> dict[str, bytes]:
        """How each would be written: texts and digits, and numbers as the eight bytes of either order."""
        found = in_utf8((*self.texts, *map(repr, self.incomes)))
        for income in self.incomes:
            found |= {f"{income!r}, {order}": struct.pack(f"{order}d", income) for order in "<>"}
        return found


def in_utf8(texts: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of each text."""
    return {each: each.encode() for each in texts}


def found_in(looked: Mapping[str, bytes], forms: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return where each form stands, by its name; forms that stand nowhere are left out."""
    places = {name: [place for place, text in looked.items() if form in text] for name, form in forms.items()}
    return {name: each for name, each in places.items() if each}


def send_on_loopback(text: str) -> None:
    """Send a text that whoever listens must hear."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), ("127.0.0.1", 9))


def written(folder: Path, *, but: str = "\0") -> dict[str, bytes]:
    """Read every file below a folder: logs, event logs, shuffle and spill files; `but` leaves out paths with it."""
    files = [path for path in folder.rglob("*") if path.is_file() and but not in str(path)]
    return {str(path): path.read_bytes() for path in files}


def pages(processes: SparkProcesses) -> dict[str, bytes]:
    """Fetch what the web pages of Spark's processes and their REST interfaces show."""
    found: dict[str, bytes] = {}
    for role, port in processes.pages.items():
        base = f"http://127.0.0.1:{port}"
        paths = (
            ["/", "/json/"] if role != "connect" else ["/SQL/", "/connect/", "/environment/", "/jobs/", "/stages/"]
        )
        if role == "connect":
            [app] = json.loads(_fetched(f"{base}/api/v1/applications"))
            api = f"/api/v1/applications/{app['id']}"
            paths += [f"{api}/{what}" for what in ("environment", "jobs", "stages", "executors")]
            paths += [f"{api}/sql?details=true&planDescription=true&length=1000"]
            number = len(json.loads(_fetched(f"{base}{api}/sql?length=1000")))
            paths += [f"/SQL/execution/?id={each}" for each in range(number)]
        found |= {f"{role}{path}": _fetched(f"{base}{path}") for path in paths}
    return found


def _fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: bytes = answer.read()
        return text
