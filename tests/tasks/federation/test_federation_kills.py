"""A federation over Flower whose parties are killed and come back: Flower goes with them, nothing is paid twice."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tasks.federation import flower
from tasks.federation.flower import FlowerFailed, Lasting, Running
from tasks.verify import verify
from tests.worlds.federations import FEDERATION, SITES, TRUSTING, a_coordinator, a_site, drawn, ledger_of
from tests.worlds.ports import port_of_its_own

PATIENCE = 300.0
"""Seconds until something has to be so. What Flower runs may look up only after its own pauses, of up to 20 s, which
a signal does not cut short; on a busy machine all takes longer. Only a failure waits them out."""
RUN = "from console.main import main; main()"
THREE = FEDERATION.replace(*TRUSTING).replace("rounds: 1", "rounds: 3").replace("reserve: 2", "reserve: 4")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_site_and_the_coordinator_are_killed_and_come_back(tmp_path: Path):
    """By SIGKILL: the site after round 1, the coordinator after round 2, when north and east alone are left.

    What Flower ran for them ends by itself. The nodes of the others find the link again. The second coordinator
    replays two rounds, and makes the last with all sites. Each account has one charge, no attempt is answered twice.
    Prefect knows the coordinator's flow, and that it ended well.
    """
    spec, workspace = a_coordinator(tmp_path / "c", federation=THREE)
    sites, port = {name: a_site(tmp_path / name, name, federation=THREE) for name in SITES}, str(port_of_its_own())
    with called() as call:

        def site(name: str) -> subprocess.Popen[bytes]:
            return call(tmp_path / name, "site", str(sites[name][0]), "--link", f"127.0.0.1:{port}")

        def coordinator() -> subprocess.Popen[bytes]:
            return call(tmp_path / "c", "run", str(spec), "--port", port, "--answering", "20", "--between", "1")

        nodes, first = {name: site(name) for name in SITES}, coordinator()
        for party, process, words in (
            ("south", nodes["south"], "round 1 of 3"),
            ("c", first, "round 2 of 3, without"),
        ):
            assert waited(lambda words=words: words in said(tmp_path / "c"), seconds=PATIENCE), said(tmp_path / "c")  # type: ignore[misc]
            assert of_flower(tmp_path / party)
            process.kill()
            process.wait()
            gone = waited(lambda party=party: not of_flower(tmp_path / party), seconds=PATIENCE)  # type: ignore[misc]
            assert gone, of_flower(tmp_path / party)
        site("south")
        assert waited(lambda: said(tmp_path / "south").count("paid; ") == 2, seconds=PATIENCE)
        assert coordinator().wait(timeout=2 * PATIENCE) == 0, said(tmp_path / "c")
    key = workspace.public_key_file.read_text().strip()
    assert verify(spec.parent / "models" / "long-stays" / "v1", public_key=key).ok
    for name, each in {"everyone": workspace, **{f"{name}-2026": own for name, (_, own) in sites.items()}}.items():
        with closing(ledger_of(each)) as ledger:
            assert len(ledger.charges(account=name)) == 1
            assert ledger.verify() == []
        assert len(set(drawn(each))) == len(drawn(each))
    with sqlite3.connect(workspace.prefect_home / "prefect.db") as database:
        states = database.execute("select state_type from flow_run order by start_time").fetchall()
    assert states[-1] == ("COMPLETED",)
    assert {key.partition("/lost")[0] for key in drawn(workspace)} >= {f"fed/0000{number}" for number in range(3)}


@pytest.mark.services
def test_a_node_is_started_again_when_its_link_is_another_and_not_when_it_was_turned_away(tmp_path: Path):
    """Flower ends a node with 0 where the link does not know it any more, and with 1 where it refuses its key."""
    started, codes = [], iter((0, 1))

    def start() -> Running:
        log = tmp_path / "node.log"
        log.write_text("Failed to activate SuperNode")
        code = f"raise SystemExit({next(codes)})"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
        started.append(process)
        return Running(process, "node-north", log)

    node = Lasting(start)
    started[0].wait()
    node.check()
    assert len(started) == 1
    assert waited(lambda: node.check() or len(started) == 2, seconds=flower.AGAIN_SECONDS + 100)
    started[1].wait()
    with pytest.raises(FlowerFailed, match="its key is of no site"):
        node.check()
    node.end()


@contextmanager
def called() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`sudare federation` in workspaces, until the end of the block."""
    processes: list[subprocess.Popen[bytes]] = []

    def call(folder: Path, *told: str) -> subprocess.Popen[bytes]:
        with (folder / "said.log").open("ab") as log:
            command = [sys.executable, "-c", RUN, "federation", *told]
            processes.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log))
        return processes[-1]

    try:
        yield call
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
            process.kill()
            process.wait()


def said(folder: Path) -> str:
    return (folder / "said.log").read_text()


def of_flower(folder: Path) -> dict[int, str]:
    """Processes that have their Flower home below a folder, by number: what was called."""
    found = {}
    for place in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number = int(place.name)
            if f"FLWR_HOME={folder}".encode() in (place / "environ").read_bytes():
                found[number] = command(number)
    return found


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def waited(done: Callable[[], object], *, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if done():
            return True
        time.sleep(0.2)
    return False
