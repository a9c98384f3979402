"""Sums over rows: how far can one privacy unit move them, and are the published values those that were drawn?

The bound is derived here anew, from the parameters of a sum alone. Whoever has both files of the statistics can
rebuild each: its digest, its columns and its length must be those of the record. Then each number's part, group and
entries follow, its natural value and its variance.

A row's vector z has norm at most R = 2^bits, its weights a_g are not negative and add up to A. One row moves each
part of counts (a_g), sums (a_g z_i), squares (a_g z_i^2) or products by at most m, once all are brought to one scale:

    m = A R^d,  d = 2 with squares or products, 1 with sums, else 0
    times 5 with products, whose matrix has weight 5 on its diagonal and 7 above: 25 |z|^4 bounds its squared norm

add_remove: k rows move p parts by p k^2 m^2, squared. replace_one: 2 p k^2 m^2, for the inner product of the vectors
of two rows is nowhere negative; but sums without counts may turn round: 4 k^2 m^2. `moves` are whole
numbers whose squares add up to that. The proofs are in docs/derivations.md, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isqrt
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector, PoissonSampledGaussian
from privacy.grant.queries.parameters import ParameterQuery
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import row_layout
from privacy.learning.learners import learner_digest
from privacy.learning.moments import Moments
from privacy.learning.trained import packed
from privacy.learning.written_statistics import PART_NAMES, nearly, read_statistic
from privacy.marginals.count_noise import variance
from tasks.records.draws.draws import (
    CHECKPOINT_PARTS,
    CHECKPOINT_SCHEMA,
    SUM_SCHEMA,
    StatisticStatement,
    SumDraw,
    TrainingDraw,
    sum_columns,
)
from tasks.records.draws.marginal import PARAMETER_SCHEMA, ParameterDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.draws.draw_checks import (
    SHARE,
    UNDERSTATED,
    DrawChecks,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
    is_own_file,
)
from tasks.verification.files.array_reader import read_arrays
from tasks.verification.files.folder import OpenFiles
from tasks.verification.files.parquet_pages import open_numbers, unpacked_size
from tasks.verification.files.table_files import MISFIT, UNCERTAINTY, UNREADABLE, check_digest, compare_column
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import RELATIVE_TOLERANCE, values_sha256

STATISTIC_FILES: Final = ("measurements/statistics.json", "measurements/statistics.parquet")
_OTHER_SUM: Final = "what was added up is not what the record describes: do not use these values"
_DEGREES: Final = {"counts": 0, "sums": 1, "diagonal": 2, "full": 2}
_BYTES_PER_ROW: Final = 64
_SPARE_BYTES: Final = 2**22


class SumChecks(SeparateDrawChecks[SumDraw, SumQuery]):
    """The checks of sums over rows."""

    events = (DiscreteGaussian,)
    most_moves = 6  # two for each of three parts

    def check_draw(self, draw: SumDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the form of each draw, its columns, and the bound of a change in its event."""
        return _check_sum(draw, meaning, at=at, where=where)

    def files_beside(self, draws: Sequence[SumDraw]) -> frozenset[str]:
        """What was added up, and its arrays."""
        return frozenset(STATISTIC_FILES)

    def forms_beside(self, draws: Sequence[SumDraw]) -> dict[str, FileForm]:
        """The arrays are written one after the other."""
        names = frozenset(name for draw in draws for name in draw.statistic.shapes)
        return {STATISTIC_FILES[1]: FileForm({"array": names}, piece=None)}

    def read_beside(
        self, draws: Sequence[SumDraw], meaning: FittedMeaning, files: OpenFiles, findings: list[Finding]
    ) -> dict[str, Any]:
        """Rebuild what was added up, by key of the draw."""
        written, arrays = (files.read(name, findings) for name in STATISTIC_FILES)
        if written is None or arrays is None:
            return {}
        return read_statistics(draws, meaning, written, arrays, findings)

    def form(self, draw: SumDraw, meaning: FittedMeaning) -> FileForm:
        """Parts are labels."""
        return FileForm({"part": tuple(PART_NAMES)})

    def read(
        self, data: bytes, draw: SumDraw, event: DiscreteGaussian, meaning: FittedMeaning, rebuilt: Moments | None
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check one file of noisy sums."""
        if rebuilt is None:
            raise LookupError("what was added up cannot be rebuilt")
        return check_sum_file(data, draw, event, rebuilt)

    def matching(self, query: SumQuery, draw: SumDraw, values: PublishedValues) -> SumQuery:
        """Compare what was added up, and go on with what was published.

        Axes, centres and the like were computed in floating point from sums before: those that were published count.
        """
        published = values.rebuilt.get(draw.key)
        if published is None or not nearly(published, query.statistic, share=SHARE):
            raise OtherDraw(f"draw {draw.key!r}: sums of another statistic were asked for, not of what is there")
        return replace(query, statistic=published)


def _check_sum(draw: SumDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
    """Check one draw."""
    name, stated, contract = draw.measurements or "", draw.statistic, meaning.contract
    own = is_own_file(draw.measurements)
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), []),
        (f"{at}.shape", len(draw.shape), 1),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
    ]
    findings = list(differences(pairs, where=where, allowed="as of every sum over rows"))
    try:
        columns, worst = (
            columns_of(stated.parameters),
            worst_moves_of_sum(stated, contract.adjacency, contract.unit.max_rows_per_unit),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        allowed = "parameters of a sum over rows"
        found = printable(f"{type(error).__name__}: {error}")
        return [*findings, Finding(where, f"{at}.statistic", found, allowed, OTHER)]
    unknown = next((each for each in columns if each not in meaning.names), None)
    if unknown is not None:
        found = f"the column {shown(unknown)}"
        findings.append(Finding(where, f"{at}.statistic", found, "columns of the product", OTHER))
    if draw.event.get("moves") != worst:
        terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:80]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
    return findings


def worst_moves_of_sum(stated: StatisticStatement, adjacency: Adjacency, rows: int) -> list[int]:
    """Derive whole numbers whose squares add up to the largest squared change by one privacy unit.

    Args:
        stated: what was added up.
        adjacency: neighbour relation of the contract.
        rows: of a unit, at most.
    Raises:
        LookupError, TypeError, ValueError: parameters that are none.
    """
    parameters, apart = stated.parameters, adjacency == "replace_one"
    weight = _weight(parameters["groups"])
    if parameters["kind"] != "moments":
        raise ValueError(f"kind {shown(parameters['kind'])}")
    parts = list(parameters["parts"])
    degree, radius = max(_DEGREES[part] for part in parts), 2 ** _is_whole(parameters["embedding"]["bits"])
    move = rows * weight * radius**degree * (5 if "full" in parts else 1)
    if not apart:
        return [move] * len(parts)
    turning = "sums" in parts and "counts" not in parts
    return [move] * (2 * (len(parts) - turning)) + [2 * move] * turning


def columns_of(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a sum reads: those that are embedded, and that of the labels."""
    groups = parameters["groups"]
    labels = groups if groups["kind"] == "labels" else groups.get("labels")
    return (*parameters["embedding"]["columns"], *([] if labels is None else [labels["column"]]))


def _weight(groups: Mapping[str, Any]) -> int:
    """Return what a row's weights add up to."""
    kind = groups["kind"]
    if kind == "responsibilities":
        return int(2 ** _is_whole(groups["bits"]))
    if kind not in ("everyone", "labels", "nearest_centre", "norm_shells"):
        raise ValueError(f"groups {shown(kind)}")
    return 1


def _is_whole(bits: Any) -> int:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        raise ValueError(f"bits {shown(bits)}")
    return bits


def as_written(statistic: StatisticStatement) -> dict[str, Any]:
    """Return a statement of a statistic as JSON values."""
    shapes = {name: list(shape) for name, shape in statistic.shapes.items()}
    return {"digest": statistic.digest, "parameters": statistic.parameters, "shapes": shapes}


def read_statistics(
    draws: Sequence[SumDraw], meaning: FittedMeaning, written: bytes, arrays: bytes, findings: list[Finding]
) -> dict[str, Moments]:
    """Rebuild what was added up, by key of the draw.

    Args:
        draws: what the record says of them.
        meaning: contract and product; give the layout of rows.
        written: what was added up, as its file has it.
        arrays: bytes of the arrays' file.
        findings: what is wrong is added here.
    """
    stated = [{"key": draw.key, "number": draw.number, **as_written(draw.statistic)} for draw in draws]
    found, wrong = read_json(written, where=STATISTIC_FILES[0])
    findings += wrong
    if found != stated:
        allowed = f"the {len(stated)} statistics of the record"
        findings.append(Finding(STATISTIC_FILES[0], "the statistics", shown(found), allowed, _OTHER_SUM))
        return {}
    shapes = {name: shape for each in stated for name, shape in each["shapes"].items()}
    try:
        numbers = read_arrays(arrays, shapes)
    except UNREADABLE as error:
        allowed = "the arrays of the statistics"
        findings.append(Finding(STATISTIC_FILES[1], "the file", printable(str(error)), allowed, _OTHER_SUM))
        return {}
    rebuilt = {}
    for draw in draws:
        try:
            rebuilt[draw.key] = _rebuilt(draw, meaning, numbers)
        except ValueError as error:
            field, allowed = printable(f"the statistic of {draw.key}"), "what the record describes"
            findings.append(Finding(STATISTIC_FILES[0], field, printable(str(error)), allowed, _OTHER_SUM))
    return rebuilt


def _rebuilt(draw: SumDraw, meaning: FittedMeaning, numbers: Mapping[str, NDArray[np.int64]]) -> Moments:
    """Rebuild one statistic, and hold it against the record and the contract.

    Raises:
        ValueError: it is another, or none.
    """
    stated = draw.statistic
    own = {name: array for name, array in numbers.items() if name in stated.shapes}
    statistic = read_statistic(stated.parameters, own)
    if statistic.digest != stated.digest:
        raise ValueError(f"digest {statistic.digest}, where the record says {stated.digest}")
    if (statistic.length,) != tuple(draw.shape):
        raise ValueError(f"{statistic.length} numbers, where the record says {shown(list(draw.shape))}")
    layout = row_layout(meaning.contract, meaning.names)
    statistic.embedding.check(layout)
    statistic.groups.check(statistic.embedding, layout)
    return statistic


def check_sum_file(
    data: bytes, draw: SumDraw, event: DiscreteGaussian, statistic: Moments
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check one file of noisy sums.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
        event: its event.
        statistic: what was added up.
    Returns:
        tuple: the noisy values, or None where they cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        columns, findings = _read(data, where, statistic)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    if columns is None:
        return None, findings
    noisy = columns["noisy"]
    findings += check_digest(values_sha256(noisy), draw.sha256, "column noisy", where=where)
    for name, expected in sum_columns(statistic, noisy, variance(event)).items():
        findings += compare_column(
            columns[name],
            expected,
            where=where,
            name=name,
            source="recomputed from the statistic and the event",
            remedy=UNCERTAINTY,
            tolerance=RELATIVE_TOLERANCE if name in ("value", "variance") else 0.0,
        )
    return noisy, findings


def _read(data: bytes, where: str, statistic: Moments) -> tuple[dict[str, NDArray[Any]] | None, list[Finding]]:
    """Read the columns after names, types, number of rows and unpacked size have been checked."""
    file = pq.ParquetFile(pa.BufferReader(data))
    wanted = [(field.name, str(field.type)) for field in SUM_SCHEMA]
    found = [(field.name, str(field.type)) for field in file.schema_arrow]
    rows, length = file.metadata.num_rows, statistic.length
    unpacked, most = unpacked_size(data, file.metadata), length * _BYTES_PER_ROW + _SPARE_BYTES
    for field, is_, must in (("columns", found, wanted), ("rows", rows, length)):
        if is_ != must:
            return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
    if unpacked > most:
        return None, [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {most} bytes", MISFIT)]
    table = file.read()
    table.validate(full=True)
    missing = next((f.name for f in SUM_SCHEMA if not f.nullable and table.column(f.name).null_count), None)
    if missing is not None:
        return None, [Finding(where, f"column {missing}", "missing values", "a value in every row", MISFIT)]
    known = pa.array(PART_NAMES, pa.string())
    parts = pa.compute.index_in(table.column("part").cast(pa.string()), value_set=known).fill_null(-1)
    columns = {name: table.column(name).fill_null(-1).to_numpy() for name in ("i", "j")}
    columns |= {name: table.column(name).to_numpy() for name in ("group", "noisy", "value", "variance")}
    return {**columns, "part": parts.to_numpy()}, []


# --- Are the draws of a training by DP-SGD those of its plan, and does the contract allow its events?.


_PLAN: Final = frozenset(
    {
        *("sampling_probability", "expected_batch_size", "steps", "clipping_norm", "noise_multiplier"),
        *("checkpoint_every", "reserve"),
    }
)


class TrainingChecks(DrawChecks[TrainingDraw, TrainingQuery]):
    """The checks of trainings by DP-SGD."""

    events = (PoissonSampledGaussian,)

    def check(
        self,
        placed: Sequence[tuple[int, TrainingDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check relation, events and course of all trainings."""
        return check_trainings(placed, meaning.contract, where=where)

    def form(self, draw: TrainingDraw, meaning: FittedMeaning) -> FileForm:
        """Parts of a checkpoint are labels."""
        return FileForm({"part": CHECKPOINT_PARTS})

    def read(
        self, data: bytes, draw: TrainingDraw, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of a checkpoint."""
        return check_checkpoint(data, draw)

    def matching(self, query: TrainingQuery, draw: TrainingDraw, values: PublishedValues) -> TrainingQuery:
        """Compare plan and learner of an interval."""
        wanted = (query.plan.to_json(), learner_digest(query.learner))
        if (draw.training.plan, draw.training.learner) != wanted:
            raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
        return query


def check_trainings(placed: Sequence[tuple[int, TrainingDraw]], contract: Contract, *, where: str) -> list[Finding]:
    """Check the draws of all trainings.

    Args:
        placed: each draw of a training with its place among all draws.
        contract: gives adjacency and rows of a unit.
        where: the record's file name.
    """
    findings = []
    terms = contract.adjacency, contract.unit.max_rows_per_unit
    if terms != ("add_remove", 1):
        found = f"{terms[0]} with {terms[1]} rows a unit"
        allowed = "add_remove with one row a unit, for a training by DP-SGD"
        findings.append(Finding(where, "replay.adjacency", found, allowed, UNDERSTATED))
    for place, draw in placed:
        findings += _check_draw(draw, f"replay.draws[{place}]", where)
    for key in dict.fromkeys(_training_of(draw) for _, draw in placed):
        findings += _check_course([draw for _, draw in placed if _training_of(draw) == key], key, where)
    return findings


def is_last(draw: TrainingDraw) -> bool:
    """Say whether a draw is the last checkpoint of its training."""
    training = draw.training
    if training.interval is None:
        return False
    steps, every = training.plan.get("steps"), training.plan.get("checkpoint_every")
    return isinstance(steps, int) and isinstance(every, int) and (training.interval + 1) * every == steps


def _training_of(draw: TrainingDraw) -> str:
    """Name the training that a draw belongs to."""
    lost = draw.training.interval is None
    key = draw.key.rpartition("/")[0] if lost else draw.key
    return key.rpartition("/")[0]


def _check_draw(draw: TrainingDraw, at: str, where: str) -> list[Finding]:
    """Check one draw's form, and its event against the plan."""
    training, own = draw.training, is_own_file(draw.measurements)
    if set(training.plan) != _PLAN:
        return [Finding(where, f"{at}.training.plan", "another plan", f"exactly {', '.join(sorted(_PLAN))}", OTHER)]
    plan = training.plan
    event = {
        "kind": "poisson_sampled_gaussian",
        "noise_multiplier": plan["noise_multiplier"],
        "sampling_probability": plan["sampling_probability"],
        "steps": plan["checkpoint_every"],
    }
    key = f"/{training.interval:05d}" if training.interval is not None else f"/lost-{draw.number}"
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), []),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.key", shown(draw.key[-len(key) :]), shown(key)),
        (f"{at}.shape", len(draw.shape), int(training.interval is not None)),
        (f"{at}.measurements", own, is_last(draw)),
    ]
    findings = list(differences(pairs, where=where, allowed="as of every checkpoint; the last one is published"))
    if draw.event != event:
        found, allowed = printable(str(draw.event)[:120]), f"{event}, by the training's plan"
        findings.append(Finding(where, f"{at}.event", found, allowed, UNDERSTATED))
    return findings


def _check_course(draws: Sequence[TrainingDraw], key: str, where: str) -> list[Finding]:
    """Check that the draws of one training are one course."""
    stated = [draw.training for draw in draws]
    plan, at = stated[0].plan, f"replay.draws, training {shown(key)}"
    if any((each.plan, each.learner) != (plan, stated[0].learner) for each in stated):
        return [Finding(where, at, "several plans or learners", "one plan and one learner", OTHER)]
    steps, every, reserve = (plan.get(name) for name in ("steps", "checkpoint_every", "reserve"))
    if not all(isinstance(each, int) for each in (steps, every, reserve)) or not every or int(steps or 0) % every:
        return [Finding(where, at, "steps that are no whole intervals", "a plan of whole intervals", OTHER)]
    intervals = [each.interval for each in stated if each.interval is not None]
    lost, wanted = len(stated) - len(intervals), list(range(int(steps or 0) // every))
    findings = []
    if intervals != wanted:
        found = f"the intervals {shown(intervals[:12])}"
        findings.append(Finding(where, at, found, f"{len(wanted)} intervals in order", OTHER))
    if lost > int(reserve or 0):
        findings.append(Finding(where, at, f"{lost} lost attempts", f"at most {reserve}, the reserve", OTHER))
    return findings


def check_checkpoint(data: bytes, draw: TrainingDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of a checkpoint.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the checkpoint as it was drawn, in whole words; None where it cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in CHECKPOINT_SCHEMA]
        rows, numbers = file.metadata.num_rows, 2 * draw.shape[0]
        for field, is_, must in (("columns", found, wanted), ("rows", rows, numbers)):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read(columns=["value"]).column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        words = packed(column.to_numpy())
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    return words, check_digest(values_sha256(words), draw.sha256, "the checkpoint", where=where)


# --- Are draws of noisy parameters, or of noisy changes of them, as noisy as they are said to be? Derived here anew.


STEPS: Final = 2**16
_TRAINED: Final = frozenset({"label", "widths", "epochs", "batch", "learning_rate", "regulariser", "seed"})
_KINDS: Final = {
    "parameters": _TRAINED | {"kind", "lowest", "highest", "lowest_bias", "highest_bias"},
    "deltas": _TRAINED | {"kind", "rows_about", "limit", "bias_limit", "checkpoints"},
}


class ParameterChecks(DrawChecks[ParameterDraw, ParameterQuery]):
    """The checks of noisy parameters."""

    events = (DiscreteLaplaceVector, DiscreteGaussian)

    def check(
        self,
        placed: Sequence[tuple[int, ParameterDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check their form, their course, and what their events say."""
        return _check_course_of_draws(placed, meaning.contract, where)

    def form(self, draw: ParameterDraw, meaning: FittedMeaning) -> FileForm:
        """Numbers are written with dictionaries."""
        return FileForm(all_dictionaries=True)

    def read(
        self, data: bytes, draw: ParameterDraw, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of noisy parameters."""
        return check_parameter_file(data, draw)

    def matching(self, query: ParameterQuery, draw: ParameterDraw, values: PublishedValues) -> ParameterQuery:
        """Compare what was trained; of the draws before the last one nothing is published."""
        if draw.parameters.perturbation != query.perturbation.to_json():
            raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
        return query


def _check_course_of_draws(
    placed: Sequence[tuple[int, ParameterDraw]], contract: Contract, where: str
) -> list[Finding]:
    findings: list[Finding] = []
    for number, (place, draw) in enumerate(placed):
        at, stated = f"replay.draws[{place}]", draw.parameters
        made = stated.perturbation
        try:
            count, draws_in_all, epochs = _read_parameter_counts(made)
        except (KeyError, TypeError, ValueError) as error:
            found, allowed = printable(f"{type(error).__name__}: {error}"), "parameters, or changes of them"
            findings.append(Finding(where, f"{at}.parameters.perturbation", found, allowed, OTHER))
            continue
        last, own = number == draws_in_all - 1, is_own_file(draw.measurements)
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", list(draw.clique), []),
            (f"{at}.shape", list(draw.shape), [count]),
            (f"{at}.parameters.interval", stated.interval, number),
            (f"{at}.parameters.perturbation", made, placed[0][1].parameters.perturbation),
            (f"{at}.parameters, draws", len(placed), draws_in_all),
            (f"{at}.measurements", own, last),
        ]
        findings += differences(pairs, where=where, allowed="as of every draw of parameters; the last is published")
        findings += _check_event(draw.event, count, epochs, contract, f"{at}.event", where)
    return findings


def _read_parameter_counts(document: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return how many parameters there are, how many draws, and the epochs of a draw of changes; else 0."""
    kind = document["kind"]
    if kind not in _KINDS or set(document) != _KINDS[kind]:
        raise ValueError("another kind, or other fields")
    widths = [_require_whole(each, 10**5) for each in document["widths"]]
    count = sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))
    if kind == "parameters":
        return count, 1, 0
    epochs, checkpoints = (_require_whole(document["epochs"], 10**5), _require_whole(document["checkpoints"], 10**5))
    if epochs % checkpoints:
        raise ValueError("epochs that are no multiple of the checkpoints")
    return count, checkpoints, epochs // checkpoints


def _check_event(
    event: Mapping[str, Any], count: int, epochs: int, contract: Contract, at: str, where: str
) -> list[Finding]:
    """Check how far the worst neighbour moves the numbers."""
    times = count * epochs * contract.unit.max_rows_per_unit if epochs else count
    expected: dict[str, Any] = {"move": STEPS, "times": times}
    if event.get("kind") == "discrete_gaussian":
        square = STEPS * STEPS * times
        root = isqrt(square)
        expected = {"moves": [root + (root * root < square)]}
    elif event.get("kind") != "discrete_laplace_vector":
        allowed = "discrete_laplace_vector or discrete_gaussian"
        return [Finding(where, f"{at}.kind", shown(event.get("kind")), allowed, UNDERSTATED)]
    return [
        Finding(where, f"{at}.{name}", shown(event.get(name)), f"{value}, derived anew", UNDERSTATED)
        for name, value in expected.items()
        if event.get(name) != value
    ]


def _require_whole(value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError("no whole number in range")
    return value


def check_parameter_file(data: bytes, draw: ParameterDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of noisy parameters.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the numbers as they were drawn, None where they cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in PARAMETER_SCHEMA]
        for field, is_, must in (("columns", found, wanted), ("rows", [file.metadata.num_rows], list(draw.shape))):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read().column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        numbers = column.to_numpy().astype(np.int64)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    return numbers, check_digest(values_sha256(numbers), draw.sha256, "the numbers", where=where)
