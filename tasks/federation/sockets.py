"""Unix sockets between Sudare's processes and Flower's: whole messages, answered one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread

from contracts.errors import SudareError

logger = logging.getLogger(__name__)


class NobodyConnected(SudareError):
    """What was started did not connect in time."""


@contextmanager
def answering(address: Path, answer: Callable[[bytes], bytes]) -> Iterator[None]:
    """Answer whoever connects, in a thread, until the block ends; one message a connection."""
    listener = Listener(str(address), "AF_UNIX")
    address.chmod(0o600)
    thread = Thread(target=_serve, args=(listener, answer), name=f"site {address.stem}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with Client(str(address), "AF_UNIX") as last:
            last.send_bytes(b"")
        thread.join(timeout=30)
        listener.close()


def _serve(listener: Listener, answer: Callable[[bytes], bytes]) -> None:
    while True:
        try:
            with listener.accept() as line:
                message = line.recv_bytes()
                if not message:
                    return
                line.send_bytes(answer(message))
        except (EOFError, OSError) as error:
            logger.info("a connection was dropped: %s", type(error).__name__)


@contextmanager
def awaited(address: Path, *, seconds: float, alive: Callable[[], None]) -> Iterator[Connection]:
    """Wait for the one that connects to a socket.

    Args:
        address: where.
        seconds: how long.
        alive: called while waiting; raises where nobody will come.
    Raises:
        NobodyConnected: nobody came.
    """
    listener = Listener(str(address), "AF_UNIX")
    address.chmod(0o600)
    found: list[Connection] = []
    thread = Thread(target=lambda: found.append(listener.accept()), daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < seconds:
        thread.join(0.2)
        waited += 0.2
        alive()
    if not found:
        raise NobodyConnected(f"nobody connected to {address.name} within {seconds:g} s; Flower's logs say why")
    with found[0] as line:
        try:
            yield line
        finally:
            listener.close()
