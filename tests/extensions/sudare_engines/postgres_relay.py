"""What may stand between a client and PostgreSQL: a relay that ends TLS or the connection, or a pooler."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

SSL_REQUEST_BYTES = 8
BACKEND_KEY = b"K\x00\x00\x00\x0c"


def other_process(data: bytes) -> bytes:
    """Tell a client another process than the server's, as PgBouncer does: its keys of cancelling are its own."""
    place = data.find(BACKEND_KEY)
    begin = place + len(BACKEND_KEY)
    return data if place < 0 else data[:begin] + b"\x00\x00\x00\x01" + data[begin + 4 :]


@contextmanager
def relay(
    port: int,
    *,
    tls: tuple[Path, Path] | None = None,
    rewrite: Callable[[bytes], bytes] = bytes,
    asked: Callable[[bytes], bytes] = bytes,
) -> Iterator[int]:
    """Pass what comes on to a port of loopback."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Thread(target=_serve, args=(listener, port, tls, rewrite, asked), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(
    listener: socket.socket,
    port: int,
    tls: tuple[Path, Path] | None,
    rewrite: Callable[[bytes], bytes],
    asked: Callable[[bytes], bytes],
) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            if tls is not None:
                client.recv(SSL_REQUEST_BYTES, socket.MSG_WAITALL)
                client.sendall(b"S")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*tls)
                client = context.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", port))
            Thread(target=_pump, args=(client, server, asked), daemon=True).start()
            Thread(target=_pump, args=(server, client, rewrite), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, rewrite: Callable[[bytes], bytes]) -> None:
    with suppress(OSError):
        while data := rewrite(source.recv(1 << 16)):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
