"""Noise that repeats: what a test asserts beside its noise must not fail by chance.

Verify asks that a version's noise came from `SecureBytes`, so a seed of the grant cannot serve those tests. Here the
keys of that stream come from a name instead of the operating system. What another process draws stays unknown.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256
from itertools import count

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from privacy.noise import random_bytes

_REAL_STREAM, _REAL_BITS = random_bytes._new_stream, secrets.randbits
_NAMES: list[tuple[str, Iterator[int]]] = []
"""The names of the blocks that are open, the innermost last, each with the numbers of its draws."""


@contextmanager
def known_noise(name: str) -> Iterator[None]:
    """Derive the keys of noise and the seeds of post-processing from a name, inside the block and in this process."""
    _NAMES.append((name, count()))
    try:
        yield
    finally:
        _NAMES.pop()


def _taken(size: int) -> bytes:
    name, numbers = _NAMES[-1]
    return shake_256(f"{name} {next(numbers)}".encode()).digest(size)


def _stream() -> CipherContext:
    if not _NAMES:
        return _REAL_STREAM()
    return Cipher(algorithms.AES(_taken(32)), modes.CTR(_taken(16))).encryptor()


def _bits(number: int) -> int:
    return int.from_bytes(_taken(-(-number // 8))) >> -number % 8 if _NAMES else _REAL_BITS(number)


# For good: a test that replaces them itself puts these back, after the block around it has ended.
pytest.MonkeyPatch().setattr(random_bytes, "_new_stream", _stream)
pytest.MonkeyPatch().setattr(secrets, "randbits", _bits)
