"""The checks of a version of counts by place: rules 5, 6, 8 and 9.

1. contract and product are read again, and the product fits its contract
2. levels, tables and draws are those of the product, in their order; each draw with its share of the charge
3. each draw is the journal's, of the worst neighbour's moves
4. the places are read again: a tree over the labels of the contract's column, with the digest that the product pins,
   with as many places as the record says, and public totals that add up
5. each file of measurements holds the values that were entered, over these places
6. the estimates and the counts are made again from these values, and every published number is compared
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.spine.place_cells import PlaceCells, place_cells
from contracts.release.spine.places import PlaceTree
from contracts.release.spine.product import SpineProduct
from contracts.release.spine.spine_rules import spine_problems, tree_problems
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent
from privacy.grant.queries.place_counts import groups_digest
from privacy.marginals.uncertainty import variance
from privacy.table_plans.spine_counts import SpineCounts, spine_counts
from privacy.table_plans.spine_plan import PlaceDraw, SpinePlan, plan_spine, with_variances
from tasks.products.noise_shares import check_planned_noise
from tasks.records.draws.place_counts import PlaceCountDraw
from tasks.records.files.part_names import parts_among
from tasks.records.model.release_statement import Manifest
from tasks.records.spine.spine_files import PLACES_FILE, data_file, read_places_table, write_table
from tasks.records.spine.spine_statement import SpineRecord, SpineReplay, stated_tables
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.data_files.rewriting import version_marks
from tasks.verification.draws.charged_noise import check_draws
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.table_files import MISFIT, OTHER_TABLE, UNREADABLE, compare_column, read_parquet
from tasks.verification.files.version_folder import OpenFiles, VersionFolder
from tasks.verification.fitted.file_forms import drawn_forms
from tasks.verification.fitted.fitted_values import check_fitted_values, priced
from tasks.verification.fitted_meaning import check_kinds_of_draws, read_draws
from tasks.verification.fitted_meaning import drawn_files as files_of_draws
from tasks.verification.inclusion import JournalledRun
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import (
    FIXED_FILES,
    OTHER,
    check_file_list,
    check_forms,
    differences,
    read_again,
)

_COLUMNS: Final = ("count", "lower", "upper")


@dataclass(frozen=True)
class SpineMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product, which fits it.
        names: the columns that are counted by.
        tree: the places, once they were read.
    """

    contract: Contract
    product: SpineProduct
    names: tuple[str, ...]
    tree: PlaceTree | None = None

    def minimum_frequency_of(self, key: str) -> None:
        """No cell is suppressed."""
        return None

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns as they are: the plan names them."""
        return clique

    def cells_at(self, level: str) -> PlaceCells:
        """Return the cells of a level.

        Raises:
            LookupError: the places were not read.
        """
        if self.tree is None:
            raise LookupError("the places that its rows are of cannot be read")
        return place_cells(self.contract, self.product.spine.column, self.tree, level)


class SpineChecks:
    """The checks of a version of counts by place.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar = SpineRecord
    untold: tuple[str, ...] = ("whether totals of places that are published exactly are public elsewhere",)
    draws_complete = True

    def __init__(self, record: SpineRecord, where: str, manifest_name: str) -> None:
        self._record, self._where, self._manifest_name = record, where, manifest_name
        self.meaning: SpineMeaning | None = None
        self.events: tuple[PrivacyEvent, ...] = ()
        self._sound = True
        self._plan: SpinePlan | None = None
        self._exact: set[str] = set()
        if not record.replay.product.get("invariants"):
            self.untold = ()

    @property
    def record(self) -> SpineRecord:
        """The record."""
        return self._record

    @property
    def contract(self) -> Contract | None:
        """The contract, where it could be read."""
        return None if self.meaning is None else self.meaning.contract

    @property
    def untraced(self) -> tuple[str, ...]:
        """How the file of places was named and read, and where its totals are said to be published."""
        levels = self._record.replay.product.get("invariants")
        named = [
            f"replay.product.invariants.{printable(str(level))}.{key}"
            for level in (levels if isinstance(levels, dict) else ())
            for key in ("column", "reference")
        ]
        return ("replay.product.spine.file", "replay.product.spine.unbalanced", *named)

    @property
    def rules(self) -> Mapping[int, str]:
        """Rule 9, as it reads for counts by place."""
        return {9: "counts of all levels and their intervals made again from the noisy measurements"}

    @property
    def priced(self) -> bool | None:
        """Whether the draws' losses can be recomputed."""
        return priced(self._record.replay, self.events)

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_spine(self._record.replay, where=self._where)
        return findings

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that places, tables and what was drawn are all there, and nothing else."""
        replay = self._record.replay
        tables = {table.data for table in replay.tables}
        required = frozenset({replay.places, *tables, *FIXED_FILES} | files_of_draws(replay))
        return check_file_list(required, (), manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check that levels, tables and draws are those of the product."""
        if self.meaning is None:
            return []
        replay, meaning = self._record.replay, self.meaning
        terms: dict[str, Any] = {"epsilon": Decimal(replay.charge.epsilon), "delta": Decimal(replay.charge.delta)}
        try:
            self._plan = plan_spine(meaning.product, meaning.contract, sizes=replay.sizes, **terms)
        except (SudareError, ArithmeticError, LookupError, ValueError) as error:
            self._sound = False
            return [Finding(self._where, "replay.levels", printable(str(error)), "those of the product", OTHER)]
        findings = _check_stated(replay, meaning.product, self._plan, self._where)
        self._sound = not findings
        return findings

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check the draws against journal, charge and contract."""
        replay, skipped = self._record.replay, []
        self.events, findings = read_draws(replay, where=self._where)
        if run is None:
            skipped.append("the draws against the journal: no readable run")
        else:
            findings += check_draws(replay, run, where=self._where)
        if self.meaning is None or self._plan is None:
            skipped.append("the draws against the contract: no valid contract or product")
        elif self.events:
            wrong = check_kinds_of_draws(replay, self.meaning, where=self._where)
            wrong += (
                [] if wrong or findings else check_planned_noise(self.events, self._plan.events, where=self._where)
            )
            self._sound = self._sound and not wrong
            findings += wrong
        return findings, skipped

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Read the places, check what was drawn, then the counts that follow from it."""
        if self.meaning is None or self._plan is None or not self.events or not self._sound:
            return None
        files, replay = OpenFiles(folder, manifest, sound), self._record.replay
        places = self._read_places(files)
        if self.meaning.tree is None:
            return (places, [*files.skipped, "all measurements: the places cannot be read"]), ([], ["all tables"])
        drawn = check_fitted_values(replay, self.events, self.meaning, files)
        measured = [*places, *drawn.findings], list(files.skipped)
        files.skipped.clear()
        if len(drawn.noisy) < len(replay.draws):
            return measured, ([], ["all tables: not all that was drawn can be read"])
        spreads = [variance(event) for event in self.events if isinstance(event, DiscreteGaussian)]
        self._plan = with_variances(self._plan, spreads)
        made = spine_counts(self._plan, self.meaning.tree, self.meaning.contract, drawn.noisy)
        findings = [finding for draw in self._plan.draws for finding in self._check_table(made, draw, files, sound)]
        return measured, (findings, files.skipped)

    def _check_table(
        self, made: SpineCounts, draw: PlaceDraw, files: OpenFiles, sound: frozenset[str]
    ) -> list[Finding]:
        """Write a table again and compare its digest; where it differs, find the first number that does."""
        name, meaning = data_file(draw), self.meaning
        if meaning is None or meaning.tree is None:
            return []
        with TemporaryDirectory() as place:
            marks = version_marks(self._record)
            again = write_table(made, meaning.tree, draw, meaning.contract, Path(place), marks=marks)
        parts = parts_among(name, files.manifest.files)
        if name in sound and files.manifest.files[name].sha256 == again.sha256 and not parts:
            self._exact.add(name)
            return []
        findings: list[Finding] = []
        data = files.read(name, findings)
        if data is None:
            return findings
        expected, where = made.table(draw, meaning.tree.levels.index(draw.level)), printable(name)
        terms: dict[str, Any] = {"cells": meaning.cells_at(draw.level), "clique": draw.clique}
        columns, wrong = read_parquet(data, where=where, values=dict.fromkeys(_COLUMNS, "int64"), **terms)
        findings += wrong
        for column in _COLUMNS if columns is not None else ():
            told: dict[str, Any] = {"where": where, "name": column, "source": "made again", "remedy": OTHER_TABLE}
            findings += compare_column(columns[column], expected[column].reshape(-1), **told)  # type: ignore[index]
        return findings

    def forms(self) -> Mapping[str, FileForm]:
        """Of the tables and of what was drawn; the places are compared as they are read."""
        if self.meaning is None or self.meaning.tree is None:
            return {}
        forms = drawn_forms(self._record.replay, self.meaning)
        for draw in self._plan.draws if self._plan is not None else ():
            if data_file(draw) in self._exact:
                continue  # its bytes are those that are written
            cells = self.meaning.cells_at(draw.level)
            forms[data_file(draw)] = FileForm({name: cells.column(name).labels for name in draw.clique})
        forms[PLACES_FILE] = FileForm(piece=sum(self.meaning.tree.sizes), all_dictionaries=True)
        return forms

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """Nothing is estimated that the replay does not make again."""
        return None

    def _read_places(self, files: OpenFiles) -> list[Finding]:
        """Read the tree again, and compare it with the product and the draws."""
        meaning = self.meaning
        findings: list[Finding] = []
        data = files.read(PLACES_FILE, findings)
        if data is None or meaning is None:
            return findings
        labels = meaning.contract.column(meaning.product.spine.column).labels
        try:
            tree = read_places_table(pq.read_table(pa.BufferReader(data)), meaning.product, labels)
        except (*UNREADABLE, LookupError) as error:
            return [*findings, Finding(PLACES_FILE, "the file", printable(str(error)), "the tree of places", MISFIT)]
        findings += _check_tree(tree, self._record.replay, meaning, self._where)
        self.meaning = meaning if findings else replace(meaning, tree=tree)
        return findings


def read_spine(replay: SpineReplay, *, where: str) -> tuple[SpineMeaning | None, list[Finding]]:
    """Read what a release of counts by place is about."""
    read, findings = read_again(replay, SpineProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    problems = list(spine_problems(product, contract))
    for at, problem in problems:
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else SpineMeaning(contract, product, product.names(contract))), findings


def _check_stated(replay: SpineReplay, product: SpineProduct, plan: SpinePlan, where: str) -> list[Finding]:
    """Check that levels, tables and draws are those of the plan, one by one."""
    levels = [(level.name, level.invariant) for level in replay.levels]
    tables = [table.model_dump(mode="json") for table in replay.tables]
    drawn = [(draw.key, list(draw.clique), list(draw.shape), getattr(draw, "level", None)) for draw in replay.draws]
    listed: list[tuple[str, list[Any], list[Any]]] = [
        ("replay.levels", levels, [(name, name in product.invariants) for name in product.spine.levels]),
        ("replay.places", [replay.places], [PLACES_FILE]),
        ("replay.tables", tables, stated_tables(plan)),
        ("replay.draws", drawn, [(each.key, list(each.clique), list(each.shape), each.level) for each in plan.draws]),
        ("replay.product.spine.sha256", [product.spine.sha256 is None], [False]),
    ]
    pairs: list[tuple[str, object, object]] = []
    for at, found, expected in listed:
        pairs.append((at, f"{len(found)} of them", f"{len(expected)} of them"))
        each = enumerate(zip(found, expected, strict=False))
        pairs += [(f"{at}[{place}]", str(one), str(other)) for place, (one, other) in each]
    return list(differences(pairs, where=where, allowed="as product and contract say"))


def _check_tree(tree: PlaceTree, replay: SpineReplay, meaning: SpineMeaning, where: str) -> list[Finding]:
    """Compare places with the product's digest, with the sizes of levels, with public totals, and with each draw."""
    found = [
        Finding(
            PLACES_FILE,
            printable(".".join(map(str, at))),
            printable(problem.found),
            printable(problem.allowed),
            OTHER,
        )
        for at, problem in tree_problems(meaning.product, meaning.contract, tree)
    ]
    pairs: list[tuple[str, object, object]] = [
        ("replay.levels.places", str([level.places for level in replay.levels]), str(list(tree.sizes))),
    ]
    digests = {
        level: groups_digest(size, tree.groups(level)) for level, size in zip(tree.levels, tree.sizes, strict=True)
    }
    for place, draw in enumerate(replay.draws):
        if isinstance(draw, PlaceCountDraw):
            pairs.append((f"replay.draws[{place}].groups", draw.groups, digests[draw.level]))
    return found + list(differences(pairs, where=where, allowed="as the places of the version say"))
