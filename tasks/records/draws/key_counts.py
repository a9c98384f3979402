"""Selected keys with their counts from one draw, as published: keys in the record, counts in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from contracts.domains.text import BESIDE_KEYS
from contracts.message import message
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.events import event_from_json
from privacy.accounting.key_selection import KeySelection, failures
from privacy.grant.measurement import KeyCountMeasurement
from tasks.records.draws.draw_form import DrawForm
from tasks.records.draws.marginal import file_name
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile
from tasks.records.model.statement import StatedText, Tuple
from tasks.records.model.version_statements import FittedDraw

KEY_COUNT_NOISE: Final = message(
    "the key and its count from one draw: a uniform number of 128 bits against whole numbers of 2^-128; discrete "
    "Laplace noise on the rows of all other texts, and on those of none"
)
NOISY: Final = "noisy"


class KeyCountDraw(FittedDraw):
    """Keys that were selected with their counts, of the column that is named."""

    kind: Literal["key_counts"]
    selected: Tuple[StatedText]


class KeyCountForm(DrawForm[KeyCountMeasurement, KeyCountDraw]):
    """How a selection of keys that counts them is stated, written and told."""

    statement = KeyCountDraw
    role = "counts of selected keys"
    summary = "Noisy counts of the selected keys, of all other texts, and of missing ones."
    cells = "one a selected key, then one for all other texts and one for missing ones"
    columns: ClassVar[Mapping[str, str]] = {
        NOISY: "Noisy number of rows; of a key it is at least the threshold from which on keys are published."
    }

    def files(self, drawn: Sequence[KeyCountMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[KeyCountMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the counts of each."""
        for each in drawn:
            tidy = Tidy(facts.contract, each.clique, {NOISY: each.values})
            yield tidy.write(folder, f"{MEASUREMENTS}/{_name(each)}.parquet", draw=each.key, marks=marks)

    def stated(self, released: KeyCountMeasurement, key: str) -> dict[str, Any]:
        """Return what was selected."""
        return {
            "clique": list(released.clique),
            "shape": list(released.values.shape),
            "selected": [text for (text,) in released.keys],
        }

    def described(self, released: KeyCountMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: what it selects and counts, and what it may fail with."""
        return {
            "what": message("keys with their counts"),
            "columns": list(released.clique),
            "noise": KEY_COUNT_NOISE,
            "may_fail_with": atto_to_text(failures([released.event])),
        }

    def measured(self, released: KeyCountMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {"columns": released.clique[0], "cells": released.values.size}

    def sensitivities(self, drawn: Sequence[KeyCountMeasurement]) -> list[dict[str, Any]]:
        """Say that a unit moves the counts by its rows."""
        return [{"of": each.clique[0], "what": message("rows of one unit, whatever their keys")} for each in drawn]

    def samplers(self, drawn: Sequence[KeyCountMeasurement]) -> set[str]:
        """Name how keys and counts are drawn."""
        return {KEY_COUNT_NOISE}

    def mechanism(self, noise: str, drawn: Sequence[KeyCountMeasurement]) -> str:
        """Say that keys are selected and counted."""
        own = message("keys that nobody declared, selected and counted by one draw, at the optimal private rule")
        return message("{noise}; {own}", noise=noise, own=own) if noise else own

    def published(self, draws: Sequence[KeyCountDraw]) -> tuple[KeyCountMeasurement, ...]:
        """Return the keys, and the counts without their values, of which only the shape is read."""
        return tuple(_measurement(draw) for draw in draws)


def _name(measurement: KeyCountMeasurement) -> str:
    return file_name(measurement.number, (*measurement.clique, "keys"))


def _measurement(draw: KeyCountDraw) -> KeyCountMeasurement:
    event = event_from_json(draw.event)
    if not isinstance(event, KeySelection):
        raise TypeError(f"{draw.key} is no selection of keys")
    values = np.broadcast_to(np.int64(0), (len(draw.selected) + BESIDE_KEYS,))
    keys = tuple((text,) for text in draw.selected)
    return KeyCountMeasurement(draw.key, draw.clique, keys, event, draw.number, draw.sha256, values)
