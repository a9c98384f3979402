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
from contracts.release.copies import copy_path, rows_of_copy
from contracts.release.linked_rows import table_pair
from contracts.release.product_spec import MOST_ROWS
from contracts.release.synthetic import ESTIMATED, SyntheticProduct, synthetic_problems
from privacy.accounting.events import PrivacyEvent, event_from_json
from privacy.generators.rows import copy_seed, seed_text
from privacy.marginals.seeds import PostProcessingSeed
from tasks.records.model.draw_kinds import draw_checks
from tasks.records.model.synthetic_statements import (
    DrawsReplay,
    FittedRecord,
    SyntheticRecord,
    SyntheticReplay,
    SyntheticRowsStatement,
)
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
PRIOR_FILE: Final = "model/prior.json"


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


def check_rows_and_model(record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
    """Check that rows and model are those of the product, under the names that every version has."""
    replay, product, total = record.replay, meaning.product, meaning.contract.total
    rows, model, parents = replay.rows, replay.model, replay.rows.parents
    if product.counts_parents != (parents is not None):
        found, allowed = ("no rows of parents", "some") if parents is None else ("rows of parents", "none")
        return [Finding(where, "replay.rows.parents", found, f"{allowed}, as the product says", OTHER)]
    if product.rows != ESTIMATED:
        number, origin = product.rows, "declared"
    else:
        number, origin = min(model.rows, MOST_ROWS), "estimated" if total is None else "public"
    pairs: list[tuple[str, object, object]] = [
        ("replay.rows.from", rows.from_, origin),
        ("replay.rows.data", rows.data, f"data/{record.release}.parquet"),
        ("replay.model.values", model.values, MODEL_FILES[0]),
        ("replay.model.arrays", model.arrays, MODEL_FILES[1]),
    ]
    pairs.append(("replay.copies", _as_written(replay.copies), _copies(replay.rows, product.copies or 0)))
    if origin == "public" and total is not None:
        pairs.append(("replay.model.rows", model.rows, total.value))
    if parents is None:
        pairs.append(("replay.rows.number", rows.number, number))
    else:  # how many rows their sizes ask for is seen when these are made again
        pair = table_pair(meaning.names, meaning.contract)
        pairs += [
            ("replay.rows.parents.number", parents.number, number),
            ("replay.rows.parents.table", parents.table, pair.parent),
            ("replay.rows.parents.data", parents.data, f"data/{record.release}-parents.parquet"),
            ("replay.rows.parents.key", parents.key, pair.parent_key),
            ("replay.rows.parents.child_key", parents.child_key, pair.child_key),
        ]
    return list(differences(pairs, where=where, allowed="as product, contract and model say"))


def _copies(rows: SyntheticRowsStatement, copies: int) -> list[dict[str, object]]:
    """Return what must be stated of the copies of rows: their seeds are derived, so that none can be chosen."""
    seed = PostProcessingSeed(int(rows.seed, 16))
    return [
        {
            "number": rows_of_copy(rows.number, copies),
            "from": rows.from_,
            "seed": seed_text(copy_seed(seed, number)),
            "data": copy_path(rows.data, number),
        }
        for number in range(1, copies + 1)
    ]


def _as_written(stated: Iterable[SyntheticRowsStatement]) -> list[dict[str, object]]:
    return [each.model_dump(mode="json", by_alias=True) for each in stated]


def required_files(replay: SyntheticReplay) -> frozenset[str]:
    """Return the files that a synthetic version must have."""
    own = {*row_files(replay), replay.model.values, replay.model.arrays, *(copy.data for copy in replay.copies)}
    own |= set() if replay.product.get("prior") is None else {PRIOR_FILE}
    return frozenset({*own, *FIXED_FILES} | drawn_files(replay))


def row_files(replay: SyntheticReplay) -> tuple[str, ...]:
    """Return the Parquet files of rows: that of the rows, and of two linked tables that of the parent's."""
    rows = replay.rows
    return (rows.data,) if rows.parents is None else (rows.data, rows.parents.data)


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
