"""Sites that join a federation: with the coordinator's own plan, and credentials that their workspace leads to."""

import os
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from console.check import SiteStaysAway, site_accepted
from contracts.release.federation_spec import load_site
from flows.federation.federated_run import SiteNetwork, coordinate
from flows.federation.flower_sites import FlowerSites
from flows.federation.site import OTHER_PLAN, SiteService, joined
from flows.periods.clock import ClockAhead
from privacy.federation import plans as summing_plan
from tasks.federation import flower as sockets
from tasks.federation.flower import packed, unpacked
from tasks.validation.misfits import ColumnMisfits, Misfits
from tests.worlds.federated_runs import known_of
from tests.worlds.federations import GENERATOR, a_coordinator, a_site, drawn, ledger_of


@pytest.mark.services
def test_a_site_that_works_out_another_plan_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The coordinator's version leaves its sums other headroom, so that the units, and the noise, are others."""
    path, workspace = a_site(tmp_path / "north", "north", federation=GENERATOR)
    spec_path, _ = a_coordinator(tmp_path / "c", federation=GENERATOR)
    same = known_of(spec_path)
    monkeypatch.setattr(summing_plan, "HEADROOM", 4096)
    other, told = known_of(spec_path), list[str]()
    assert [name for name, own in same.digests.items() if other.digests[name] != own] == ["plan"]
    monkeypatch.undo()
    mine, spec = load_site(path)
    with joined(mine, spec, workspace) as site:
        answer, address = SiteService(site, told.append), tmp_path / "s"

        def link(message: bytes) -> bytes:
            north = unpacked(answer(packed(unpacked(message)[0]["message"])))[0]
            return packed({"told": {"north": north, "east": {"mark": "m"}, "south": {"mark": "m"}}})

        for known, absent in ((same, {}), (other, {"north": OTHER_PLAN})):
            with sockets.answering(address, link), sockets.Client(str(address), "AF_UNIX") as line:
                assert FlowerSites(line, known, seconds=1, running=()).join(seconds=1) == absent
        call = {"op": "round", "number": 0, "attempt": "0" * 16}
        assert unpacked(answer.masked(packed({**call, **other.digests})))[0] == {"refused": OTHER_PLAN}
        without = {name: own for name, own in same.digests.items() if name != "plan"}
        assert unpacked(answer.masked(packed({**call, **without})))[0] == {"refused": OTHER_PLAN}
        assert drawn(workspace) == []
        assert "largest" in unpacked(answer.masked(packed({**call, **same.digests})))[0]
    assert any("another plan" in said and "same version of Sudare" in said for said in told)


class Refusing(BaseHTTPRequestHandler):
    """A Prefect server that lets nobody look, and remembers what was asked of it."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(403)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.mark.services
def test_a_site_looks_for_a_block_at_the_server_that_its_workspace_names(tmp_path: Path):
    """In a process of its own, as Prefect reads its settings once; nothing in the environment names the server."""
    path, workspace = a_site(tmp_path / "north", "north")
    elsewhere = "path: postgresql://db.example/wards, table: stays, credentials: store"
    path.write_text(path.read_text().replace("path: stays.csv", elsewhere))
    code = (
        "import sys; from pathlib import Path; from contracts.release.federation_spec import load_site\n"
        "from flows.federation.site import joined; from tasks.storage.workspace.settings import Workspace\n"
        "with joined(*load_site(Path(sys.argv[1])), Workspace.open(Path(sys.argv[2]))): pass"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/api"
        (workspace.root / "sudare.toml").write_text(f'[prefect]\napi_url = "{url}"\n')
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(workspace.root)],
            env=environment | {"PREFECT_HOME": str(tmp_path / "prefect"), "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        server.shutdown()
    assert "a Prefect server that refuses to look for the block 'store'" in done.stderr, done.stderr
    assert any("/block_documents/name/store" in asked for asked in Refusing.asked)


def test_a_site_shows_its_operator_how_its_rows_fit_before_it_pays(tmp_path: Path):
    """Counted and written down at the site alone; after a no nothing is charged or entered; who paid is not asked."""
    path, workspace = a_site(tmp_path / "north", "north")
    source = tmp_path / "north" / "stays.csv"
    source.write_text(source.read_text() + "41,Z,no\n" * 50)
    mine, spec = load_site(path)
    seen: list[tuple[Misfits, Path]] = []

    def refuse(found: Misfits, page: Path) -> None:
        seen.append((found, page))
        raise SiteStaysAway(page)

    with pytest.raises(SiteStaysAway, match="nothing was charged"), joined(mine, spec, workspace, look=refuse):
        pass
    [(found, page)] = seen
    assert {each.column: each.unfit for each in found.columns} == {"age": 0, "ward": 50, "long": 0}
    assert [each.column for each in found.above(workspace.asks_above)] == ["ward"]
    assert page.is_relative_to(workspace.private)
    assert page.stat().st_mode & 0o077 == 0
    with closing(ledger_of(workspace)) as ledger:
        assert ledger.account("north-2026").spent == 0
        assert {entry.kind for entry in ledger.journal()} == {"ledger_created", "account_opened", "source_bound"}
    with joined(mine, spec, workspace, look=lambda found, page: seen.append((found, page))):
        assert len(seen) == 2
    with joined(mine, spec, workspace, look=refuse):
        assert len(seen) == 2


def test_a_site_that_nobody_watches_joins_whatever_its_rows_are(capsys: pytest.CaptureFixture[str]):
    """To a pipe the same line is said whatever was found; that a site stayed away would be an exact answer."""
    page = Path("misfits.private.html")
    for unfit in (0, 50):
        found = Misfits(100, (ColumnMisfits("ward", 100, unfit, 0, 0, "(null)", "(null)", False),), ())
        site_accepted(found, page, share=Fraction(1, 100), accept=False, may_ask=True)
        assert capsys.readouterr().err == f"private: how the rows fit the contract stands in {page}\n"


def test_a_clock_far_ahead_of_a_journal_is_refused_before_its_party_pays(tmp_path: Path):
    """The journals were written today; by the setting that is too long ago, for a site and for the coordinator."""
    path, workspace = a_site(tmp_path / "north", "north")
    spec_path, coordinator = a_coordinator(tmp_path / "c")
    late = replace(workspace, clock_ahead=-1)
    with pytest.raises(ClockAhead, match="set the clock"), joined(*load_site(path), late):
        pass
    network = SiteNetwork(tmp_path / "no-flower", "127.0.0.1", 1, None, joining=1, answering=1, between=0)
    with pytest.raises(ClockAhead, match="set the clock"):
        coordinate(spec_path, replace(coordinator, clock_ahead=-1), network, on_message=print)
    for each in (workspace, coordinator):
        with closing(ledger_of(each)) as ledger:
            assert "charge_reserved" not in {entry.kind for entry in ledger.journal()}
