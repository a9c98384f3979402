"""Selected keys with their counts: both are those that were entered, and each count passes the threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.domains.text import BESIDE_KEYS
from contracts.errors import Finding
from privacy.accounting.key_selection import KeySelection
from privacy.grant.queries.key_counts import KeyCountQuery, law_of, packed_counts
from tasks.records.draws.key_counts import NOISY, KeyCountDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    FileForm,
    FittedMeaning,
    PublishedValues,
    SeparateDrawChecks,
    is_own_file,
)
from tasks.verification.draws.key_draws import check_selected
from tasks.verification.files.table_files import OTHER_NOISE, read_parquet
from tasks.verification.refinement_replay import values_sha256


class KeyCountChecks(SeparateDrawChecks[KeyCountDraw, KeyCountQuery]):
    """The checks of keys that were selected and counted by one draw."""

    events = (KeySelection,)

    def check_draw(self, draw: KeyCountDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the keys, the file, and that the event is one for all rows of a unit together."""
        contract, name = meaning.contract, draw.measurements or ""
        own = is_own_file(draw.measurements)
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.shape", list(draw.shape), [len(draw.selected) + BESIDE_KEYS]),
            (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
        ]
        findings = check_selected(draw, contract, pairs, at=at, where=where)
        if contract.adjacency not in KeySelection.adjacencies or draw.event.get("groups") != 1:
            found = f"{shown(draw.event.get('groups'))} coins of a unit under {contract.adjacency}"
            allowed = "1 under add_remove, for all rows of a unit together"
            findings.append(Finding(where, f"{at}.event.groups", found, allowed, UNDERSTATED))
        return findings

    def form(self, draw: KeyCountDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of the column, with the selected keys."""
        return FileForm({name: meaning.contract.column(name).labels for name in draw.clique})

    def read(
        self, data: bytes, draw: KeyCountDraw, event: KeySelection, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of counts: with the keys of the record they are what was entered, none below the threshold."""
        where, contract = printable(draw.measurements or ""), meaning.contract
        terms: dict[str, Any] = {"cells": contract, "clique": draw.clique, "values": {NOISY: "int64"}}
        columns, wrong = read_parquet(data, where=where, **terms)
        if columns is None:
            return None, wrong
        counts = columns[NOISY].reshape(-1)
        found = values_sha256(packed_counts([(key,) for key in draw.selected], counts))
        if found != draw.sha256:
            allowed = f"{draw.sha256}, as keys and counts were entered when they were drawn"
            wrong.append(Finding(where, f"SHA-256 of the keys and of column {NOISY}", found, allowed, OTHER_NOISE))
        least = law_of(event, rows_per_unit=contract.unit.max_rows_per_unit).least
        if (counts[:-BESIDE_KEYS] < least).any():
            allowed = f"at least {least}, the least count that a key is published with"
            wrong.append(Finding(where, f"column {NOISY}", "a count of a key below it", allowed, OTHER_NOISE))
            return None, wrong
        return counts, wrong

    def drawn(self, draw: KeyCountDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the packed keys and counts."""
        return packed_counts([(key,) for key in draw.selected], values.noisy[draw.key])
