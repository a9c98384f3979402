"""The seed of rows that are made of sums over sites: SHA-256 over the run and the digests of its draws.

Nobody chooses it who follows the protocol; who chooses among sums chooses among seeds (docs/federation.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from contracts.canonical import digest
from privacy.marginals.portable import PostProcessingSeed


def seed_of_sums(run_key: str, digests: Sequence[str]) -> PostProcessingSeed:
    """Return the seed: the first 16 bytes of SHA-256 over the run's key and the digest of each round's draw."""
    return PostProcessingSeed(int(digest({"run": run_key, "sums": list(digests)})[:32], 16))
