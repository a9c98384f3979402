"""The seed of a run's post-processing: drawn once, after the last noise, and published with what was made by it.

It lies in the run's private folder until then, so that a run that resumes samples the same rows again.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from contracts.canonical import canonical_json
from contracts.errors import StoreUnwritable
from privacy.generators.rows import seed_text
from privacy.ledger.draw_files import sync_folder
from privacy.marginals.seeds import PostProcessingSeed

_BITS: Final = 128


def seed_of_run(folder: Path, run_key: str) -> PostProcessingSeed:
    """Return the run's seed; the first time, draw it from the operating system and write it down durably.

    Args:
        folder: the run's private folder, held by this process.
        run_key: the run; the folder may hold those of other snapshots.
    Raises:
        StoreUnwritable: the folder cannot be written.
    Privacy: independent of the data and of the noise; of no use for noise (another type).
    """
    path = folder / f"seed-{run_key}.json"
    try:
        known = _read(path)
        if known is not None:
            return known
        seed = PostProcessingSeed(secrets.randbits(_BITS))
        with NamedTemporaryFile(dir=folder, suffix=".partial") as file:  # mode 0600
            file.write(canonical_json({"run": run_key, "seed": seed_text(seed)}))
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, path)
        sync_folder(folder)
    except OSError as error:
        raise StoreUnwritable.because(error, folder) from error
    return seed


def _read(path: Path) -> PostProcessingSeed | None:
    if not path.exists():
        return None
    return PostProcessingSeed(int(json.loads(path.read_bytes())["seed"], 16))
