"""The stored results of the games, and which code they speak of.

`results.json` is written by `python -m benchmarks.privacy_games` and shipped with the package; a record quotes it,
and says so where the digest is not that of the code that runs. A pass is not a proof.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FILE: Final = Path(__file__).with_name("results.json")
SOURCES: Final = (
    "noise/*.py",
    "accounting/events.py",
    "accounting/key_law.py",
    "grant/**/*.py",
    "federation/*.py",
    "marginals/sensitivity.py",
    "marginals/cell_sums.py",
    "marginals/scores.py",
    "statistics/quantile_runs.py",
    "table_plans/*.py",
    "learning/*.py",
    "generators/*.py",
)
"""What decides how much noise is added to what, below the folder of `privacy`."""


def sources() -> tuple[Path, ...]:
    """Return the sources that the games attack, in the order of their paths.

    Raises:
        FileNotFoundError: a pattern matches nothing, so that the digest would speak of less than it says.
    """
    found = {pattern: set(ROOT.glob(pattern)) for pattern in SOURCES}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        raise FileNotFoundError(f"no source of privacy matches {', '.join(missing)}")
    return tuple(sorted(set().union(*found.values())))


def code_digest() -> str:
    """Return the SHA-256 (hex) over path and bytes of each source that the games attack."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def stored() -> dict[str, Any] | None:
    """Return the stored results; None where there are none.

    Returns:
        dict: `code_version`, `code_digest`, `confidence`, `games` (one a mechanism, as `Played.to_json` writes it),
        and `attacks` (membership and attribute inference, and the three of anonymeter where they were run).
    """
    if not FILE.is_file():
        return None
    told: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return told
