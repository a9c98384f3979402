"""Selected keys: the list is the one that was entered when it was drawn, each key one that the contract allows."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import NULL_LABEL
from contracts.domains.text import OTHERS, SPLIT, TextDomain
from contracts.errors import Finding
from privacy.accounting.key_selection import KeySelection
from privacy.grant.queries.keys import KeyQuery, packed
from tasks.records.draws.key_counts import KeyCountDraw
from tasks.records.draws.keys import KeyDraw
from tasks.records.strict_json import shown
from tasks.verification.draws.draw_checks import UNDERSTATED, FittedMeaning, SeparateDrawChecks
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

_ORDER = "sorted, each once"
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


class KeyChecks(SeparateDrawChecks[KeyDraw, KeyQuery]):
    """The checks of selected keys."""

    events = (KeySelection,)

    def check_draw(self, draw: KeyDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the keys against what was entered, and the event against the contract."""
        contract, keys = meaning.contract, [(key,) for key in draw.selected]
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.shape", list(draw.shape), []),
            (f"{at}.measurements", draw.measurements, None),
            (f"{at}.sha256", draw.sha256, values_sha256(packed(keys))),
        ]
        findings = check_selected(draw, contract, pairs, at=at, where=where)
        groups, rows = draw.event.get("groups"), contract.unit.max_rows_per_unit
        # How many of them the product lets a unit have, the product's own check holds against the event.
        if contract.adjacency not in KeySelection.adjacencies or groups not in range(1, rows + 1):
            found = f"{shown(groups)} keys of a unit under {contract.adjacency}"
            allowed = f"1 to {rows} under add_remove, as a unit has so many rows"
            findings.append(Finding(where, f"{at}.event.groups", found, allowed, UNDERSTATED))
        return findings

    def drawn(self, draw: KeyDraw, values: Any) -> Any:
        """Return the packed keys."""
        return packed([(key,) for key in draw.selected])


def check_selected(
    draw: KeyDraw | KeyCountDraw,
    contract: Contract,
    pairs: Sequence[tuple[str, object, object]],
    *,
    at: str,
    where: str,
) -> list[Finding]:
    """Check which keys were selected: of a column of texts, sorted, each once, and each one that may be a key.

    Args:
        draw: what the record says of the draw.
        contract: its contract.
        pairs: what else is compared of a draw of its kind: what, what is found, what is allowed.
        at: place of the draw in the record.
        where: the record's file name.
    """
    domain = contract.column(draw.clique[0]).domain if len(draw.clique) == 1 else None
    if not isinstance(domain, TextDomain):
        allowed = "one column of texts that nobody declared"
        return [Finding(where, f"{at}.clique", shown(list(draw.clique)), allowed, OTHER)]
    keys = list(draw.selected)
    all_pairs = [
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.selected", _ORDER if keys == sorted(set(keys)) else "another order, or one twice", _ORDER),
        *pairs,
    ]
    allowed = "the keys that were entered when they were drawn, sorted, each once"
    findings = list(differences(all_pairs, where=where, allowed=allowed))
    unfit = next((key for key in keys if not _may_be_key(key, domain)), None)
    if unfit is not None:
        allowed = f"a text of 1 to {domain.max_bytes} bytes that can be displayed"
        findings.append(Finding(where, f"{at}.selected", shown(unfit), allowed, OTHER))
    return findings


def _may_be_key(text: str, domain: TextDomain) -> bool:
    """Say whether the contract lets a text be a key."""
    if SPLIT.search(text) is not None:
        return False
    # What no version of Unicode has assigned yet may be a letter in the next one, here as in DuckDB.
    printable = not any(unicodedata.category(sign) in _UNPRINTABLE for sign in text)
    return 1 <= len(text.encode()) <= domain.max_bytes and printable and text not in (OTHERS, NULL_LABEL)
