"""Is the record of a synthetic version about its contract, product and journal? The checks, in this order.

1. the product fits the contract; rows, model and files are named as the product and the release say
2. what the publisher says of measurements and options is what is replayed
3. each draw is of columns of the product, has a file of its own where it has one, and an event that its kind may have
4. then each kind of draw asks what it asks (`tasks.verification.draws`): above all, whether the event has the worst
   neighbour's moves
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.product import MOST_ROWS
from contracts.release.synthetic import (
    ESTIMATED,
    SyntheticProduct,
    asked_modifiers,
    named_parts,
    stated_modifiers,
    synthetic_problems,
)
from privacy.accounting.events import PrivacyEvent, event_from_json
from tasks.records.model.draw_kinds import draw_checks
from tasks.records.model.version_statements import DrawsReplay, FittedRecord, SyntheticRecord, SyntheticReplay
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import UNDERSTATED, DrawChecks, FittedMeaning
from tasks.verification.record_identity import (
    FIXED_FILES,
    OTHER,
    check_file_list,
    check_forms,
    differences,
    read_again,
)

MODEL_FILES: Final = ("model/model.json", "model/arrays.parquet")
AS_SAID: Final = "as product, contract and model say"


@dataclass(frozen=True)
class SyntheticMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the synthetic product.
        names: the columns of a row, in the contract's order.
    """

    contract: Contract
    product: SyntheticProduct
    names: tuple[str, ...]

    def minimum_frequency_of(self, key: str) -> None:
        """No cell is suppressed."""
        return None

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns in the contract's order."""
        return tuple(name for name in self.names if name in clique)


def read_synthetic(replay: SyntheticReplay, *, where: str) -> tuple[SyntheticMeaning | None, list[Finding]]:
    """Read what a release of synthetic rows is about."""
    read, findings = read_again(replay, SyntheticProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in synthetic_problems(product, contract):
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else SyntheticMeaning(contract, product, product.names(contract))), findings


def modifier_checks(product: SyntheticProduct, replay: SyntheticReplay) -> tuple[Any, ...]:
    """Return the checks of the modifiers that a product asks for, or that its record states, in their order."""
    return tuple(
        checks for _, checks in named_parts({*asked_modifiers(product), *stated_modifiers(replay)}, "checks")
    )


def stated_number(record: SyntheticRecord, meaning: SyntheticMeaning) -> tuple[int, str]:
    """Return how many rows product and model say, and why so many."""
    if meaning.product.rows != ESTIMATED:
        return meaning.product.rows, "declared"
    origin = "estimated" if meaning.contract.total is None else "public"
    return min(record.replay.model.rows, MOST_ROWS), origin


def check_rows_and_model(record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
    """Check that rows and model are those of the product, under the names that every version has."""
    replay, total = record.replay, meaning.contract.total
    rows, model, (number, origin) = replay.rows, replay.model, stated_number(record, meaning)
    pairs: list[tuple[str, object, object]] = [
        ("replay.rows.from", rows.from_, origin),
        ("replay.rows.data", rows.data, f"data/{record.release}.parquet"),
        ("replay.model.values", model.values, MODEL_FILES[0]),
        ("replay.model.arrays", model.arrays, MODEL_FILES[1]),
    ]
    if origin == "public" and total is not None:
        pairs.append(("replay.model.rows", model.rows, total.value))
    if not any(checks.decides_rows for checks in modifier_checks(meaning.product, replay)):
        pairs.append(("replay.rows.number", rows.number, number))
    return list(differences(pairs, where=where, allowed=AS_SAID))


def required_files(replay: SyntheticReplay) -> frozenset[str]:
    """Return the files that a synthetic version must have."""
    own = {replay.rows.data, replay.model.values, replay.model.arrays}
    own = own.union(*(checks.files(replay) for checks in _checks_of_record(replay)))
    return frozenset({*own, *FIXED_FILES} | drawn_files(replay))


def row_files(replay: SyntheticReplay) -> tuple[str, ...]:
    """Return the Parquet files of rows that may have a CSV copy: that of the rows, and those that modifiers add."""
    return (replay.rows.data, *(name for checks in _checks_of_record(replay) for name in checks.row_files(replay)))


def _checks_of_record(replay: SyntheticReplay) -> tuple[Any, ...]:
    """Return the checks of the modifiers that a record names, before its product is read."""
    named = {name for name, written in replay.product.items() if written is not None}
    return tuple(checks for _, checks in named_parts({*named, *stated_modifiers(replay)}, "checks"))


def drawn_files(replay: DrawsReplay) -> set[str]:
    """Return the files of what was drawn for a fit."""
    files = {draw.measurements for draw in replay.draws if draw.measurements is not None}
    return files.union(*(checks.files_beside(draws) for checks, draws in by_kind(replay)))


def check_table_files(
    replay: DrawsReplay, tables: Iterable[str], names: Iterable[str], *, beside: Iterable[str] = (), where: str
) -> list[Finding]:
    """Check that tables and what was drawn are all there, and nothing else but a CSV copy of each table.

    Args:
        replay: of the record.
        tables: the tables' Parquet files.
        names: the files of the manifest.
        beside: further files that have no CSV copy.
        where: the manifest's name.
    """
    tables = set(tables)
    required = frozenset({*tables, *beside, *FIXED_FILES} | drawn_files(replay))
    return check_file_list(required, map(csv_copy, tables), names, where=where)


def csv_copy(name: str) -> str:
    """Return the name of the CSV copy of a Parquet file, which need not be there."""
    return f"{name.removesuffix('.parquet')}.csv"


def by_kind(replay: DrawsReplay) -> Iterator[tuple[DrawChecks[Any, Any], list[Any]]]:
    """Yield the checks of each kind that was drawn, with the draws of it in their order."""
    for kind in dict.fromkeys(draw.kind for draw in replay.draws):
        yield draw_checks(kind), [draw for draw in replay.draws if draw.kind == kind]


def check_own_fields(record: FittedRecord, options: Mapping[str, Any], *, where: str) -> list[Finding]:
    """Compare the fields of the product that the publisher states by name with what is replayed."""
    fields, measured = record.declarations.fields, "product.measured"
    listed = fields.get(measured)
    files = [each.get("file") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    expected: dict[str, tuple[Any, Any]] = {
        measured: (files, [draw.measurements for draw in record.replay.draws if draw.measurements is not None]),
        "product.options": (as_far_as(options, fields.get("product.options")), dict(options)),
    }
    pairs = [(f"declarations.fields.{name}", *pair) for name, pair in expected.items() if name in fields]
    return list(differences(pairs, where=where, allowed="as it is replayed"))


def as_far_as(stated: Any, told: Any) -> Any:
    """Return of what is told those parts that are stated; what is told beside them are defaults."""
    if isinstance(stated, dict) and isinstance(told, dict):
        return {name: as_far_as(value, told.get(name)) for name, value in stated.items()}
    if isinstance(stated, list) and isinstance(told, list) and len(stated) == len(told):
        return [as_far_as(one, other) for one, other in zip(stated, told, strict=True)]
    return told


def read_draws(replay: DrawsReplay, *, where: str) -> tuple[tuple[PrivacyEvent, ...], list[Finding]]:
    """Read the event of each draw, one that its kind may have; all are read, or the findings say why."""
    events: list[PrivacyEvent] = []
    findings = []
    for place, draw in enumerate(replay.draws):
        at, kinds = f"replay.draws[{place}].event", draw_checks(draw.kind).events
        allowed = f"{' or '.join(kind.kind for kind in kinds)}, as a draw of kind {draw.kind} has"
        try:
            event = event_from_json(draw.event)
        except SudareError as error:
            findings.append(Finding(where, at, printable(str(error)), allowed, UNDERSTATED))
            continue
        if isinstance(event, kinds):
            events.append(event)
        else:
            findings.append(Finding(where, f"{at}.kind", event.kind, allowed, UNDERSTATED))
    return (() if findings else tuple(events)), findings


def check_kinds_of_draws(replay: DrawsReplay, meaning: FittedMeaning, *, where: str) -> list[Finding]:
    """Check each draw against the contract: its columns and its file, then what its kind asks."""
    findings: list[Finding] = []
    files: set[str] = set().union(*(checks.files_beside(draws) for checks, draws in by_kind(replay)))
    for place, draw in enumerate(replay.draws):
        at = f"replay.draws[{place}]"
        unknown = [name for name in draw.clique if name not in meaning.names]
        if unknown or len(set(draw.clique)) < len(draw.clique):
            found = f"columns {shown(list(draw.clique))}" if not unknown else f"the column {shown(unknown[0])}"
            findings.append(Finding(where, f"{at}.clique", found, "columns of the product, each once", OTHER))
        if draw.measurements in files:
            found, allowed = shown(draw.measurements), "a file of its own for every measurement"
            findings.append(Finding(where, f"{at}.measurements", found, allowed, OTHER))
        files |= set() if draw.measurements is None else {draw.measurements}
    if findings:
        return findings
    for checks, draws in by_kind(replay):
        placed = [(place, draw) for place, draw in enumerate(replay.draws) if draw.kind == draws[0].kind]
        findings += checks.check(placed, replay.draws, meaning, where=where)
    return findings
