"""A kind of product that an installed package registers: three files outside the tree, none inside."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts.plug_ins import PlugInAway
from flows.request import Request, check_recorded
from privacy.grant.queries.kinds import BUILT_IN
from tests.worlds.synthetic_rows import aim

PACKAGE = Path(__file__).parents[1] / "plug_ins" / "row_counts_package"
SCRIPT = """
import json, sys
from pathlib import Path

import pyarrow.parquet as pq
from row_counts.making import RowCountsPlan
from row_counts.spec import RowCountsProduct

from console.main import execute
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec, spec_schema
from flows.request import check_recorded, read_request
from privacy.accounting.events import event_from_json
from privacy.grant.grant import open_grant
from privacy.private_table import snapshot_mark
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Making, making_of
from tasks.records.facts import Outputs
from tasks.records.ledger_facts import gather
from tasks.report import write_files
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import KEYED_HASH, first

folder = Path(sys.argv[1])
world = SyntheticScenario(product="{kind: row_counts, by: ward}", delta="0", formats="[parquet]")
spec, contract, plan, ledger = world.prepared_of(folder, RowCountsPlan)
assert isinstance(spec.product, RowCountsProduct)
key = world.run_key(spec)
mark = snapshot_mark(KEYED_HASH, spec.digest)
ledger.reserve(request_for(spec, contract, plan, run_key=key, snapshot_hash=mark))
making = Making(open_grant(ledger, key), spec, plan, world.snapshot(folder, contract), contract, folder, key)
made = None
for step in making_of("row_counts").steps:
    made = step.make(making, made)
facts = gather(ledger, spec, contract, plan, ledger.allocate_version(key), made, (), first().software)
(folder / "version").mkdir()
(file,) = write_files(facts, folder / "version")
written = pq.read_table(folder / "version" / file.path)
events = [each.body["event"] for each in ledger.entries_of(key) if each.kind == "noise_drawn"]
path = folder / "spec.yaml"
path.write_text(path.read_text().replace("by: ward", "by: wards"))
try:
    read_request(path)
except SpecRefused as refused:
    unknown = refused.findings[0]
path.write_text(path.read_text().replace("by: wards", "by: ward"))
try:
    check_recorded(read_request(path))
except SpecRefused as refused:
    unrecorded = refused.findings[0]
print(json.dumps({
    "columns": written.column_names, "rows": written.num_rows, "drawn": events,
    "charged": [event.to_json() for event in plan.events],
    "unknown": [unknown.field, unknown.remedy], "unrecorded": [unrecorded.field, unrecorded.found],
    "kinds": sorted(json.dumps(spec_schema()).count(name) > 0 for name in ("RowCountsProduct", "TablesProduct")),
}))
sys.exit(execute(["plan", str(path)]))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A process that has the package on its path, as one that installed it."""
    places = os.pathsep.join((str(PACKAGE), str(Path(__file__).parents[2])))
    folder = tmp_path_factory.mktemp("plug-in")
    command = [sys.executable, "-c", SCRIPT, str(folder / "world")]
    kept = {**os.environ, "PYTHONPATH": places}
    return subprocess.run(command, capture_output=True, text=True, env=kept, cwd=folder, check=False)


def answer(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the script's JSON line; where the machine is slow, DuckDB writes a progress bar before it."""
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    return said


@pytest.mark.services
def test_a_package_adds_a_kind_of_product(ended: subprocess.CompletedProcess[str]):
    """It is read, checked, planned, charged, drawn by the grant and written; what is drawn is what is charged."""
    said = answer(ended)
    assert said["drawn"] == said["charged"]
    assert len(said["drawn"]) == 1
    assert said["columns"][:2] == ["ward", "noisy"]
    assert said["rows"] == 4
    assert said["unknown"][0] == "product.by"
    assert "ward" in said["unknown"][1]
    assert said["kinds"] == [True, True]


@pytest.mark.services
def test_sudare_plan_shows_it(ended: subprocess.CompletedProcess[str]):
    assert "counts     of rows by ward" in ended.stdout
    assert "1 draw: ward" in ended.stdout


@pytest.mark.services
def test_a_run_refuses_a_kind_without_a_record_before_it_charges(ended: subprocess.CompletedProcess[str]):
    assert answer(ended)["unrecorded"] == ["product.kind", "kind row_counts, which has no audit record"]


def test_a_run_refuses_a_kind_of_draw_without_a_published_form_before_it_charges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A package registers the query and nothing under `sudare.draws`."""
    request = Request(*aim().prepared(tmp_path / "world")[:3])
    check_recorded(request)
    lone = type("Lone", (), {"kind": "lone"})
    monkeypatch.setattr("privacy.grant.queries.kinds.query_kinds", lambda: (*BUILT_IN, lone))
    with pytest.raises(PlugInAway, match=r"kind of draw 'lone' .*allowed: a form and checks .* sudare.draws"):
        check_recorded(request)
