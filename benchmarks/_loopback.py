"""A capture of loopback: which planted values pass there in clear. It needs the right to open a packet socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_SO_RCVBUFFORCE: Final = 33
_LARGEST: Final = 1 << 17


@dataclass
class Heard:
    """What was heard.

    Args:
        values: planted values that passed in clear.
        searched: how much was searched [bytes].
        lost: packets that came too fast to be searched.
    """

    values: set[str] = field(default_factory=set)
    searched: int = 0
    lost: int = 0


@contextmanager
def listening(planted: Mapping[str, bytes], heard: Heard) -> Iterator[None]:
    """Search all packets of loopback while the block lasts.

    A value that begins in one packet and ends in the next is missed; packets of loopback have up to 64 KB.

    Args:
        planted: the bytes that are looked for, by how they are called.
        heard: where it is noted.
    Raises:
        PermissionError: this process may not listen.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 27)
        packets.bind(("lo", 0))
        packets.settimeout(0.2)
        ended = Event()

        def listen() -> None:
            while True:
                try:
                    packet = packets.recv(_LARGEST)
                except TimeoutError:
                    if ended.is_set():
                        return
                    continue
                heard.searched += len(packet)
                heard.values |= {name for name, value in planted.items() if value in packet}

        thread = Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            _, lost = struct.unpack("II", packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
            heard.lost += lost
