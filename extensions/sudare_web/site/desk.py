"""Slow work beside the readers: one piece at a time, in a process of its own, with a limit of time.

A page asks and gets at once what is known: an answer, or that it is being worked on. Nobody waits, however many ask.
The process is nice to the readers, ends with the site, and is killed when a piece takes too long.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import time
from typing import Any, Final, Literal

TaskState = Literal["done", "running", "waiting", "busy", "late", "failed"]
_NICE: Final = 10
_START_SECONDS: Final = 300.0
_KEPT: Final = 2_000


@dataclass(frozen=True)
class Answer:
    """What is known of a piece of work.

    Args:
        state: done, running or waiting; busy (too many wait: ask again); late (it took too long) or failed.
        value: what was found, once done.
        at: when it was found [seconds since 1970].
    """

    state: TaskState
    value: Any = None
    at: float = 0.0


class Desk:
    """Works off what is asked for, one by one, and keeps the answers.

    Args:
        work: a function of a module, called in the process with what was told; its result must be plain data.
        seconds: how long one piece may take, once the process has started.
        lasting: how long an answer is shown before the work is done again [s].
        most_waiting: how many pieces may wait.
    """

    def __init__(
        self, work: Callable[[Any], Any], *, seconds: float, lasting: float = 3600.0, most_waiting: int = 32
    ) -> None:
        self._work, self._seconds, self._lasting, self._most = work, seconds, lasting, most_waiting
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._pending: dict[Hashable, TaskState] = {}
        self._waiting: deque[tuple[Hashable, Any]] = deque()
        self._lock = threading.Condition()
        self._closed = False
        self._process: tuple[BaseProcess, Connection] | None = None
        self._thread: threading.Thread | None = None

    def ask(self, key: Hashable, argument: Any) -> Answer:
        """Return what is known under a key, and see to it that it becomes known; never waits.

        Args:
            key: names the work and all that its result depends on.
            argument: what the work is called with.
        """
        with self._lock:
            known = self._answers.get(key)
            standing = known if known is not None and known.state == "done" else None
            if key in self._pending:
                return standing or Answer(self._pending[key])
            if known is not None and time() - known.at < self._lasting:
                return known
            if len(self._waiting) >= self._most or self._closed:
                return standing or Answer("busy")
            self._pending[key] = "waiting"
            self._waiting.append((key, argument))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"desk-{self._work.__name__}", daemon=True)
                self._thread.start()
            self._lock.notify()
            return standing or Answer("waiting")

    def close(self) -> None:
        """End the process; what waits is dropped."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._lock.notify()
        self._end_process()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                key, told = self._waiting.popleft()
                self._pending[key] = "running"
            answer = replace(self._ask_process(told), at=time())
            with self._lock:
                del self._pending[key]
                self._answers[key] = answer
                self._answers.move_to_end(key)
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)

    def _ask_process(self, argument: Any) -> Answer:
        """Let the process work; a process that is late or has died is replaced when the next piece comes."""
        try:
            process = self._process
            if process is None:
                process = self._process = self._start()
                if not process[1].poll(_START_SECONDS):
                    self._end_process()
                    return Answer("late")
                process[1].recv()
            pipe = process[1]
            pipe.send(argument)
            if pipe.poll(self._seconds):
                state, value = pipe.recv()
                return Answer(state, value)
            self._end_process()
            return Answer("late")
        except (OSError, EOFError, ValueError):
            self._end_process()
            return Answer("failed")

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._work), daemon=True)
        process.start()
        theirs.close()  # a process that dies is then the end of what can be received
        return process, ours

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process[0].kill()
            process[1].close()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """Work in the process, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the site's; it ends this process
    os.nice(_NICE)
    pipe.send("ready")
    while True:
        try:
            told = pipe.recv()
        except EOFError:
            return
        try:
            answer: tuple[TaskState, Any] = ("done", work(told))
        except Exception:  # noqa: BLE001 - what went wrong may quote anything; the page says only that it did
            answer = ("failed", None)
        pipe.send(answer)
