"""Selected keys, as they are published: the keys themselves, in the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from contracts.contract.contract import Contract
from contracts.message import message
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.events import event_from_json
from privacy.accounting.key_selection import KeySelection, failures
from privacy.grant.measurement import KeyMeasurement
from tasks.records.draws.draw_form import DrawForm
from tasks.records.model.statement import StatedText, Tuple
from tasks.records.model.version_statements import FittedDraw

COINS: Final = message("a coin for each key, a uniform number of 128 bits against a whole number of 2^-128")


class KeyDraw(FittedDraw):
    """Keys that were selected, of the column that is named."""

    kind: Literal["keys"]
    selected: Tuple[StatedText]


class KeyForm(DrawForm[KeyMeasurement, KeyDraw]):
    """How a selection of keys is stated, written and told."""

    statement = KeyDraw

    def stated(self, released: KeyMeasurement, key: str) -> dict[str, Any]:
        """Return what was selected."""
        return {"clique": list(released.clique), "shape": [], "selected": [text for (text,) in released.keys]}

    def described(self, released: KeyMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: how many keys a unit may have, and what it may fail with."""
        event = released.event
        return {
            "what": message("selection of keys"),
            "columns": list(released.clique),
            "at_most_groups": event.groups,
            "may_fail_with": atto_to_text(failures([event])),
        }

    def sensitivities(self, drawn: Sequence[KeyMeasurement]) -> list[dict[str, Any]]:
        """Say how many keys one unit may have."""
        return [{"of": each.clique[0], "at_most_groups": each.event.groups} for each in drawn]

    def samplers(self, drawn: Sequence[KeyMeasurement]) -> set[str]:
        """Name how keys are selected."""
        return {COINS}

    def mechanism(self, noise: str, drawn: Sequence[KeyMeasurement]) -> str:
        """Say that keys are selected before they are measured."""
        return message("{noise}; keys that nobody declared, by the optimal private selection", noise=noise)

    def published(self, draws: Sequence[KeyDraw]) -> tuple[KeyMeasurement, ...]:
        """Return the keys."""
        return tuple(_selection(draw) for draw in draws)


def _selection(draw: KeyDraw) -> KeyMeasurement:
    event = event_from_json(draw.event)
    if not isinstance(event, KeySelection):
        raise TypeError(f"{draw.key} is no selection of keys")
    return KeyMeasurement(
        draw.key, draw.clique, tuple((text,) for text in draw.selected), event, draw.number, draw.sha256
    )


def with_stated_keys(contract: Contract, draws: Iterable[FittedDraw | Mapping[str, Any]]) -> Contract:
    """Return the contract with the cells of the keys that a record states.

    Args:
        contract: the contract, as it was read.
        draws: of the record, as statements or as JSON.
    """
    stated = [each if isinstance(each, Mapping) else each.model_dump() for each in draws]
    keys = [each for each in stated if each["kind"] in ("keys", "key_counts") and len(each["clique"]) == 1]
    return contract.with_keys({each["clique"][0]: each["selected"] for each in keys})
