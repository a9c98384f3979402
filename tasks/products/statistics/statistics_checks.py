"""The checks of a version of statistics: rules 5, 6, 8 and 9.

1. contract and product are read again, and the product fits its contract
2. the draws are those that the product's tables need, in their order, over the declared lattices, or over a part of
   one where the clip is private; each with its share of the charge
3. each draw is the journal's, of the worst neighbour's moves, and its file holds the values that were entered
4. private clips are found again in the histograms that were drawn for them, and compared with the draws' lattices
5. the tables are made again from these values, and every published number is compared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.statistics import StatisticsProduct, StatisticsTable
from contracts.release.statistics_rules import statistics_problems
from contracts.release.tables.tables import SUPPRESSED, MinimumFrequency
from privacy.accounting.events import DiscreteGaussian, ExponentialMechanism, PrivacyEvent
from privacy.statistics.key_counts import KeyCountNumbers
from privacy.statistics.plan import wanted_choices
from privacy.statistics.table import Columns, NoisyNumbers, refined_tables, table_values
from tasks.records.draws.draws import CellSumDraw, QuantileDraw
from tasks.records.draws.marginal import KeyCountDraw, KeyDraw, with_stated_keys
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import FittedDraw
from tasks.records.statistics_fields import StatisticsRecord, StatisticsReplay, values_digest
from tasks.records.strict_json import printable, shown
from tasks.verification.clip_checks import COUNTED, ProductMeaning, check_clips, stated_events, wanted_of
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.draws.sensitivity_sums import chosen_by
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.files.table_files import Types, read_csv_table, read_parquet
from tasks.verification.fitted.drawn_checks import DrawnChecks, compare_columns
from tasks.verification.fitted.file_forms import drawn_forms
from tasks.verification.fitted.fitted_values import check_fitted_values
from tasks.verification.fitted_meaning import check_table_files, csv_copy
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import OTHER, check_forms, differences, read_again

# --- Whether the noise of each draw of statistics is that of the product, and its share of the charge the right one.


_MACHINES: Final = Fraction(1, 10**6)
_KIND_OF = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}


def check_noise(replay: StatisticsReplay, meaning: ProductMeaning, where: str) -> list[Finding]:
    """Check that each draw's noise is of the kind that the product names."""
    kind = _KIND_OF[meaning.product.mechanism]
    return [
        Finding(
            where,
            f"replay.draws[{place}].event.kind",
            shown(draw.event.get("kind")),
            f"{kind}, as the product says",
            OTHER,
        )
        for place, draw in enumerate(replay.draws)
        if draw.event.get("kind") != kind and not isinstance(draw, KeyDraw | KeyCountDraw | QuantileDraw)
    ]


def check_shares(
    replay: StatisticsReplay, events: tuple[PrivacyEvent, ...], meaning: ProductMeaning, where: str
) -> list[Finding]:
    """Check that the noise of each draw is what its table's weight leaves it of the spec's charge."""
    try:
        planned = stated_events(replay, meaning)
    except (SudareError, ArithmeticError, ValueError) as error:
        return [Finding(where, "replay.charge", printable(str(error)), "a charge that its draws can share", OTHER)]
    allowed = "the share of the charge that the table's weight gives"
    if len(events) != len(planned):
        return []  # `_check_tables` says which draws there must be
    return [
        Finding(
            where,
            f"replay.draws[{place}].event",
            shown(str(drawn.to_json())),
            f"{wanted.to_json()}, {allowed}",
            OTHER,
        )
        for place, (drawn, wanted) in enumerate(zip(events, planned, strict=True))
        if not _alike(drawn, wanted)
    ]


def _alike(drawn: PrivacyEvent, planned: PrivacyEvent) -> bool:
    """Compare two events; of Gaussian noise up to what machines may differ by in its calibration."""
    if isinstance(drawn, DiscreteGaussian) and isinstance(planned, DiscreteGaussian):
        near = abs(drawn.sigma_squared - planned.sigma_squared) <= _MACHINES * planned.sigma_squared
        return near and drawn.moves == planned.moves
    if isinstance(drawn, ExponentialMechanism) and isinstance(planned, ExponentialMechanism):
        return abs(drawn.epsilon - planned.epsilon) <= _MACHINES * planned.epsilon
    return drawn == planned


_SHOWN: Final = 300


@dataclass(frozen=True)
class StatisticsMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product, which fits it.
        names: the columns that are grouped by or added up.
    """

    contract: Contract
    product: StatisticsProduct
    names: tuple[str, ...]

    def minimum_frequency_of(self, key: str) -> MinimumFrequency | None:
        """Return the rule under which small cells of a draw are suppressed."""
        return self.product.minimum_frequency_of(key)

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns as they are: the product names them, as `_check_tables` asks."""
        return clique


class StatisticsChecks(DrawnChecks[StatisticsRecord, StatisticsMeaning]):
    """The checks of a version of statistics.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar = StatisticsRecord
    untold: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()

    @property
    def rules(self) -> Mapping[int, str]:
        """Rule 9, as it reads for statistics."""
        return {9: "statistics and their intervals made again from the noisy measurements"}

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_statistics(self._record.replay, where=self._where)
        return findings

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that the tables and what was drawn are all there, and nothing else."""
        replay = self._record.replay
        tables = (table.data for table in replay.tables)
        return check_table_files(replay, tables, manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check that tables and draws are those of the product."""
        if self.meaning is None:
            return []
        findings = _check_tables(self._record.replay, self.meaning, self._where)
        self._sound = not findings
        return findings

    def _check_noise(self, meaning: StatisticsMeaning, findings: Sequence[Finding]) -> list[Finding]:
        """Check the noise of each draw, and its share of the charge."""
        wrong = check_noise(self._record.replay, meaning, self._where)
        return wrong or ([] if findings else check_shares(self._record.replay, self.events, meaning, self._where))

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Check what was drawn, then the tables that follow from it."""
        if self.meaning is None or not self.events or not self._sound:
            return None
        files, replay = OpenFiles(folder, manifest, sound), self._record.replay
        drawn = check_fitted_values(replay, self.events, self.meaning, files)
        measured = drawn.findings, list(files.skipped)
        files.skipped.clear()
        findings = check_clips(replay, self.meaning, drawn.noisy, files.skipped, where=self._where)
        found = [self._numbers(stated.draws, drawn.noisy) for stated in replay.tables]
        refined = self._refined(found, files.skipped)
        for table, stated, numbers in zip(self.meaning.product.tables, replay.tables, found, strict=True):
            chosen = chosen_by(replay.draws, stated.draws, drawn.noisy)
            if numbers is None or chosen is None or refined is None:
                files.skipped.append(f"{printable(stated.data)}: not all that was drawn for it can be read")
                continue
            terms: dict[str, Any] = {
                "minimum_frequency": self.meaning.product.minimum_frequency,
                "refined": refined.get(table.name),
            }
            terms["counted"] = self._key_counts(stated.draws, drawn.noisy)
            impossible = self.meaning.contract.impossible(table.by)
            expected = table_values(table, numbers, impossible, chosen=chosen, **terms)
            pairs = [(f"{self._where}, sha256 of {stated.name}", stated.sha256, values_digest(expected))]
            findings += differences(pairs, where=self._where, allowed="the digest of the numbers that follow")
            findings += self._check_files_of(table, stated.data, expected, files)
        return measured, (findings, files.skipped)

    def _refined(
        self, found: list[dict[str | None, NoisyNumbers] | None], skipped: list[str]
    ) -> dict[str, NDArray[Any]] | None:
        """Return refined counts, made again of all tables together; None where one of these cannot be read."""
        if self.meaning is None or self.meaning.product.refine is None:
            return {}
        product, known = self.meaning.product, [each for each in found if each is not None]
        if len(known) < len(found):
            skipped.append("refined counts: not all that was drawn can be read")
            return None
        named = {table.name: numbers for table, numbers in zip(product.tables, known, strict=True)}
        return refined_tables(product, named, self.meaning.contract)

    def forms(self) -> Mapping[str, FileForm]:
        """Of the tables and of what was drawn."""
        if self.meaning is None:
            return {}
        contract, forms = self.meaning.contract, drawn_forms(self._record.replay, self.meaning)
        for table in self._record.replay.tables:
            forms[table.data] = FileForm({name: contract.column(name).labels for name in table.columns})
        return forms

    def _numbers(
        self, keys: tuple[str, ...], noisy: Mapping[str, NDArray[np.int64]]
    ) -> dict[str | None, NoisyNumbers] | None:
        """Return what was drawn for a table, by `Statistic.key`; None where some of it cannot be read."""
        found: dict[str | None, NoisyNumbers] = {}
        for draw, event in zip(self._record.replay.draws, self.events, strict=True):
            if draw.key not in keys or isinstance(draw, QuantileDraw):
                continue
            if draw.key not in noisy:
                return None
            if isinstance(draw, KeyCountDraw):
                continue
            addends = draw.addends.addends if isinstance(draw, CellSumDraw) else None
            key = None if addends is None else addends.key
            found[key] = NoisyNumbers(noisy[draw.key], event, addends)  # type: ignore[arg-type]
        return found

    def _key_counts(self, keys: tuple[str, ...], noisy: Mapping[str, NDArray[np.int64]]) -> KeyCountNumbers | None:
        """Return the counts that were drawn with the keys of a table; None where no draw of it did so."""
        rows = self._contract.unit.max_rows_per_unit
        draws = zip(self._record.replay.draws, self.events, strict=True)
        counted = ((draw.key, event) for draw, event in draws if isinstance(draw, KeyCountDraw) and draw.key in keys)
        return next((KeyCountNumbers(noisy[key], event, rows) for key, event in counted), None)  # type: ignore[arg-type]

    def _check_files_of(
        self, table: StatisticsTable, name: str, expected: Columns, files: OpenFiles
    ) -> list[Finding]:
        """Compare a table's Parquet file, and its CSV file where there is one, with the numbers that follow."""
        terms: dict[str, Any] = {"cells": self._contract, "clique": table.by, "values": _types(expected)}
        if SUPPRESSED in expected:  # what is missing reads as the zeros that were made of it
            terms["marks"] = {name: array.dtype.type(0).item() for name, array in expected.items()}
            for unmarked in (SUPPRESSED, *table.may_lack):
                terms["marks"].pop(unmarked)
        terms["may_lack"] = table.may_lack
        if self._record.replay.labels is not None:
            terms["beside"] = self._contract.beside(table.by)
        findings: list[Finding] = []
        data = files.read(name, findings)
        if data is not None:
            columns, wrong = read_parquet(data, where=printable(name), **terms)
            findings += wrong + compare_columns(columns, expected, printable(name))
        csv = csv_copy(name)
        copy = files.read(csv, findings) if csv in files.manifest.files else None
        if copy is not None:
            formulas = self._record.replay.formulas
            columns, wrong = read_csv_table(copy, where=printable(csv), **terms, formulas=formulas)
            findings += wrong + compare_columns(columns, expected, printable(csv))
        return findings

    @property
    def _contract(self) -> Contract:
        if self.contract is None:
            raise ValueError("the contract was not read")
        return self.contract


def read_statistics(replay: StatisticsReplay, *, where: str) -> tuple[StatisticsMeaning | None, list[Finding]]:
    """Read what a release of statistics is about."""
    read, findings = read_again(replay, StatisticsProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in statistics_problems(product, contract):
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    contract = with_stated_keys(contract, replay.draws)
    return (None if findings else StatisticsMeaning(contract, product, product.names(contract))), findings


def _check_tables(replay: StatisticsReplay, meaning: StatisticsMeaning, where: str) -> list[Finding]:
    """Check that each table of the product has its draws, its file and its columns; and no draw is of no table."""
    chosen: dict[str, list[str]] = {}
    for each in wanted_choices(meaning.product, meaning.contract):
        chosen.setdefault(each.table, []).append(each.key)
    wanted = [
        (table.name, list(table.by), [*table.number_keys, *chosen.get(table.name, ())], f"data/{table.name}.parquet")
        for table in meaning.product.tables
    ]
    found = [(table.name, list(table.columns), list(table.draws), table.data) for table in replay.tables]
    drawn = [(draw.key, list(draw.clique), _amounts(draw)) for draw in replay.draws]
    expected = wanted_of(replay.draws, meaning)
    pairs = [*_in_pairs("replay.tables", found, wanted), *_in_pairs("replay.draws", drawn, expected)]
    return list(differences(pairs, where=where, allowed="as product and contract say"))


def _in_pairs(at: str, found: list[Any], expected: list[Any]) -> list[tuple[str, object, object]]:
    """Compare lists one by one, each as text; by their number where that differs."""
    if len(found) != len(expected):
        return [(at, f"{len(found)} of them", f"{len(expected)} of them")]
    pairs = enumerate(zip(found, expected, strict=True))
    return [
        (f"{at}[{place}]", str(one)[:_SHOWN], str(other)[:_SHOWN]) for place, (one, other) in pairs if one != other
    ]


def _amounts(draw: FittedDraw) -> dict[str, Any] | None:
    if isinstance(draw, QuantileDraw):
        return draw.choices.model_dump(mode="json")
    if isinstance(draw, KeyCountDraw):
        return COUNTED
    if isinstance(draw, KeyDraw):
        return {"groups": draw.event.get("groups")}
    return draw.addends.model_dump(exclude_none=True) if isinstance(draw, CellSumDraw) else None


def _types(columns: Columns) -> Types:
    return {name: {"i": "int64", "f": "double", "b": "bool"}[array.dtype.kind] for name, array in columns.items()}
