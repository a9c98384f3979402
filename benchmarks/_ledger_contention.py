"""Many processes that charge one account at once, whose cap does not hold all that they ask for."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks._ledger_places import ACCOUNT, connect, make_ledger, request
from privacy.ledger.entries import BudgetExceeded

PROCESSES: Final = 64
CHARGES: Final = 200
EPSILON: Final = 5
ADMITTED: Final = 5_000


@dataclass(frozen=True)
class Crowd:
    """What the processes reached together.

    Args:
        admitted: charges that the ledger admitted.
        refused: charges that it refused, all for the cap.
        per_second: admitted charges a second, from the first to the last [1/s].
        attempts_per_second: charges and refusals a second, over all [1/s].
        spent: what the account says is spent [10⁻¹²].
        findings: number of findings of `Ledger.verify` afterwards.
    """

    admitted: int
    refused: int
    per_second: float
    attempts_per_second: float
    spent: int
    findings: int


def crowd(url: str, folder: Path) -> Crowd:
    """Let all processes charge at once: forked before anything is connected, and connected before they begin."""
    make_ledger(url, folder, epsilon=EPSILON)
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(PROCESSES)
    pipes = [context.Pipe(duplex=False) for _ in range(PROCESSES)]
    processes = [
        context.Process(target=_charge, args=(url, folder, number, begin, send))
        for number, (_, send) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for _, send in pipes:
        send.close()  # a process that fails is then the end of what can be received
    told: list[tuple[list[float], list[float]]] = [receive.recv() for receive, _ in pipes]
    for process in processes:
        process.join()
    admitted = sorted(moment for moments, _ in told for moment in moments)
    refused = [moment for _, moments in told for moment in moments]
    first, last = admitted[0], admitted[-1]
    over_all = max([last, *refused]) - first
    with closing(connect(url, folder)) as ledger:
        return Crowd(
            len(admitted),
            len(refused),
            (len(admitted) - 1) / (last - first),
            (len(admitted) + len(refused) - 1) / over_all,
            ledger.account(ACCOUNT).spent,
            len(ledger.verify()),
        )


def _charge(url: str, folder: Path, number: int, begin: Barrier, send: Connection) -> None:
    """Charge as one of the processes; send the moments at which charges were admitted and refused."""
    admitted, refused = [], []
    with closing(connect(url, folder)) as ledger:
        ledger.foresee(request("none"))
        begin.wait()
        for charge in range(CHARGES):
            try:
                ledger.reserve(request(f"run-{number}-{charge}"))
                admitted.append(perf_counter())
            except BudgetExceeded:
                refused.append(perf_counter())
    send.send((admitted, refused))
