"""The masks of SecAgg+, from all bits of their seeds.

Flower 1.41 stretches a mask from a Mersenne twister that is seeded with 32 bits, the exclusive or of the seed's words
(`pseudo_rand_gen`): whoever has a masked vector can try all of them. Here the whole seed is the key of AES-256 in
counter mode. Both sides of the protocol import the generator by name, so it is put in place in both modules.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from math import prod

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

SIDES = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)


def mask(seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Stretch a seed into uniform whole numbers below a power of two up to 2^32, one array a shape.

    A seed is drawn anew for every run of the protocol, so the key stream is used once.
    """
    if num_range & (num_range - 1) or not 2 <= num_range <= 2**32:
        raise ValueError(f"masks are numbers below a power of two up to 2^32, not below {num_range}")
    sizes = [prod(shape) for shape in dimensions_list]
    stream = Cipher(AES(sha256(seed).digest()), CTR(bytes(16))).encryptor()
    words = np.frombuffer(stream.update(bytes(4 * sum(sizes))), dtype="<u4").astype(np.int64) & (num_range - 1)
    parts = np.split(words, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dimensions_list, strict=True)]


def put_in_place() -> None:
    """Let both sides of the protocol stretch seeds this way.

    Raises:
        AttributeError: this version of Flower has no such generator; nothing may be masked with it.
    """
    for name in SIDES:
        side = import_module(name)
        if not hasattr(side, "pseudo_rand_gen"):
            raise AttributeError(f"{name} has no pseudo_rand_gen: this version of Flower is not the tested one")
        side.pseudo_rand_gen = mask
