"""Noisy marginals, as they are published with what was fitted to them: each in a tidy table."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.text import BESIDE_KEYS
from contracts.message import AND, joined, message
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.events import CountNoise, DiscreteGaussian, KeySelection, event_from_json, failures
from privacy.generators.generator import Fitted
from privacy.grant.measurement import KeyCountMeasurement, KeyMeasurement, Measurement, ResidualMeasurement
from privacy.grant.queries.parameters import ParameterMeasurement
from privacy.learning.perturbed import STEPS, DeltaTraining
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.counts import Coarsening, coarsening
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile, write_measurement, written
from tasks.records.files.write import RESIDUAL_COLUMNS, RESIDUALS_FILE, write_residuals
from tasks.records.groups.guarantee import SAMPLERS, noise_words
from tasks.records.model.draw_kinds import draw_form, draw_kinds
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.statement import Count, StatedText, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw
from tasks.records.unpublished import Published

# --- What a kind of draw brings for those who publish it.


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


# --- All that was drawn for a fit, written, stated and described kind by kind.


AnyForm = DrawForm[Any, Any]
Body = Mapping[str, Any]


def forms_of(fitted: Fitted[Any]) -> Iterator[tuple[AnyForm, tuple[Any, ...]]]:
    """Yield the form of each kind that was drawn, with what was drawn of it.

    Raises:
        LookupError: a kind without a published form was drawn.
    """
    kinds = {each.kind for each in fitted.draws}
    for kind in [*(kind for kind in draw_kinds() if kind in kinds), *sorted(kinds - draw_kinds().keys())]:
        yield draw_form(kind), fitted.of_kind(kind)


def write_drawn(
    fitted: Fitted[Any], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write what was drawn for a fit: the files of each kind of draw."""
    return tuple(file for form, drawn in forms_of(fitted) for file in form.write(drawn, facts, folder, marks=marks))


def stated_draws(facts: RunFacts) -> list[dict[str, Any]]:
    """Return all draws of a fit for whoever replays the version, in their order."""
    account, entered = facts.account.terms.name, _entered(facts)
    return [
        {
            "kind": released.kind,
            "key": key,
            "number": entered[key]["number"],
            "coarsening": None,
            "event": entered[key]["event"],
            "cost": entered[key]["costs"][account],
            "sha256": entered[key]["sha256"],
            "measurements": file,
            **form.stated(released, key),
        }
        for form, released, key, file in _each(facts, entered)
    ]


def described_draws(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe all draws of a fit for people, in their order."""
    account, entered = facts.account.terms.name, _entered(facts)
    return [
        {
            "key": key,
            "event": entered[key]["event"],
            "cost": pico_to_text(entered[key]["costs"][account]),
            **form.described(released, key),
        }
        for form, released, key, _ in _each(facts, entered)
    ]


def measured(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe what is published of the draws, in their order, each with its file."""
    return [
        {"key": key, **form.measured(released), "file": file}
        for form, released, key, file in _each(facts, _entered(facts))
        if file is not None
    ]


def noise_mechanism(fitted: Fitted[Any]) -> str:
    """Say how noise is added, and what is chosen privately."""
    forms = list(forms_of(fitted))
    counted = [(form, drawn) for form, drawn in forms if form.noise_on]
    noise = ""
    if counted:
        kinds = sorted({each.event.kind.replace("_", " ") for _, drawn in counted for each in drawn})
        parts = joined([form.noise_on for form, _ in counted], AND)
        named = joined([message(kind) for kind in kinds], AND)
        noise = message("{kinds} noise on {parts}", kinds=named, parts=parts)
    for form, drawn in forms:
        noise = form.mechanism(noise, drawn)
    return noise


def published_draws(draws: Sequence[FittedDraw]) -> tuple[Any, ...]:
    """Return what was drawn, as far as a record states it."""
    kinds = dict.fromkeys(draw.kind for draw in draws)
    return tuple(
        each for kind in kinds for each in draw_form(kind).published([draw for draw in draws if draw.kind == kind])
    )


def _entered(facts: RunFacts) -> dict[str, Body]:
    """Return the journal's entry of each draw, by its key, in their order."""
    bodies = sorted(
        (entry.body for entry in facts.entries if entry.kind == "noise_drawn"), key=lambda body: body["number"]
    )
    return {body["key"]: body for body in bodies}


def _each(facts: RunFacts, entered: Mapping[str, Body]) -> list[tuple[AnyForm, Any, str, str | None]]:
    """Return each draw: its form, what it belongs to, its key and its file."""
    numbers: dict[str, int] = {key: body["number"] for key, body in entered.items()}
    found = [
        (form, released, key, files.get(key))
        for form, drawn in forms_of(facts.fit[1].fitted)
        for files in [form.files(drawn, numbers)]
        for released in drawn
        for key in form.keys(released, tuple(entered))
    ]
    return sorted(found, key=lambda each: numbers[each[2]])


def drawn_files(draws: Sequence[FittedDraw]) -> Iterator[tuple[str, ShownFile]]:
    """Yield the files that draws lead to: key of the draw that each shows, its role, and its form."""
    for draw in draws:
        form = draw_form(draw.kind)
        for name, role in form.beside.items():
            yield name, ("", role, "dense")
        if draw.measurements is not None:
            yield draw.measurements, (draw.key, form.role, "dense")


# --- How draws of counts are told.


NOISY: Final = "noisy"
DrawnFields = tuple[str, NDArray[np.int64], CountNoise, float, int, str]
"""The fields of `DrawnNumbers`."""


class _Counts(Protocol):
    """Counts of the cells of some columns, all with one noise."""

    @property
    def key(self) -> str: ...
    @property
    def clique(self) -> Clique: ...
    @property
    def values(self) -> NDArray[np.int64]: ...
    @property
    def event(self) -> CountNoise: ...
    @property
    def variance(self) -> float: ...


CountsT = TypeVar("CountsT", bound=_Counts)
StatedT = TypeVar("StatedT", bound=FittedDraw)


class CountForm(DrawForm[CountsT, StatedT]):
    """How counts with one noise in every cell are told."""

    def noise_of(self, released: CountsT, what: str, named: Mapping[str, Any]) -> dict[str, Any]:
        """Describe a draw: what it is of, its sensitivity, its noise.

        Args:
            released: the draw.
            what: what was drawn, in words.
            named: what else tells it from others.
        """
        moves = released.event.moves
        return {
            "what": what,
            **named,
            "columns": list(released.clique),
            "cells": released.values.size,
            "l1_sensitivity": sum(map(abs, moves)),
            "l2_sensitivity_squared": sum(move * move for move in moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
            "half_width_95": half_width(released.event, CONFIDENCE),
        }

    def sensitivities(self, drawn: Sequence[CountsT]) -> list[dict[str, Any]]:
        """Give the norms of the worst neighbour's change."""
        moves = sorted({each.event.moves for each in drawn})
        return [{"l1": sum(map(abs, move)), "l2_squared": sum(part * part for part in move)} for move in moves]


class BareCountForm(CountForm[CountsT, StatedT]):
    """How counts are told of which a file has the noisy numbers alone: the variance of all stands in the record."""

    role = "measurements"
    columns: ClassVar[Mapping[str, str]] = {NOISY: "Noisy count, as it was drawn; its variance stands in the record."}

    @abstractmethod
    def stem(self, key: str) -> str:
        """Name the file of a draw, without folder and ending."""

    @abstractmethod
    def named(self, released: CountsT) -> dict[str, Any]:
        """Return what else than its columns tells a draw from others."""

    @abstractmethod
    def measurement(self, draw: StatedT, numbers: DrawnFields) -> CountsT:
        """Return what was drawn, of its statement and of what all draws of numbers have (`DrawnNumbers`)."""

    def path(self, key: str) -> str:
        """Return the file of a draw."""
        return f"{MEASUREMENTS}/{self.stem(key)}.parquet"

    def files(self, drawn: Sequence[CountsT], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: self.path(each.key) for each in drawn}

    def described(self, released: CountsT, key: str) -> dict[str, Any]:
        """Describe the draw: what it is of, its sensitivity, its noise."""
        return self.noise_of(released, self.noise_on, self.named(released))

    def measured(self, released: CountsT) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique),
            **self.named(released),
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
        }

    def published(self, draws: Sequence[StatedT]) -> tuple[CountsT, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(self._published, draws))

    def _published(self, draw: StatedT) -> CountsT:
        event: Any = event_from_json(draw.event)
        values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
        return self.measurement(draw, (draw.key, values, event, variance(event), draw.number, draw.sha256))


_LONGEST_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class MarginalDraw(FittedDraw):
    """A noisy marginal, in a file of its own.

    `table` is a parent table, where its rows were counted. `bins` has the first declared bin of each joined one, by
    column.
    """

    kind: Literal["marginal"]
    table: StatedText | None = Field(default=None, exclude_if=lambda table: table is None)
    bins: dict[StatedText, Tuple[Count]] | None = None

    def cells(self, contract: Contract) -> Cells:
        """Return the cells that were measured: the contract's, or joined ones."""
        return measured_cells(self.clique, self.bins, contract)

    def resolution(self, contract: Contract) -> Coarsening | None:
        """Return which declared cells each joined one is the sum of; None where none were joined."""
        if not self.bins:
            return None
        from contracts.release.joined_cells import joined_cells  # most versions have none

        return coarsening(joined_cells(self.clique, self.bins, contract), tuple(self.bins.items()))


class MarginalForm(CountForm[Measurement, MarginalDraw]):
    """How a noisy marginal is stated, written and told."""

    statement = MarginalDraw
    role = "measurements"
    noise_on = message("marginals")

    def files(self, drawn: Sequence[Measurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{measurement_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[Measurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each marginal."""
        for each in drawn:
            name, width = measurement_name(each), half_width(each.event, CONFIDENCE)
            cells = measured_cells(each.clique, _firsts(each), facts.contract)
            yield write_measurement(each, name, width, cells, folder, marks=marks)

    def stated(self, released: Measurement, key: str) -> dict[str, Any]:
        """Return its columns and shape, whose rows were counted, and which bins were joined."""
        stated = {"clique": list(released.clique), "shape": list(released.values.shape), **_of_table(released)}
        if released.coarsening is None:
            return stated
        joined = {name: list(firsts) for name, firsts in released.coarsening.firsts}
        return {**stated, "coarsening": released.coarsening.to_json(), "bins": joined}

    def described(self, released: Measurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        return self.noise_of(released, "measurement", _of_table(released))

    def measured(self, released: Measurement) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique) or message("total"),
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
            **_of_table(released),
        }

    def published(self, draws: Sequence[MarginalDraw]) -> tuple[Measurement, ...]:
        """Return the marginals without their values, of which only the shape is read."""
        return tuple(_measurement(draw) for draw in draws)


def _of_table(released: Measurement) -> dict[str, str]:
    """Name the parent table whose rows were counted; nothing for the rows of the base."""
    return {} if released.table is None else {"table": released.table}


def measured_cells(clique: Sequence[str], joins: Mapping[str, Sequence[int]] | None, contract: Contract) -> Cells:
    """Return the cells of a marginal: the contract's, or with some bins joined."""
    if not joins:
        return contract
    from contracts.release.joined_cells import joined_cells  # most versions have none

    return joined_cells(clique, joins, contract)


def _firsts(released: Measurement) -> dict[str, tuple[int, ...]]:
    """Return the first declared bin of each joined one, by column."""
    return {} if released.coarsening is None else dict(released.coarsening.firsts)


def measurement_name(measurement: Measurement) -> str:
    """Name a measurement's file after its number and its columns."""
    return file_name(measurement.number, measurement.clique)


def file_name(number: int, columns: Sequence[str]) -> str:
    """Name a draw's file after its number and some columns."""
    named = _UNSAFE.sub("-", "_x_".join(columns))[:_LONGEST_NAME] or "total"
    return f"{number:04d}-{named}"


def _measurement(draw: MarginalDraw) -> Measurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    own = draw.key, draw.clique, values, event, variance(event), draw.number, draw.sha256
    return Measurement(*own, table=draw.table)


# --- Noisy parameters, as they are published.


PARAMETER_SCHEMA: Final = pa.schema([pa.field("value", pa.int64(), nullable=False)])
PARAMETERS: Final = message("noisy parameters")
CHANGES: Final = message("a training on noisy changes of parameters")
PERTURBED: Final[dict[str, str]] = {
    PARAMETERS: message("noise on every clamped weight and bias of a network that was trained without noise"),
    CHANGES: message("noise on the clamped change of every weight and bias in every batch of a training"),
}


class ParametersStatement(Statement):
    """Noisy parameters, or a checkpoint of a training on noisy changes: what was trained, and which draw it is."""

    perturbation: dict[str, Any]
    interval: Count


class ParameterDraw(FittedDraw):
    """Noisy parameters; those of the last draw are published."""

    kind: Literal["parameters"]
    parameters: ParametersStatement


class ParameterForm(DrawForm[ParameterMeasurement, ParameterDraw]):
    """How noisy parameters are stated, written and told."""

    statement = ParameterDraw
    role = "parameters"
    summary = "Noisy parameters of a network as they were drawn, or the last checkpoint of them."
    columns: ClassVar[Mapping[str, str]] = {
        "value": "Steps of a parameter's range; of a training on noisy changes the bits of a double."
    }

    def files(self, drawn: Sequence[ParameterMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of the last draw; of those before it nothing is made."""
        return {each.key: f"{MEASUREMENTS}/{each.number:04d}-parameters.parquet" for each in drawn[-1:]}

    def write(
        self, drawn: Sequence[ParameterMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the last draw."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        schema = PARAMETER_SCHEMA.with_metadata(dict(marks))
        last, (path,) = drawn[-1], self.files(drawn, {}).values()
        table = pa.Table.from_arrays([pa.array(last.values)], schema=schema)
        pq.write_table(table, folder / path, compression="zstd")
        yield written(folder, path, last.key, self.role, last.values.size, (("value", "int64"),))

    def stated(self, released: ParameterMeasurement, key: str) -> dict[str, Any]:
        """Return what was trained, and which draw it is."""
        about = {"perturbation": released.perturbation.to_json(), "interval": released.interval}
        return {"clique": [], "shape": [released.values.size], "parameters": about}

    def described(self, released: ParameterMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw."""
        cells = released.values.size
        return {"what": what(released), "columns": [], "cells": cells, "noise": noise_of(released)}

    def measured(self, released: ParameterMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {"columns": what(released), "cells": released.values.size, "noise": noise_of(released)}

    def sensitivities(self, drawn: Sequence[ParameterMeasurement]) -> list[dict[str, Any]]:
        """Say how far a clamped number moves."""
        return [{"of": message("each parameter, in steps of its range"), "l1": STEPS}]

    def mechanism(self, noise: str, drawn: Sequence[ParameterMeasurement]) -> str:
        """Say how noise is added."""
        return PERTURBED[what(drawn[0])]

    def published(self, draws: Sequence[ParameterDraw]) -> tuple[Any, ...]:
        """Return how many there are; what was trained stands in the record as it was written."""
        return tuple(Published(kind=draw.kind) for draw in draws)


def what(measurement: ParameterMeasurement) -> str:
    """Name what was drawn."""
    return CHANGES if isinstance(measurement.perturbation, DeltaTraining) else PARAMETERS


def noise_of(measurement: ParameterMeasurement) -> str:
    """Say how much noise a parameter, or a change of one, gets."""
    if isinstance(measurement.event, DiscreteGaussian):
        spread = float(measurement.event.sigma_squared) ** 0.5 / STEPS
        return message(
            "discrete Gaussian, standard deviation {spread} times the range of the number", spread=f"{spread:.6g}"
        )
    return message(
        "discrete Laplace, scale {spread} times the range of the number",
        spread=f"{1 / float(measurement.event.inverse_scale) / STEPS:.6g}",
    )


# --- Selected keys with their counts from one draw, as published.


KEY_COUNT_NOISE: Final = message(
    "the key and its count from one draw: a uniform number of 128 bits against whole numbers of 2^-128; discrete "
    "Laplace noise on the rows of all other texts, and on those of none"
)


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
        return tuple(_key_count_measurement(draw) for draw in draws)


def _name(measurement: KeyCountMeasurement) -> str:
    return file_name(measurement.number, (*measurement.clique, "keys"))


def _key_count_measurement(draw: KeyCountDraw) -> KeyCountMeasurement:
    event = event_from_json(draw.event)
    if not isinstance(event, KeySelection):
        raise TypeError(f"{draw.key} is no selection of keys")
    values = np.broadcast_to(np.int64(0), (len(draw.selected) + BESIDE_KEYS,))
    keys = tuple((text,) for text in draw.selected)
    return KeyCountMeasurement(draw.key, draw.clique, keys, event, draw.number, draw.sha256, values)


# --- Noisy residuals of all columns and pairs of a fit, as they are published.


_WHAT = message("residuals of all columns and all pairs of columns")


class ResidualDraw(FittedDraw):
    """Noisy residuals, in a file of their own."""

    kind: Literal["residuals"]


class ResidualForm(DrawForm[ResidualMeasurement, ResidualDraw]):
    """How noisy residuals are stated, written and told."""

    statement = ResidualDraw
    role = "measurements"
    summary = "Noisy residuals of marginals as they were drawn."
    columns: ClassVar[Mapping[str, str]] = RESIDUAL_COLUMNS
    noise_on = message("residuals")

    def files(self, drawn: Sequence[ResidualMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file."""
        return {each.key: RESIDUALS_FILE for each in drawn}

    def write(
        self, drawn: Sequence[ResidualMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the file."""
        for each in drawn:
            yield write_residuals(each, folder, marks=marks)

    def stated(self, released: ResidualMeasurement, key: str) -> dict[str, Any]:
        """Return how many numbers were drawn; which they are follows from the product's columns."""
        return {"clique": [], "shape": list(released.values.shape)}

    def described(self, released: ResidualMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        return {
            "what": _WHAT,
            "columns": [],  # all of them: the key names the draw
            "cells": released.values.size,
            "l2_sensitivity_squared": sum(move * move for move in released.event.moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
        }

    def measured(self, released: ResidualMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        deviation = f"{released.variance**0.5:.6g}"
        return {"columns": _WHAT, "cells": released.values.size, "deviation": deviation}

    def sensitivities(self, drawn: Sequence[ResidualMeasurement]) -> list[dict[str, Any]]:
        """Give the norm of the worst neighbour's change."""
        norms = sorted({sum(move * move for move in each.event.moves) for each in drawn})
        return [{"of": _WHAT, "l2_squared": norm} for norm in norms]

    def published(self, draws: Sequence[ResidualDraw]) -> tuple[ResidualMeasurement, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(_residual_measurement, draws))


def _residual_measurement(draw: ResidualDraw) -> ResidualMeasurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    return ResidualMeasurement(draw.key, values, event, variance(event), draw.number, draw.sha256, ())


# --- Selected keys, as they are published.


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
