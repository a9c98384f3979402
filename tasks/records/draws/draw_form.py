"""What a kind of draw brings for those who publish it: its statement, its files, and its words.

The table `tasks.records.model.draw_kinds` names one `DrawForm` for each kind of query. A released object has the
`kind` of its query; the methods take those of one kind, in the order in which they were drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from contracts.message import message
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.noise import SAMPLERS
from tasks.records.model.version_statements import FittedDraw

ReleasedT = TypeVar("ReleasedT")
DrawT = TypeVar("DrawT", bound=FittedDraw)
CHOOSER: Final = message("exponential mechanism on rational scores, sampled exactly, without floating point")


class DrawForm(ABC, Generic[ReleasedT, DrawT]):
    """How a kind of draw is stated, written and told.

    Class attributes:
        statement: what the record says of one draw.
        role: of the files of its draws; empty where they have none.
        summary, columns: such a file, and its columns, in the words of a dataset's description.
        cells: what its rows are, where they are not one a number.
        beside: files for all draws of the kind together, with their roles.
        noise_on: what its noise is on, in the sentence that names all noise on counts and sums.
    """

    statement: ClassVar[type[FittedDraw]]
    role: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    columns: ClassVar[Mapping[str, str]] = {}
    cells: ClassVar[str] = ""
    beside: ClassVar[Mapping[str, str]] = {}
    noise_on: ClassVar[str] = ""

    def keys(self, released: ReleasedT, entered: Sequence[str]) -> Sequence[str]:
        """Return the keys of an object's draws among those that were entered in the journal."""
        return (released.key,)  # type: ignore[attr-defined]

    def files(self, drawn: Sequence[ReleasedT], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the published file of each draw that has one, by its key; `numbers` are those of the draws."""
        return {}

    def write(
        self, drawn: Sequence[ReleasedT], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the files; `marks` are what each says about where it comes from. Privacy: released values only."""
        return iter(())

    @abstractmethod
    def stated(self, released: ReleasedT, key: str) -> dict[str, Any]:
        """Return what the record states of one draw beside what the journal says: clique, shape, and its own."""

    @abstractmethod
    def described(self, released: ReleasedT, key: str) -> dict[str, Any]:
        """Describe a draw among those that the account was charged for."""

    def measured(self, released: ReleasedT) -> dict[str, Any]:
        """Describe what is published of an object; asked where it has a file."""
        return {}

    def sensitivities(self, drawn: Sequence[ReleasedT]) -> list[dict[str, Any]]:
        """Say how far one privacy unit moves what is drawn."""
        return []

    def samplers(self, drawn: Sequence[ReleasedT]) -> set[str]:
        """Name how it is sampled."""
        return {SAMPLERS[each.event.kind] for each in drawn}  # type: ignore[attr-defined]

    def mechanism(self, noise: str, drawn: Sequence[ReleasedT]) -> str:
        """Say how noise is added, after what was said of other kinds; empty where nothing was."""
        return noise

    @abstractmethod
    def published(self, draws: Sequence[DrawT]) -> tuple[ReleasedT, ...]:
        """Return the objects as far as the record states them."""
