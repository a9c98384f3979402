"""What the studio does beside planning: commands of `sudare`, each in a process of its own.

The page shows each command, so that whoever reads it can type it. A process that is started here may open the source;
the studio itself gets its answer, which says nothing of rows.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SUDARE: Final = (sys.executable, "-P", "-m", "sudare")
"""-P: the folder of the spec is not where packages are looked for."""
_SECONDS: Final = 120
_KEPT_BACK: Final = "told in the terminal alone: sudare run"
_HELD: Final = "data for which the gate holds"
_GATE: Final = re.compile(
    r"encoding|header|rows?|files|gzip|zstd|delivery|people|source\.path|gate \S+|column (?:[0-9]+|'[^']*')"
)
"""Names of gates: words of the format, a gate or column of the contract, a place in the header."""


@dataclass(frozen=True)
class Said:
    """What a command answered.

    Args:
        done: whether it ended with 0.
        answer: its JSON; `error` where it refused.
    """

    done: bool
    answer: dict[str, Any]

    @property
    def findings(self) -> list[dict[str, str]]:
        """What was refused, in the parts of a finding."""
        return findings_in(self.answer)


def say(words: Sequence[str], folder: Path) -> Said:
    """Type a command and wait for its answer.

    Args:
        words: behind `sudare`, without --json.
        folder: where it is typed.
    """
    cut = list(words).index("--") if "--" in words else len(words)
    try:
        ended = subprocess.run(
            [*SUDARE, *words[:cut], "--json", *words[cut:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Said(False, {"error": {"kind": "Late", "message": f"no answer after {_SECONDS} s", "findings": []}})
    return Said(ended.returncode == 0, answer_in(ended.stdout, see="type it in a terminal"))


def answer_in(out: str, *, see: str) -> dict[str, Any]:
    """Read what a command answered.

    Args:
        out: its standard output.
        see: where to look, for one that died without an answer. What it wrote may quote a row, and is not shown.
    """
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"error": {"kind": "Ended", "message": f"it ended without an answer; {see}", "findings": []}}


def findings_in(answer: dict[str, Any]) -> list[dict[str, str]]:
    """Return what a command refused; of a gate that broke its name and what to do, as Prefect keeps them too."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return []
    private = error.get("kind") == "GateBroken"
    listed = [dict(each) for each in error.get("findings", ())]
    if not listed:
        message = _KEPT_BACK if private else str(error.get("message", ""))
        listed = [{"where": "sudare", "field": str(error.get("kind", "")), "found": message, "allowed": ""}]
    return [_by_name(each) for each in listed] if private else listed


def _by_name(finding: dict[str, str]) -> dict[str, str]:
    """Leave of a broken gate what contract and format say; its line, what was found, and other names stay away."""
    field = finding["field"] if _GATE.fullmatch(finding["field"]) else "a gate"
    return {**finding, "where": "the source", "field": field, "found": _KEPT_BACK, "allowed": _HELD}
