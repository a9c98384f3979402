"""What all changes between two contracts ask of the version."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from contracts.contract.semantic_version import admits_breaking
from contracts.domains.statements import Change, Effect

EFFECTS: dict[Effect, str] = {
    "account": "breaking for the account",
    "breaking": "breaking",
    "compatible": "compatible",
}


@dataclass(frozen=True)
class Comparison:
    """What changed between two contracts.

    Args:
        old: version of the older contract.
        new: version of the newer one.
        changes: what they declare differently, but for the versions; the gravest first.
    """

    old: str
    new: str
    changes: tuple[Change, ...]

    @property
    def breaking(self) -> bool:
        """Whether somebody has to do something: a new major version announces it."""
        return any(change.effect != "compatible" for change in self.changes)

    @property
    def breaking_for_account(self) -> bool:
        """Whether a domain, the unit, the contribution bound or the adjacency changed."""
        return any(change.effect == "account" for change in self.changes)

    @property
    def admitted(self) -> bool:
        """Whether the new version announces the changes: any change a new one, a breaking one a new MAJOR."""
        if self.breaking:
            return admits_breaking(self.old, self.new)
        return not self.changes or self.old != self.new

    @property
    def verdict(self) -> str:
        """What it is, in a few words."""
        if not self.changes:
            return "they mean the same"
        return next(words for effect, words in EFFECTS.items() if any(c.effect == effect for c in self.changes))

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "old": self.old,
            "new": self.new,
            "breaking": self.breaking,
            "breaking_for_account": self.breaking_for_account,
            "announced": self.admitted,
            "changes": [asdict(change) for change in self.changes],
        }
