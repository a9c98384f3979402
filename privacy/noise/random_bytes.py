"""Where the randomness comes from: uniform bytes, from a secure stream or (in tests) from a seed.

The two are different types on purpose. What is published must have drawn from `SecureBytes`;
`SeededBytes` exists so that a test can be repeated, and says so in `security`.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import Final, Literal, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from privacy.noise.limits import check_size

BLOCK: Final = 1 << 18
"""Bytes of key stream made at once; they stay in a core's cache."""
REKEY_AFTER: Final = 1 << 30
"""Bytes after which a new key is drawn."""
_ZEROS: Final = bytes(BLOCK)
_ALIGNMENT: Final = 8


class RandomBytes(Protocol):
    """A source of independent uniform bytes."""

    @property
    def security(self) -> Literal["csprng", "seeded"]:
        """Say whether the bytes are unpredictable (`csprng`) or repeat from a seed (`seeded`)."""
        ...

    def take(self, n: int) -> NDArray[np.uint8]:
        """Return the next n bytes; no byte is handed out twice."""
        ...


class SecureBytes:
    """Bytes of an AES-256-CTR key stream under a key that nobody has seen.

    Key and first counter block come from the operating system (`secrets`). A new pair is drawn after
    `REKEY_AFTER` bytes, that is 2^26 blocks of the 2^128 that a counter counts, so no counter block returns
    under one key, and that the stream's blocks are distinct (where random ones would at times be equal) gives a
    distinguisher at most about 2^52 / 2^129 = 2^-77 per key.

    One object may be shared by threads. A forked child draws a new key at once, so that it does not repeat its
    parent's noise; copying and pickling are refused for the same reason. A snapshot of a whole virtual machine
    cannot be noticed from in here.

    Source: NIST SP 800-38A, section 6.5 (counter mode).
    """

    __slots__ = ("_block", "_left", "_lock", "_process", "_stream", "_used")
    security: Final = "csprng"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._used = self._process = self._left = 0
        self._start()

    def take(self, n: int) -> NDArray[np.uint8]:
        """Return the next n bytes of the stream, read-only.

        Args:
            n: how many, >= 0 [bytes].
        Returns:
            uint8, shape (n,), uniform. A later call never changes an array that was returned before.
        Raises:
            NoiseRefused: n is negative or not a whole number.
        """
        check_size("n", n)
        # A forked child has the parent's key and place: it would repeat the parent's noise.
        if self._process != os.getpid():
            self._start()
        with self._lock:
            if n > BLOCK:
                return self._fresh(n)
            # What is left of the block is thrown away: no byte is handed out twice, and parts stay aligned.
            if n > BLOCK - self._used:
                self._block = self._fresh(BLOCK)
                self._used = 0
            part = self._block[self._used : self._used + n]
            # Parts begin at multiples of eight bytes, so that they can be read as words.
            self._used += -(-n // _ALIGNMENT) * _ALIGNMENT
            return part

    def __reduce__(self) -> NoReturn:
        """Refuse copying and pickling: two copies would hand out the same bytes twice."""
        raise TypeError("SecureBytes cannot be copied or pickled: the copy would repeat its bytes")

    def _start(self) -> None:
        """Begin a stream that shares nothing with any other; also the first thing a forked child does."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._used = BLOCK
        self._stream, self._left = _new_stream(), REKEY_AFTER

    def _fresh(self, n: int) -> NDArray[np.uint8]:
        """Encrypt n zero bytes into a new array, piece by piece, with a new key where one is due."""
        made = np.empty(n, np.uint8)
        for start in range(0, n, BLOCK):
            piece = made[start : start + BLOCK]
            if self._left < piece.size:
                self._stream, self._left = _new_stream(), REKEY_AFTER
            self._stream.update_into(_ZEROS[: piece.size], piece.data)
            self._left -= piece.size
        made.flags.writeable = False
        return made


class SeededBytes:
    """Bytes that repeat from a seed, for tests. Anybody who knows the seed can take the noise off again.

    Args:
        seed: any whole number >= 0.
    """

    security: Final = "seeded"

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def take(self, n: int) -> NDArray[np.uint8]:
        """Return the next n bytes of numpy's Philox, read-only."""
        return np.frombuffer(self._generator.bytes(check_size("n", n)), np.uint8)


def _new_stream() -> CipherContext:
    """Key AES-256 in counter mode afresh."""
    key, counter = secrets.token_bytes(32), secrets.token_bytes(16)
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
