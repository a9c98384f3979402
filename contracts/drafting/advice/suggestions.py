"""What a contract may go without, and people who read its releases will miss: suggestions, not warnings.

| rule | what is asked for |
|---|---|
| `curator` | who answers for the data |
| `contact` | whom to write to about errors |

A record says "left undeclared" of each. Records take both from `about:` of a release spec, and where that is silent
from `[publisher]` in sudare.toml: one of these two silences the suggestion. The standard has places of its own for
them in a contract, `team` and `support`. No record reads these, so the suggestion says that somebody is named there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contracts.drafting.advice.places import Advice
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.yaml_lines import Document
from contracts.release.about import Publisher

_ASKED: Final = (
    ("curator", "team", "a curator: who answers for the data", "Office of Statistics"),
    ("contact", "support", "a contact: whom to write to about errors", "statistics@example.org"),
)
"""The key of `about:`, the standard's own place in a contract, what is missing, an example."""


def suggest(document: Document, about: Mapping[str, Any], publisher: Publisher | None) -> tuple[Advice, ...]:
    """List what nobody has declared for the releases of a contract.

    Args:
        document: the contract's file.
        about: `about:` of a release spec as it stands there; empty where no spec was named.
        publisher: what the workspace declares of all releases; None without a workspace or a declaration.
    Returns:
        At most one suggestion a rule, in the order of the module's table.
    Privacy: reads declarations only.
    """
    return tuple(
        _suggestion(document, key, place, missing, example)
        for key, place, missing, example in _ASKED
        if about.get(key) in (None, "", PLACEHOLDER) and not getattr(publisher, key, None)
    )


def _suggestion(document: Document, key: str, place: str, missing: str, example: str) -> Advice:
    """Ask for one declaration, and say so if the contract has it where no record looks."""
    named = place in (document.root.entries or {})
    found = f"`{place}:` of the contract, which no record reads" if named else "nobody is named"
    why = f"releases of this contract are published without {missing}; their records say that it was left undeclared"
    remedy = (
        f'write {key} = "{example}" below [publisher] in sudare.toml, or {key}: {example} below about: of the spec'
    )
    return Advice(key, document.where((place,) if named else ("id",)), key, found, why, remedy)
