"""What a package beside the tree registers goes through a whole release: plan, run, verify."""

from importlib.metadata import distribution
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contracts import plug_ins
from contracts.errors import SudareError
from tests.console.conftest import Place, Typed
from tests.worlds.packages import installed
from tests.worlds.tables import CONTRACT, property_yaml

SPEC = """\
release: areas
contract: areas.odcs.yaml
source: {path: SOURCE}
charge: {account: areas, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[area]]}
publish: {to: releases/}
"""
AREA = property_yaml(
    "area",
    "string",
    '{kind: KIND, prefixes: ["10", "80"], letters: 2, other: elsewhere, nulls: {policy: category}, '
    "provenance: {kind: declared}}",
)
ROWS = ["area", *["10115"] * 300, *[" 80331"] * 200, *["99999"] * 100, *['""'] * 50]


def files(place: Place, source: str, kind: str) -> Path:
    folder = place.adult.parent / "areas"
    folder.mkdir()
    terms = "          {unit: {kind: row, scope: block}, adjacency: add_remove}"
    head = {"api": "v3.1.0", "id": "areas", "title": "Areas", "version": "1.0.0", "table": "areas"}
    columns = AREA.replace("KIND", kind)
    contract = CONTRACT.format(**head, description="", privacy=terms, properties=columns)
    (folder / "areas.odcs.yaml").write_text(contract)
    (folder / "areas.yaml").write_text(SPEC.replace("SOURCE", source))
    return folder


def open_account(place: Place, typed: Typed, source: str) -> None:
    people = ("--population", "areas", "--block", "1994", "--unit", "row", "--source", source)
    cap = ("--epsilon", "3", "--calculus", "pure", "--adjacency", "add_remove")
    assert typed("budget", "open", "areas", *people, *cap, at=place.workspace).code == 0


@pytest.mark.usefixtures("served")
def test_a_kind_of_domain_from_a_package_is_planned_run_and_verified(place: Place, typed: Typed, tmp_path: Path):
    """Noisy counts of declared beginnings; and who lacks the package is told the kind in one line."""
    folder = files(place, "areas.csv", "prefixes")
    (folder / "areas.csv").write_text("\n".join(ROWS) + "\n")
    open_account(place, typed, str(folder / "areas.csv"))
    spec, version = str(folder / "areas.yaml"), place.workspace.releases / "areas" / "v1"
    with installed(tmp_path / "site", "prefix_domain", "[sudare.domains]\nprefixes = prefix_domain:PrefixDomain\n"):
        planned = typed("plan", spec, at=place.workspace)
        assert planned.code == 0, planned.err
        ran = typed("run", spec, "--json", at=place.workspace)
        assert ran.code == 0, ran.err
        checked = typed("verify", str(version), at=place.workspace)
        assert checked.code == 0, checked.err + checked.out
        [table] = (version / "data").glob("*.parquet")
        counts = dict(zip(*(pq.read_table(table)[name].to_pylist() for name in ("area", "count")), strict=True))
    assert {label: abs(counts[label] - true) < 60 for label, true in NEAR.items()} == dict.fromkeys(NEAR, True)
    lacking = typed("verify", str(version), at=place.workspace)
    assert lacking.code == 5
    named = [line for line in (lacking.out + lacking.err).splitlines() if "prefixes" in line]
    assert len(named) == 1, lacking.out + lacking.err
    refused = typed("plan", spec, at=place.workspace)
    refused.assert_ended(2, "found:   kind 'prefixes'", "install the package that registers this kind of domain")


NEAR = {"10": 300, "80": 200, "elsewhere": 100, "(null)": 50}
"""Laplace noise of scale 1 is off by 60 with a probability below 1e-26."""


SHELF = """\
[sudare.addresses]
shelf = shelf_address:ShelfAddress
[sudare.sources]
shelf = shelf_address:SOURCE
[sudare.sinks]
shelf = shelf_address:SINK
"""


@pytest.mark.usefixtures("served")
def test_a_kind_of_source_and_of_sink_from_a_package_goes_through_a_release(
    place: Place, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Rows from a shelf, the version on another one; whoever checks it needs no package, who plans it does."""
    folder = files(place, f"shelf://{tmp_path / 'rows'}, credentials: reader", "categories")
    contract = folder / "areas.odcs.yaml"
    contract.write_text(
        contract.read_text().replace('prefixes: ["10", "80"], letters: 2', 'values: ["10115", "80331"]')
    )
    spec = folder / "areas.yaml"
    spec.write_text(spec.read_text().replace("to: releases/", f"to: shelf://{tmp_path / 'copies'}"))
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "rows.csv").write_text("\n".join(ROWS) + "\n")
    version = place.workspace.releases / "areas" / "v1"
    with installed(tmp_path / "site", "shelf_address", SHELF):
        open_account(place, typed, f"shelf://{tmp_path / 'rows'}/")
        assert typed("plan", str(spec), at=place.workspace).code == 0
        monkeypatch.setenv("SUDARE_CREDENTIALS_READER", '{"card": "8"}')
        other = typed("run", str(spec), at=place.workspace)
        assert (other.code, "another card" in other.err) == (2, True), other.err
        monkeypatch.setenv("SUDARE_CREDENTIALS_READER", '{"card": "7"}')
        ran = typed("run", str(spec), at=place.workspace)
        assert ran.code == 0, ran.err
    for there in (version, tmp_path / "copies" / "areas" / "v1"):
        checked = typed("verify", str(there), at=place.workspace)
        assert checked.code == 0, checked.out + checked.err
    refused = typed("plan", str(spec), at=place.workspace)
    refused.assert_ended(2, "an address that begins with 'shelf://'", "install the package that reads it")


@pytest.mark.parametrize(
    ("entry", "says"),
    [("no_such_module:PrefixDomain", "ModuleNotFoundError"), ("prefix_domain:as_tuple", "allowed: a DeclaredDomain")],
)
def test_a_package_that_has_no_domain_is_named(place: Place, typed: Typed, tmp_path: Path, entry: str, says: str):
    """What is registered and cannot be loaded, or is none, is refused with its place."""
    folder = files(place, "areas.csv", "broken")
    with installed(tmp_path / "site", "prefix_domain", f"[sudare.domains]\nbroken = {entry}\n"):
        said = typed("contract", "lint", str(folder / "areas.odcs.yaml"))
    assert said.code == 2
    assert repr(entry) in said.err
    assert says in said.err
    assert "mend or remove the package that registers it" in said.err


def test_files_that_nobody_installed_say_so(monkeypatch: pytest.MonkeyPatch):
    plug_ins._of_the_core.cache_clear()
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: distribution("no-such-package"))
    with pytest.raises(SudareError, match="sudare is not installed"):
        plug_ins.core("sudare.generators")
