"""The checks of a version of adaptive tables: rules 5, 6, 8 and 9.

1. contract and product are read again, and the product fits its contract
2. tables, levels, thresholds and draws are those of the product; each draw with its share of the charge
3. each draw is the journal's, of the worst neighbour's moves
4. the file of noisy totals holds the values that were entered; the level of each group is chosen again of them
5. levels and choice are those that the second draw was asked for, and its file holds the values that were entered
6. the counts are made again of both draws, and every published number is compared
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.adaptive.adaptive_rules import adaptive_problems
from contracts.release.adaptive.product import AdaptiveProduct
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.group_levels import chosen_digest, levels_digest
from privacy.table_plans.adaptive_counts import DetailCounts, detail_counts
from privacy.table_plans.adaptive_plan import (
    AdaptivePlan,
    AdaptiveTablePlan,
    plan_adaptive,
    with_variances,
)
from tasks.records.adaptive.adaptive_files import data_file, published_rows
from tasks.records.adaptive.adaptive_statement import AdaptiveRecord, AdaptiveReplay, stated_tables
from tasks.records.draws.level_counts import LevelCountDraw
from tasks.records.model.release_statement import Manifest
from tasks.records.strict_json import printable
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.listed_rows import read_csv_rows, read_rows
from tasks.verification.files.version_folder import OpenFiles, VersionFolder
from tasks.verification.fitted.file_forms import drawn_forms
from tasks.verification.fitted.fitted_values import FittedValues, check_fitted_values
from tasks.verification.fitted.planned_checks import PlannedChecks
from tasks.verification.fitted_meaning import check_table_files
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import (
    OTHER,
    check_forms,
    differences,
    read_again,
)

_NOT_ALL: Final = "all tables: not all that was drawn can be read"


@dataclass(frozen=True)
class AdaptiveMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product, which fits it.
        names: the columns that are counted by.
        chosen: the plan of a table and the level of each group, by key of the draw of counts, once totals were read.
    """

    contract: Contract
    product: AdaptiveProduct
    names: tuple[str, ...]
    chosen: dict[str, tuple[AdaptiveTablePlan, NDArray[np.int64]]] = field(default_factory=dict)

    def minimum_frequency_of(self, key: str) -> None:
        """No cell is suppressed."""
        return None

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns as they are: the plan names them."""
        return clique

    def rows_of(self, key: str) -> tuple[Cells, tuple[str, ...], NDArray[np.int64]]:
        """Return the cells, the label columns and the row numbers of a draw's file.

        Raises:
            LookupError: the totals that chose them were not read.
        """
        if key not in self.chosen:
            raise LookupError("the noisy totals that chose its rows cannot be read")
        plan, chosen = self.chosen[key]
        return plan.cells, plan.cells.clique, plan.cells.rows(chosen)


class AdaptiveChecks(PlannedChecks[AdaptiveRecord, AdaptiveMeaning, AdaptivePlan]):
    """The checks of a version of adaptive tables.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar = AdaptiveRecord
    untold: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()

    @property
    def rules(self) -> Mapping[int, str]:
        """Rule 9, as it reads for adaptive tables."""
        return {9: "levels of groups chosen again, counts and their intervals made again from the noisy measurements"}

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_adaptive(self._record.replay, where=self._where)
        return findings

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that tables and what was drawn are all there, and nothing else."""
        replay = self._record.replay
        tables = (table.data for table in replay.tables)
        return check_table_files(replay, tables, manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check that tables and draws are those of the product."""
        if self.meaning is None:
            return []
        charge = self._record.replay.charge
        terms: dict[str, Any] = {"epsilon": Decimal(charge.epsilon), "delta": Decimal(charge.delta)}
        try:
            self._plan = plan_adaptive(self.meaning.product, self.meaning.contract, **terms)
        except (SudareError, ArithmeticError, LookupError, ValueError) as error:
            self._sound = False
            return [Finding(self._where, "replay.charge", printable(str(error)), "those of the product", OTHER)]
        findings = _check_stated(self._record.replay, self._plan, self._where)
        self._sound = not findings
        return findings

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Choose the levels again, check what was drawn at them, then the counts that follow from both."""
        if self.meaning is None or self._plan is None or not self.events or not self._sound:
            return None
        files, replay = OpenFiles(folder, manifest, sound), self._record.replay
        spreads = [event for event in self.events if isinstance(event, DiscreteGaussian | DiscreteLaplace)]
        self._plan = plan = with_variances(self._plan, spreads)
        # First the totals alone: which rows the other files have follows from them.
        totals = check_fitted_values(replay, self.events, self.meaning, OpenFiles(folder, manifest, sound))
        self._choose(plan, totals)
        drawn = check_fitted_values(replay, self.events, self.meaning, files)
        measured = [*drawn.findings, *self._check_choice(plan)], list(files.skipped)
        files.skipped.clear()
        if len(drawn.noisy) < len(replay.draws):
            return measured, ([], [_NOT_ALL])
        findings = []
        for table in plan.tables:
            made = detail_counts(table, drawn.noisy[table.totals.key], drawn.noisy[table.counts.key])
            findings += self._check_table(made, files)
        return measured, (findings, files.skipped)

    def _choose(self, plan: AdaptivePlan, totals: FittedValues) -> None:
        if self.meaning is not None:
            for table in plan.tables:
                if table.totals.key in totals.noisy:
                    chosen = table.chosen(totals.noisy[table.totals.key])
                    self.meaning.chosen[table.counts.key] = table, chosen

    def _check_choice(self, plan: AdaptivePlan) -> list[Finding]:
        """Compare levels and choice of each second draw, and how many groups have each level, with what follows."""
        replay, pairs = self._record.replay, []
        known = {} if self.meaning is None else self.meaning.chosen
        for place, draw in enumerate(replay.draws):
            if isinstance(draw, LevelCountDraw) and draw.key in known:
                table, chosen = known[draw.key]
                at, size = f"replay.draws[{place}]", int(table.cells.rows(chosen).size)
                pairs += [
                    (f"{at}.grouped_by", draw.grouped_by, len(table.totals.clique)),
                    (f"{at}.levels", draw.levels, levels_digest(table.sizes, table.cell_of)),
                    (f"{at}.chosen", draw.chosen, chosen_digest(chosen)),
                    (f"{at}.shape", list(draw.shape), [size]),
                ]
        for place, (stated, table) in enumerate(zip(replay.tables, plan.tables, strict=True)):
            if table.counts.key in known:
                number = np.bincount(known[table.counts.key][1], minlength=len(table.sizes)).tolist()
                found = [level.groups for level in stated.levels]
                pairs.append((f"replay.tables[{place}].levels.groups", str(found), str(number)))
        return list(differences(pairs, where=self._where, allowed="as the noisy totals choose"))

    def _check_table(self, made: DetailCounts, files: OpenFiles) -> list[Finding]:
        """Compare a table's Parquet file, and its CSV file where there is one, with the numbers that follow."""
        cells, name = made.plan.cells, data_file(made.plan.name)
        codes, expected = published_rows(made)
        terms: dict[str, Any] = {"cells": cells, "clique": cells.clique, "codes": codes, "values": tuple(expected)}
        return self._compare_table(files, name, expected, read=read_rows, read_csv=read_csv_rows, terms=terms)

    def forms(self) -> Mapping[str, FileForm]:
        """Of the tables and of what was drawn."""
        if self.meaning is None or self._plan is None or len(self.meaning.chosen) < len(self._plan.tables):
            return {}
        forms = drawn_forms(self._record.replay, self.meaning)
        for table in self._plan.tables:
            cells = table.cells
            forms[data_file(table.name)] = FileForm({name: cells.column(name).labels for name in cells.clique})
        return forms


def read_adaptive(replay: AdaptiveReplay, *, where: str) -> tuple[AdaptiveMeaning | None, list[Finding]]:
    """Read what a release of adaptive tables is about."""
    read, findings = read_again(replay, AdaptiveProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in adaptive_problems(product, contract):
        at_field = printable("replay.product." + ".".join(map(str, (*at, *problem.at))))
        findings.append(Finding(where, at_field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else AdaptiveMeaning(contract, product, product.names(contract))), findings


def _check_stated(replay: AdaptiveReplay, plan: AdaptivePlan, where: str) -> list[Finding]:
    """Check that tables and draws are those of the plan, one by one; groups and rows follow later."""
    numbers = [(len(replay.tables), len(plan.tables)), (len(replay.draws), len(plan.draws))]
    levels = zip(replay.tables, plan.tables, strict=False)
    numbers += [(len(stated.levels), len(table.sizes)) for stated, table in levels]
    pairs: list[tuple[str, object, object]] = [("replay.tables", found, wanted) for found, wanted in numbers]
    findings = list(differences(pairs, where=where, allowed="as many as product and contract say"))
    if findings:
        return findings
    expected = stated_tables(plan, [[level.groups for level in table.levels] for table in replay.tables])
    for place, (table, other) in enumerate(zip(replay.tables, expected, strict=True)):
        pairs.append((f"replay.tables[{place}]", str(table.model_dump(mode="json")), str(other)))
    for place, (draw, each) in enumerate(zip(replay.draws, plan.draws, strict=True)):
        kind = "level_counts" if place % 2 else "marginal"
        found, wanted = (draw.kind, draw.key, draw.clique), (kind, each.key, each.clique)
        pairs.append((f"replay.draws[{place}]", str(found), str(wanted)))
    return list(differences(pairs, where=where, allowed="as product and contract say"))
