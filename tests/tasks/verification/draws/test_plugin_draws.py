"""A kind of draw that an installed package registers: published with a fit, stated, told, and verified to the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.services

PACKAGE = Path(__file__).parents[3] / "plug_ins" / "tally_package"
ROOT = Path(__file__).parents[4]
PUBLISH = """
import json, sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.records.record import published_explanation
from tasks.verify import verify
from tests.tasks.verification.forgery import forge, load
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.versions import publish_version

folder = Path(sys.argv[1])
scenario = SyntheticScenario(product="{kind: synthetic, generator: tallied}", delta="0")
version = publish_version(scenario, folder, here=True)
report = version.verify(deep=True)
record = load(version.folder / "record.json")
draw = record["replay"]["draws"][-1]
words = published_explanation(lambda name: (version.folder / name).read_bytes()).values
croissant = load(version.folder / "croissant.json")
found = {}

def broken(name, **changed):
    copy = version.copy(folder / name)
    for part, value in changed.items():
        forge(copy, record=lambda r: r["replay"]["draws"][-1].update({part: value}))
    return copy

def rules(copy):
    said = copy.verify()
    return sorted(check.rule for check in said.checks if check.findings)

found["cell"] = rules(broken("cell", cell=0))
found["kind"] = rules(broken("kind", kind="marginal"))
other = broken("value")
path = other.folder / draw["measurements"]
table = pq.read_table(path)
pq.write_table(pa.Table.from_arrays([pa.array([7])], schema=table.schema), path, compression="zstd")
forge(other)
found["value"] = rules(other)
print(json.dumps({
    "ok": report.ok, "findings": [str(each) for each in report.findings], "draw": draw, "found": found,
    "skipped": [str(each) for check in report.checks for each in check.skipped],
    "measured": words["product.measured"][-1], "entry": words["ledger.draws"][-1],
    "described": [file["description"] for file in croissant["distribution"]],
    "folder": str(version.folder), "key": version.key,
}))
"""
CHECK = """
import json, sys
from tasks.verify import verify

report = verify(__import__("pathlib").Path(sys.argv[1]), public_key=sys.argv[2])
print(json.dumps({"ok": report.ok, "findings": [str(each) for each in report.findings]}))
"""


def answer(script: str, *arguments: str, packages: tuple[Path, ...]) -> dict[str, Any]:
    kept = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*packages, ROOT)))}
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env=kept, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    return said


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answer(PUBLISH, str(tmp_path_factory.mktemp("tally")), packages=(PACKAGE,))


def test_it_is_published_and_verifies_to_the_end(published: dict[str, Any]) -> None:
    """The fit is made again from the published values; nothing is skipped that concerns a draw."""
    assert published["ok"], published["findings"]
    assert not [each for each in published["skipped"] if "tally" in each or "the fit" in each]
    assert (published["draw"]["kind"], published["draw"]["cell"]) == ("tally", 4)
    assert published["measured"]["file"] == published["draw"]["measurements"]
    assert published["entry"]["what"] == "tally"
    assert "A noisy number of rows, as it was drawn." in published["described"]


def test_what_its_checks_ask_is_found(published: dict[str, Any]) -> None:
    """Another cell, another number, and another kind, each signed again by the publisher."""
    assert 6 in published["found"]["cell"]
    assert 8 in published["found"]["value"]
    assert 5 in published["found"]["kind"]


def test_without_the_package_its_kind_is_named(published: dict[str, Any]) -> None:
    said = answer(CHECK, published["folder"], published["key"], packages=())
    assert not said["ok"]
    assert any("tally" in finding for finding in said["findings"]), said["findings"]
