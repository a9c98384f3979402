"""What runs in processes of their own: `serve SOCKET READY HOME`, `database HOME` and, for that, `create HOME`.

It serves on a socket that its parent has bound, says when it is up by one byte on the READY descriptor, and ends when
its standard input closes: the kernel closes that however the parent dies, so no server is ever left behind. Where
HOME has no database yet, one is made while Prefect is imported.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flows.prefect_runs.server import (
    DATABASE,
    LOG,
    begin_database,
    create_database,
    create_tables,
    server_application,
)

if TYPE_CHECKING:
    from uvicorn import Server

SETTLE_SECONDS = 0.3
GRACE_SECONDS = 4.0


def serve(listener: socket.socket, ready: int, home: Path) -> None:
    """Serve Prefect's API on `listener` until standard input closes, with the database in `home`."""
    started: list[Server] = []
    threading.Thread(target=_end_with_parent, args=(started,), daemon=True).start()
    making = begin_database(home)
    gc.disable()  # Prefect makes millions of lasting objects while it is imported: a fifth of the time to start
    import uvicorn

    app = server_application()
    gc.freeze()
    gc.enable()
    if making is not None and making.wait():
        sys.exit(f"Prefect's database cannot be created; see {home / LOG}")
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=2)
    )
    started.append(server)
    asyncio.run(_serve(server, listener, ready))


def create(home: Path) -> None:
    """Make the database in an empty folder."""
    gc.disable()  # as above
    create_tables(home / DATABASE)


async def _serve(server: Server, listener: socket.socket, ready: int) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        os.write(ready, b"1")
    os.close(ready)
    await serving


def _end_with_parent(started: list[Server]) -> None:
    """Wait for the end of standard input, let the last states be written, and end this process in any case."""
    while sys.stdin.buffer.read(1):
        continue
    if started:
        time.sleep(SETTLE_SECONDS)
        started[0].should_exit = True
        time.sleep(GRACE_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "create":
        create(Path(sys.argv[2]))
    elif sys.argv[1] == "database":
        create_database(Path(sys.argv[2]))
    else:
        serve(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]), Path(sys.argv[4]))
