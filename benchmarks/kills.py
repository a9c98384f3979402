"""Runs that are killed (SIGKILL) at every instant at which something becomes durable, and then run again.

A run is the plain functions that the flow's tasks wrap, in a forked process. Its durable instants are the fsyncs, the
renames and the commits of the ledger; the run is killed just before and just after each of them. After each kill, and
after the run that follows it, these must hold:
    no version, or a whole one that verifies; never a version without a charge; one charge and one version at the end;
    what was drawn before the kill is what is published; the ledger verifies.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sqlalchemy import Engine, event

from benchmarks.orchestration import release_plainly
from benchmarks.results import Row, machine, write
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from tasks.settings import Workspace
from tasks.validate import warm
from tasks.verify import verify
from tasks.version.software import software

CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row}, adjacency: add_remove}
    properties:
      - name: sex
        logicalType: string
        customProperties:
          - property: domain
            value:
              {kind: categories, values: [f, m], nulls: {policy: category}, provenance: {kind: declared}}
"""
SPEC: Final = """\
release: people
contract: people.odcs.yaml
source: {path: people.csv}
charge: {account: people-2024, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[sex]], refine: {method: simplex}, total: noisy}
publish: {to: releases/}
"""


@dataclass(frozen=True)
class Place:
    """A workspace with one small source, an account that pays for it, and a spec.

    Args:
        spec: the release spec.
        workspace: the workspace.
    """

    spec: Path
    workspace: Workspace

    @property
    def versions(self) -> list[Path]:
        """The published folders that a reader sees."""
        return sorted(self.workspace.releases.glob("people/v*"))

    def draws(self) -> dict[str, bytes]:
        """What was drawn so far, by file."""
        return {path.name: path.read_bytes() for path in self.workspace.draws.rglob("*.draw")}


def make_place(folder: Path) -> Place:
    """Make the workspace, the source, the spec and the account."""
    (folder / "people.odcs.yaml").write_text(CONTRACT)
    (folder / "people.yaml").write_text(SPEC)
    (folder / "people.csv").write_text("sex\n" + "f\nm\nm\n" * 20)
    workspace = Workspace.create(folder / "workspace")
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        terms = AccountTerms("people-2024", "people", "2024", "row", "add_remove", PureCalculus(), 2 * PICO, 0)
        ledger.open_account(terms)
        ledger.bind_source(str((folder / "people.csv").resolve()), "people", "2024")
    return Place(folder / "people.yaml", workspace)


def in_a_fork(work: Callable[[], Any]) -> int:
    """Do the work in a forked process and return its wait status; its output goes nowhere."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        work()
        status = 0
    finally:
        os._exit(status)


def count_instants(place: Place, tally: Path) -> int:
    """Run once to the end and return how many durable instants there were."""

    def work() -> None:
        instants = Instants(None)
        instants.watch()
        release_plainly(place.spec, place.workspace.root)
        tally.write_text(str(instants.seen))

    if in_a_fork(work) != 0:
        raise RuntimeError("the run that is only counted failed")
    return int(tally.read_text())


def kill_and_run_again(place: Place, instant: int) -> list[str]:
    """Kill a run at one instant, look, run again, look again; return what does not hold."""

    def killed() -> None:
        Instants(instant).watch()
        release_plainly(place.spec, place.workspace.root)

    status = in_a_fork(killed)
    wrong = [] if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else [f"not killed: {status}"]
    drawn = place.draws()
    wrong += _look(place)
    if in_a_fork(lambda: release_plainly(place.spec, place.workspace.root)) != 0:
        wrong.append("the run that follows fails")
    wrong += _look(place)
    if [path.name for path in place.versions] != ["v1"]:
        wrong.append(f"versions at the end: {[path.name for path in place.versions]}")
    if any(place.draws().get(name) != values for name, values in drawn.items()):
        wrong.append("something was drawn a second time")
    return wrong


class Instants:
    """Counts fsyncs, renames and commits, and kills this process at one of them.

    Args:
        fatal: the instant to die at: 2i just before, 2i + 1 just after the i-th durable step; None for never.
    """

    def __init__(self, fatal: int | None) -> None:
        self.seen = 0
        self._fatal = fatal

    def watch(self) -> None:
        """Begin to count in this process; there is no way back."""
        for holder, name in ((os, "fsync"), (os, "link"), (Path, "rename"), (Path, "replace")):
            setattr(holder, name, self._around(getattr(holder, name)))
        event.listen(Engine, "commit", lambda _connection: self._instant())

    def _around(self, durable: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self._instant()
            done = durable(*arguments, **named)
            self._instant()
            return done

        return counted

    def _instant(self) -> None:
        if self.seen == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1


def _look(place: Place) -> list[str]:
    """Return what does not hold of a workspace at rest."""
    key = place.workspace.public_key_file.read_text().strip()
    wrong = [f"{path.name} does not verify" for path in place.versions if not verify(path, public_key=key).ok]
    with closing(Ledger(place.workspace.ledger_url, draws=place.workspace.draws)) as ledger:
        wrong += [f"ledger: {finding}" for finding in ledger.verify()]
        account = ledger.account("people-2024")
    if place.versions and [charge.status for charge in account.charges] != ["published"]:
        wrong.append(f"a version with charges {[charge.status for charge in account.charges]}")
    if Fraction(account.spent, PICO) not in (0, 1):
        wrong.append(f"spent {account.spent}")
    return wrong


def main() -> None:
    """Kill at every instant and write results/kills.json."""
    with TemporaryDirectory() as folder:
        instants = count_of(Path(folder))
        failures = {instant: wrong for instant in range(instants) if (wrong := kill_once(Path(folder), instant))}
    for instant, wrong in failures.items():
        print(instant, wrong)
    settings = machine("sqlalchemy", "duckdb")
    what = "kills after which something did not hold, of all durable instants of a run"
    write("kills", [Row(what, len(failures), f"of {instants}", 0, not failures, settings=settings)])


def kill_once(folder: Path, instant: int) -> list[str]:
    """Kill a run of a fresh place at one instant; return what does not hold."""
    place = folder / f"kill-{instant}"
    place.mkdir()
    try:
        return kill_and_run_again(make_place(place), instant)
    finally:
        shutil.rmtree(place)


def count_of(folder: Path) -> int:
    """Return how many durable instants a run has; loads first what every forked run would load again."""
    warm()
    software()
    counted = folder / "counted"
    counted.mkdir()
    return count_instants(make_place(counted), folder / "tally")


if __name__ == "__main__":
    main()
