"""The review site with 10,000 versions and 1,000,000 entries: how long a page takes, and what many readers see.

`sudare serve` runs as a process of its own. One reader asks for each kind of page, every time another version, entry
or search. Then fifty readers ask while five runs of the Adult example publish into the same workspace.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks._ledger_places import ACCOUNT
from benchmarks._site_ledger import ENTRIES, OFTEN, VERSIONS, grow, named
from benchmarks.orchestration import ADULT, SUDARE, release_plainly
from benchmarks.results import Row, machine, write
from console.main import execute
from tasks.storage.workspace.settings import Workspace

REPEATS: Final = 60
TARGET_MS: Final = 300.0
READERS: Final = 50
RUNS: Final = 5
_OFTEN: Final = VERSIONS // 2 // OFTEN  # releases that have many versions
_OPEN: Final = (
    *("budget", "open", "adult-1994", "--population", "adults", "--block", "1994", "--unit", "row"),
    *("--epsilon", "30", "--delta", "1e-9", "--calculus", "renyi", "--adjacency", "add_remove"),
)
Address = Callable[[random.Random], str]


def _version(chance: random.Random) -> str:
    release, version = named(chance.randrange(VERSIONS))
    return f"/releases/{release}/v{version}"


def _survey(chance: random.Random) -> str:
    return f"survey-{chance.randrange(_OFTEN):03d}"


def _before(chance: random.Random) -> int:
    return chance.randrange(1000, ENTRIES)


PAGES: Final[dict[str, Address]] = {
    "releases": lambda c: f"/?after=single-{c.randrange(10_000):05d}",
    "releases, by a part of their name": lambda c: f"/?q={c.randrange(100, 1000)}",
    "releases, by status": lambda c: "/?status=superseded",
    "a release with 200 versions": lambda c: f"/releases/{_survey(c)}",
    "a version": _version,
    "a version's record": lambda c: f"{_version(c)}/files/record.html",
    "a version's tables": lambda c: f"{_version(c)}/tables",
    "a version's files": lambda c: f"{_version(c)}/files",
    "a version's verification": lambda c: f"{_version(c)}/verify",
    "two versions beside each other": lambda c: f"/releases/{_survey(c)}/compare?first={c.randint(1, 99)}&second=200",
    "accounts": lambda c: "/accounts",
    "an account with 10,000 charges": lambda c: f"/account?name={ACCOUNT}",
    "the journal": lambda c: f"/journal?before={_before(c)}",
    "the journal, one kind": lambda c: f"/journal?kind=charge_reserved&before={_before(c)}",
    "the journal, one release": lambda c: f"/journal?release={_survey(c)}&before={_before(c)}",
    "the journal, one account": lambda c: f"/journal?account={ACCOUNT}&before={_before(c)}",
    "the journal, one account and kind": lambda c: f"/journal?account={ACCOUNT}&kind=noise_drawn&before={_before(c)}",
    "the journal, a kind that is rare": lambda c: "/journal?kind=account_opened",
    "an entry with its proof": lambda c: f"/journal/{_before(c)}",
    "checkpoints": lambda c: f"/checkpoints?before={_before(c)}",
    "health": lambda c: "/health",
}


def main() -> None:
    """Measure and write results/site.json."""
    with TemporaryDirectory() as folder:
        workspace = _make(Path(folder))
        with _served(workspace) as url:
            settings = machine("fastapi", "uvicorn", "sqlalchemy")
            settings |= {"versions": VERSIONS, "entries": ENTRIES, "repeats": REPEATS, "database": "SQLite"}
            rows = [_page(url, what, address, settings) for what, address in PAGES.items()]
            rows += _crowd(url, workspace, Path(folder), settings)
    write("site", rows)


def _make(folder: Path) -> Workspace:
    """Make the workspace; its versions are copies of one real version of the Adult example."""
    workspace = Workspace.create(folder / "w")
    grow(workspace, _published(folder / "model"))
    at = ("--workspace", str(workspace.root))
    shutil.copytree(ADULT, folder / "adult")
    _checked(execute([*_OPEN, "--source", str(folder / "adult" / "adult.parquet"), *at]))
    return workspace


def _published(folder: Path) -> Path:
    """Publish the Adult example into a workspace of its own; return the version's folder."""
    model = Workspace.create(folder / "w")
    shutil.copytree(ADULT, folder / "adult")
    source = str(folder / "adult" / "adult.parquet")
    _checked(execute([*_OPEN, "--source", source, "--workspace", str(model.root)]))
    release_plainly(folder / "adult" / "tables.yaml", model.root)
    return model.releases / "adult-tables" / "v1"


def _checked(code: int) -> None:
    if code:
        raise SystemExit(code)


@contextmanager
def _served(workspace: Workspace) -> Iterator[str]:
    """Run `sudare serve` inside the block; yield its address."""
    words = [*SUDARE, "serve", "--port", "0", "--json", "--workspace", str(workspace.root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        told, output = "", process.stdout
        while output is not None and not told.endswith("}\n"):
            told += output.readline()
        try:
            yield json.loads(told)["url"]
        finally:
            process.terminate()


def _page(url: str, what: str, address: Address, settings: dict[str, Any]) -> Row:
    """Time one kind of page."""
    chance, taken = random.Random(what), []
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        for repeat in range(-3, REPEATS):
            began = perf_counter()
            connection.request("GET", address(chance))
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"{what}: {answer.status}")
            if repeat >= 0:
                taken.append(1000 * (perf_counter() - began))
    slow = _percentile(taken, 95)
    own = {**settings, "median": round(_percentile(taken, 50), 1), "slowest": round(max(taken), 1)}
    return Row(f"{what}: 95th percentile", round(slow, 1), "ms", TARGET_MS, slow < TARGET_MS, settings=own)


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, percent * len(values) // 100)]


# --- many readers -----------------------------------------------------------------------------------------------


def _crowd(url: str, workspace: Workspace, folder: Path, settings: dict[str, Any]) -> list[Row]:
    """Let fifty readers read while five runs publish."""
    ended, wrong, taken = threading.Event(), list[str](), list[float]()
    with ThreadPoolExecutor(READERS) as readers:
        reading = [readers.submit(_read, url, ended, wrong, taken, seed) for seed in range(READERS)]
        runs = [_run(folder, workspace, number) for number in range(RUNS)]
        codes = [run.wait() for run in runs]
        ended.set()
        for each in reading:
            each.result()
    own = {**settings, "readers": READERS, "runs": RUNS, "requests": len(taken), "wrong": list(wrong[:5])}
    what = f"{READERS} readers while {RUNS} runs publish"
    return [
        Row(f"{what}: errors and half versions", len(wrong), "answers", 0, not wrong, settings=own),
        Row(f"{what}: runs that published", codes.count(0), "runs", RUNS, codes.count(0) == RUNS, settings=own),
        Row(f"{what}: 95th percentile", round(_percentile(taken, 95), 1), "ms", settings=own),
        Row(f"{what}: answers", round(len(taken)), "answers", settings=own),
    ]


def _run(folder: Path, workspace: Workspace, number: int) -> subprocess.Popen[bytes]:
    """Start a run of the Adult example, as a release of its own."""
    spec = folder / "adult" / f"crowd-{number}.yaml"
    text = (ADULT / "tables.yaml").read_text().replace("release: adult-tables", f"release: crowd-{number}")
    spec.write_text(text)
    command = [sys.executable, "-m", "benchmarks.orchestration", "plain", str(spec), str(workspace.root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _read(url: str, ended: threading.Event, wrong: list[str], taken: list[float], seed: int) -> None:
    """Read until the runs have ended, and once more: any page, and the versions that the runs publish."""
    chance = random.Random(seed)
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=300)) as connection:

        def ask(path: str) -> bytes:
            began = perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.read()
            taken.append(1000 * (perf_counter() - began))
            if answer.status != 200:
                wrong.append(f"{path}: {answer.status}")
            return content

        last = False
        while not last:
            last = ended.is_set()
            ask(chance.choice(list(PAGES.values()))(chance))
            for line in json.loads(ask("/api/releases?q=crowd"))["releases"]:
                _look(ask, f"/releases/{line['release']}/v{line['newest']['version']}", wrong)


def _look(ask: Callable[[str], bytes], version: str, wrong: list[str]) -> None:
    """Look at a version that is shown: it must be whole."""
    ask(version)
    told = json.loads(ask(f"/api{version}/files"))
    files = {each["name"]: each["sha256"] for each in told["files"]}
    if told["standing"] != "whole" or not {"record.json", "record.html", "PROOF.json"} <= set(files):
        wrong.append(f"{version}: {told['standing']}, {len(files)} files")
    elif hashlib.sha256(ask(f"{version}/files/record.json")).hexdigest() != files["record.json"]:
        wrong.append(f"{version}: record.json")


if __name__ == "__main__":
    main()
