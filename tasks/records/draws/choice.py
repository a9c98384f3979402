"""Private choices, as they are published: the place of each, in the record and in one file for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from contracts.canonical import readable_json
from contracts.message import message
from privacy.accounting.events import ExponentialMechanism, event_from_json
from privacy.grant.measurement import Selection
from tasks.records.draws.marginal import CHOOSER, DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.model.statement import Count
from tasks.records.model.version_statements import FittedDraw

CHOICES: Final = f"{MEASUREMENTS}/choices.json"


class ChoiceDraw(FittedDraw):
    """A private choice: the place of the chosen candidate, whose columns it names."""

    kind: Literal["choice"]
    index: Count


class ChoiceForm(DrawForm[Selection, ChoiceDraw]):
    """How a private choice is stated, written and told."""

    statement = ChoiceDraw
    beside: ClassVar[Mapping[str, str]] = {CHOICES: "choices"}

    def write(
        self, drawn: Sequence[Selection], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write all choices in one file."""
        (folder / CHOICES).parent.mkdir(exist_ok=True)
        (folder / CHOICES).write_bytes(readable_json([choice_entry(each) for each in drawn]))
        yield written(folder, CHOICES, "", "choices", len(drawn), ())

    def stated(self, released: Selection, key: str) -> dict[str, Any]:
        """Return what was chosen."""
        return {"clique": list(released.clique), "shape": [], "index": released.index}

    def described(self, released: Selection, key: str) -> dict[str, Any]:
        """Describe the draw."""
        return {"what": "choice", "columns": list(released.clique)}

    def samplers(self, drawn: Sequence[Selection]) -> set[str]:
        """Name how a choice is sampled."""
        return {CHOOSER}

    def mechanism(self, noise: str, drawn: Sequence[Selection]) -> str:
        """Say that what is measured was chosen."""
        return message("{noise}; which ones, chosen by the exponential mechanism", noise=noise)

    def published(self, draws: Sequence[ChoiceDraw]) -> tuple[Selection, ...]:
        """Return the choices."""
        return tuple(_selection(draw) for draw in draws)


def choice_entry(selection: Selection) -> dict[str, Any]:
    """Write one private choice as JSON."""
    return {
        "key": selection.key,
        "number": selection.number,
        "columns": list(selection.clique),
        "index": selection.index,
        "epsilon": str(selection.event.epsilon),
    }


def _selection(draw: ChoiceDraw) -> Selection:
    event = event_from_json(draw.event)
    if not isinstance(event, ExponentialMechanism):
        raise TypeError(f"{draw.key} is no choice")
    return Selection(draw.key, draw.index, draw.clique, event, draw.number, draw.sha256)
