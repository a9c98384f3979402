"""Ports for servers that are started by their number, some time after it was chosen."""

import random
import socket

_FIRST, _LAST = 20_000, 32_000
"""Below the range from which the kernel gives ports to whoever asks for any."""
_HELD: list[socket.socket] = []


def port_of_its_own() -> int:
    """Return a port that nobody listens on, and that no other test gets while this process lives."""
    for port in random.SystemRandom().sample(range(_FIRST, _LAST), _LAST - _FIRST):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0sudare test port {port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _HELD.append(claim)
        return port
    raise RuntimeError(f"no free port from {_FIRST} to {_LAST}")
