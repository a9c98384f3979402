"""What `sudare verify` loads: the checker, and nothing of what makes releases."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from console.main import IMPORTED
from sudare.entrance import PACKAGES
from tests.worlds.classifiers import dp_sgd
from tests.worlds.statistics import pure
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import Scenario, first
from tests.worlds.versions import publish_version

pytestmark = pytest.mark.services

CHECKED = """
import json, sys
import console.verify, tasks.verify
at_import = sorted(sys.modules)
from console.main import execute
code = execute(["verify", sys.argv[1], "--key", sys.argv[2], "--json"])
print(json.dumps({"code": code, "import": at_import, "run": sorted(sys.modules)}))
"""
OF_THE_PUBLISHER = {*IMPORTED, "alembic", "torch"} - {"pandas"}  # which Arrow loads where it is installed
LOADED_LATER = (
    *("tasks.records.page", "tasks.records.groups", "tasks.verification.fitted.", "tasks.products.tables"),
    *("privacy.generators", "privacy.learning", "privacy.refine.methods", "pyarrow.compute", "jinja2", "scipy"),
)
MOST_AT_THE_START = 155
"""Modules of ours: each costs a millisecond or two, so their number bounds how soon the checker starts."""
CHECKS = {
    "tables": "tasks.products.tables.checks.table_checks",
    "synthetic": "tasks.products.synthetic.row_checks",
    "classifier": "tasks.products.classifier.weight_checks",
    "statistics": "tasks.products.statistics.statistics_checks",
}
SCENARIOS = {"tables": first(), "synthetic": aim(), "classifier": dp_sgd(), "statistics": pure()}


@pytest.mark.parametrize(("kind", "scenario"), SCENARIOS.items())
def test_a_version_is_verified_without_the_libraries_of_the_publisher(kind: str, scenario: Scenario, tmp_path: Path):
    """No database, orchestrator, engine or network is loaded; what renders pages is, once a version gets that far."""
    version = publish_version(scenario, tmp_path / "published", here=True)
    key = tmp_path / "key.pub"
    key.write_text(version.key + "\n")
    command = [sys.executable, "-c", CHECKED, str(version.folder), str(key)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["code"] == 0, ended.stdout
    assert not OF_THE_PUBLISHER & set(said["run"])
    assert not [name for name in said["import"] if name.startswith(LOADED_LATER)]
    assert len([name for name in said["import"] if name.partition(".")[0] in PACKAGES]) <= MOST_AT_THE_START
    assert not {name for name in said["run"] if name.startswith(("flows", "privacy.noise", "privacy.ledger.store"))}
    assert {name for name, module in CHECKS.items() if module in said["run"]} == {kind}
