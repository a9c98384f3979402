"""Fifty readers while five runs publish: no error, and nobody ever sees half a version."""

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.grant.grant import open_grant
from privacy.ledger.terms import AccountTerms, VersionEntry
from sudare_web.serve import make_site
from tasks.publish import publish
from tasks.storage.workspace.settings import Workspace
from tests.extensions.sudare_web.site.conftest import serving
from tests.privacy.ledger.ledgers import bind, laplace, request

pytestmark = pytest.mark.services

READERS, RUNS, VERSIONS = 50, 5, 2
PAUSE = 0.05
"""Of a reader between two looks, so that the runs get on [seconds]."""
PAGES = ("/", "/accounts", "/account?name=people-2024", "/journal", "/checkpoints", "/health")


def write(folder: Path, version: VersionEntry) -> None:
    """Write the files of a version, some of them large enough that writing takes a while."""
    (folder / "data").mkdir()
    for number in range(8):
        (folder / "data" / f"{number}.csv").write_bytes(bytes([65 + number]) * 200_000)
    contract = {"unit": {"kind": "row", "column": None, "scope": "block"}}
    replay = {
        "claim": {"epsilon": 0, "delta": 0},
        "contract": contract,
        "rows_per_unit": 1,
        "adjacency": "add_remove",
    }
    record = {"release": version.release, "version": version.number}
    stated = replay | {"rows_per_unit": 1, "charge": {"account": "people-2024"}}
    (folder / "record.json").write_text(json.dumps(record | {"replay": stated}))


def publish_versions(workspace: Workspace, release: str) -> None:
    """Charge, open, draw nothing, and publish, again and again."""
    signer = workspace.signer()
    with closing(workspace.open_ledger()) as ledger:
        for number in range(VERSIONS):
            run_key = f"{release}-{number}"
            ledger.reserve(request(run_key, noise=laplace(0.01), release=release, spec_digest=f"{number:064}"))
            open_grant(ledger, run_key)
            # nothing is in these folders that could be verified: what is tested is when readers see them
            publish(ledger, signer, run_key, workspace.releases, write, check=lambda *_: None)


class Reader:
    """One reader: goes through the site with a connection of its own, and notes what must not be."""

    def __init__(self, url: str, wrong: list[str]) -> None:
        self._address, self._wrong, self.seen = urlsplit(url).netloc, wrong, 0

    def read(self, done: Callable[[], bool], seed: int) -> int:
        """Read until the runs have ended, and once more after that."""
        chance = random.Random(seed)
        with closing(HTTPConnection(self._address, timeout=120)) as connection:
            last = False
            while not last:
                last = done()
                self._ask(connection, chance.choice(PAGES))
                for line in self._json(connection, "/api/releases")["releases"]:
                    if chance.random() < 0.4:
                        self._release(connection, line["release"], line["newest"]["version"], chance)
                time.sleep(PAUSE)
        return self.seen

    def _release(self, connection: HTTPConnection, release: str, newest: int, chance: random.Random) -> None:
        versions = self._json(connection, f"/api/releases/{release}")["versions"]
        if newest not in [each["version"] for each in versions] or any(e["standing"] != "whole" for e in versions):
            self._wrong.append(f"{release}: {versions}")
        version = chance.choice(versions)["version"]
        self._ask(connection, f"/releases/{release}/v{version}")
        files = self._json(connection, f"/api/releases/{release}/v{version}/files")["files"]
        if len(files) != 11:
            self._wrong.append(f"{release} v{version}: {len(files)} files")
        each = chance.choice(files)
        content = self._ask(connection, f"/releases/{release}/v{version}/files/{each['name']}")
        if each["sha256"] not in (None, hashlib.sha256(content).hexdigest()):
            self._wrong.append(f"{release} v{version}: {each['name']}")

    def _json(self, connection: HTTPConnection, path: str) -> Any:
        return json.loads(self._ask(connection, path))

    def _ask(self, connection: HTTPConnection, path: str) -> bytes:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        self.seen += 1
        if answer.status != 200:
            self._wrong.append(f"{path}: {answer.status}")
        return content


def test_fifty_readers_see_whole_versions_only_while_five_runs_publish(tmp_path: Path):
    """Every answer is 200, every version that is shown has all its files, and each file hashes to what is stated."""
    workspace = Workspace.create(tmp_path / "w")
    with closing(workspace.open_ledger()) as ledger:
        ledger.open_account(
            AccountTerms("people-2024", "people", "2024", "row", "add_remove", PureCalculus(), 3 * PICO, 0)
        )
        bind(ledger, "2024")
    ended, wrong = threading.Event(), list[str]()
    with serving(make_site(workspace)) as served, ThreadPoolExecutor(READERS) as pool:
        reading = [pool.submit(Reader(served.url, wrong).read, ended.is_set, seed) for seed in range(READERS)]
        with ThreadPoolExecutor(RUNS) as runs:
            publishing = [runs.submit(publish_versions, workspace, f"release-{number}") for number in range(RUNS)]
        ended.set()
        for each in publishing:
            each.result()
        asked = sum(each.result() for each in reading)
    assert wrong == []
    assert asked > READERS * 5
    assert len(list(workspace.releases.glob("*/v*/MANIFEST.json"))) == RUNS * VERSIONS
