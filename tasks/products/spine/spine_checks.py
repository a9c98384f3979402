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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.errors import Finding, SudareError
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent
from privacy.marginals.count_noise import variance
from privacy.refine.simplex import over_pieces
from privacy.table_plans.spine_plan import PlaceDraw, SpineCounts, SpinePlan, plan_spine, spine_counts, with_variances
from tasks.products.spine.spine_meaning import SpineMeaning, check_stated, check_tree, read_spine
from tasks.records.draws.marginal import NOISY
from tasks.records.draws.place_counts import PlaceCountDraw
from tasks.records.files.part_names import parts_among
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import FittedDraw
from tasks.records.spine.spine_fields import SpineRecord
from tasks.records.spine.spine_files import (
    PLACES_FILE,
    TOTAL,
    data_file,
    invariant_files,
    margin_clique,
    places_files,
    read_trees,
    tidy_table,
    with_invariants,
)
from tasks.records.strict_json import printable
from tasks.verification.data_files.rewriting import exact_values, version_marks
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.files.table_files import MISFIT, UNREADABLE, read_parquet
from tasks.verification.fitted.drawn_checks import DrawnChecks, compare_columns
from tasks.verification.fitted.file_forms import drawn_forms
from tasks.verification.fitted.fitted_values import FittedValues, check_fitted_values
from tasks.verification.fitted_meaning import check_table_files, csv_copy
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import OTHER
from tasks.verification.refinement_replay import values_sha256

_COLUMNS: Final = {"count": "int64", "lower": "int64", "upper": "int64"}
_MACHINES: Final = Fraction(1, 10**6)
"""By what share of its variance the calibration of noise may differ between machines."""


class SpineChecks(DrawnChecks[SpineRecord, SpineMeaning]):
    """The checks of a version of counts by place.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar = SpineRecord
    untold: tuple[str, ...] = ("whether totals of places that are published exactly are public elsewhere",)

    def __init__(self, record: SpineRecord, where: str, manifest_name: str) -> None:
        super().__init__(record, where, manifest_name)
        self._plan: SpinePlan | None = None
        self._exact: set[str] = set()
        if not record.replay.product.get("invariants"):
            self.untold = ()

    @property
    def untraced(self) -> tuple[str, ...]:
        """How the file of places was named and read, and where its totals are said to be published."""
        levels = self._record.replay.product.get("invariants")
        named = [
            f"replay.product.invariants.{printable(str(level))}.{key}"
            for level, each in (levels.items() if isinstance(levels, dict) else ())
            for key in ("column", "reference", *(key for key in each if key == "file"))
        ]
        spines = self._record.replay.product.get("other_spines")
        further = [f"other_spines.{place}" for place in range(len(spines) if isinstance(spines, list) else 0)]
        trees = [f"replay.product.{at}.{key}" for at in ("spine", *further) for key in ("file", "unbalanced")]
        return (*trees, *named)

    @property
    def rules(self) -> Mapping[int, str]:
        """Rule 9, as it reads for counts by place."""
        return {9: "counts of all levels and their intervals made again from the noisy measurements"}

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_spine(self._record.replay, where=self._where)
        return findings

    @property
    def _places(self) -> tuple[str, ...]:
        """The files of all trees of places."""
        return places_files(1 + len(self.meaning.product.other_spines)) if self.meaning is not None else ()

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that places, tables and what was drawn are all there, and nothing else."""
        replay = self._record.replay
        exact = invariant_files(self.meaning.product).values() if self.meaning is not None else ()
        beside, tables = (replay.places, *self._places, *exact), (table.data for table in replay.tables)
        return check_table_files(replay, tables, manifest.files, beside=beside, where=self._manifest_name)

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
        findings = check_stated(replay, meaning.product, self._plan, self._where)
        self._sound = not findings
        return findings

    @property
    def _planned(self) -> bool:
        return self._plan is not None

    def _check_noise(self, meaning: SpineMeaning, findings: Sequence[Finding]) -> list[Finding]:
        """Compare the events of the draws, in their order, with those of the plan."""
        if findings or self._plan is None:
            return []
        pairs = enumerate(zip(self.events, self._plan.events, strict=True))
        return [
            Finding(
                self._where,
                f"replay.draws[{place}].event",
                printable(str(event.to_json())),
                f"{wanted.to_json()}, its share of the charge",
                OTHER,
            )
            for place, (event, wanted) in pairs
            if not _alike(event, wanted)
        ]

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
        drawn = self._drawn(self.meaning, files)
        measured = [*places, *drawn.findings], list(files.skipped)
        files.skipped.clear()
        if len(drawn.noisy) < len(replay.draws):
            return measured, ([], ["all tables: not all that was drawn can be read"])
        spreads = [variance(event) for event in self.events if isinstance(event, DiscreteGaussian)]
        self._plan = with_variances(self._plan, spreads)
        made = spine_counts(self._plan, self.meaning.tree, self.meaning.contract, drawn.noisy)
        drawn.noisy.clear()  # what follows from it is there, and takes as much memory
        wrong = over_pieces(lambda draw: self._check_table(made, draw, files), self._plan.draws)
        return measured, (list(chain.from_iterable(wrong)), sorted(files.skipped))

    def _drawn(self, meaning: SpineMeaning, files: OpenFiles) -> FittedValues:
        """Read what was drawn: files that are written as here at once, all others as those of a fit."""
        replay = self._record.replay

        def read(draw: FittedDraw) -> NDArray[np.int64] | None:
            return self._exactly(draw, meaning, files) if isinstance(draw, PlaceCountDraw) else None

        found = over_pieces(read, replay.draws)
        exact = {draw.key: values for draw, values in zip(replay.draws, found, strict=True) if values is not None}
        rest = [place for place, draw in enumerate(replay.draws) if draw.key not in exact]
        others = replay.model_copy(update={"draws": tuple(replay.draws[place] for place in rest)})
        drawn = check_fitted_values(others, [self.events[place] for place in rest], meaning, files)
        return replace(drawn, noisy={**exact, **drawn.noisy})

    def _exactly(self, draw: PlaceCountDraw, meaning: SpineMeaning, files: OpenFiles) -> NDArray[np.int64] | None:
        """Return what was entered, where the file is written as here; None where it must be looked at."""
        name = draw.measurements or ""
        data = files.read(name, []) if files.is_sound(name) else None
        if data is None:
            return None
        terms: dict[str, Any] = {
            "cells": meaning.cells_at(draw.level),
            "clique": draw.clique,
            "marks": version_marks(self._record),
        }
        digest = files.manifest.files[name].sha256
        values = exact_values(data, sha256=digest, values={NOISY: "int64"}, **terms)
        if values is None or values_sha256(values[NOISY]) != draw.sha256:
            return None
        self._exact.add(name)
        return values[NOISY].reshape(draw.shape)

    def _check_table(self, made: SpineCounts, draw: PlaceDraw, files: OpenFiles) -> list[Finding]:
        """Write a table again into a digest and compare it; where it differs, find the first number that does."""
        name, meaning = data_file(draw), self.meaning
        if meaning is None or meaning.tree is None:
            return []
        expected = tidy_table(made, meaning.cells_at(draw.level), draw)
        if files.is_sound(name) and files.manifest.files[name].sha256 == expected.digest(version_marks(self._record)):
            # Rows of parts and of a CSV copy are compared with those of this file.
            if not parts_among(name, files.manifest.files) and csv_copy(name) not in files.manifest.files:
                self._exact.add(name)
            return []
        findings: list[Finding] = []
        data = files.read(name, findings)
        if data is None:
            return findings
        where, cells = printable(name), meaning.cells_at(draw.level)
        columns, wrong = read_parquet(data, where=where, cells=cells, clique=draw.clique, values=_COLUMNS)
        numbers = {column: expected.values[column] for column in _COLUMNS}
        return [*findings, *wrong, *compare_columns(columns, numbers, where)]

    def _read_totals(self, name: str, level: str, meaning: SpineMeaning, files: OpenFiles) -> NDArray[np.int64]:
        """Read the public counts of a level; the digest of the places holds them.

        Raises:
            ValueError: the file is not theirs.
        """
        findings: list[Finding] = []
        data = files.read(name, findings)
        clique = margin_clique(meaning.product, meaning.contract, level)
        terms: dict[str, Any] = {"where": name, "cells": meaning.cells_at(level), "clique": clique}
        columns = None
        if data is not None:
            columns, findings = read_parquet(data, **terms, values={TOTAL: "int64"})
        if columns is None or findings:
            raise ValueError("; ".join(f"{name}: {each.found}" for each in findings) or f"{name} cannot be read")
        return columns[TOTAL]

    def forms(self) -> Mapping[str, FileForm]:
        """Of the tables and of what was drawn; the places are compared as they are read."""
        if self.meaning is None or self.meaning.tree is None:
            return {}
        forms = drawn_forms(self._record.replay, self.meaning)
        for draw in self._plan.draws if self._plan is not None else ():
            cells = self.meaning.cells_at(draw.level)
            forms[data_file(draw)] = FileForm({name: cells.column(name).labels for name in draw.clique})
        for level, name in invariant_files(self.meaning.product).items():
            cells, clique = (
                self.meaning.cells_at(level),
                margin_clique(self.meaning.product, self.meaning.contract, level),
            )
            forms[name] = FileForm({each: cells.column(each).labels for each in clique})
        for name in self._exact:
            forms[name] = FileForm(exact=True)
        for name, tree in zip(self._places, (self.meaning.tree, *self.meaning.tree.others), strict=True):
            forms[name] = FileForm(piece=sum(tree.sizes), all_dictionaries=True)
        return forms

    def _read_places(self, files: OpenFiles) -> list[Finding]:
        """Read the trees again, and compare them with the product and the draws."""
        meaning = self.meaning
        findings: list[Finding] = []
        data = {name: files.read(name, findings) for name in self._places}
        if any(each is None for each in data.values()) or meaning is None:
            return findings
        labels = meaning.contract.column(meaning.product.spine.column).labels

        def read(name: str) -> pa.Table:
            with pq.ParquetFile(pa.BufferReader(data[name])) as file:
                return file.read()

        try:
            tree = read_trees(read, meaning.product, labels)
            whole = replace(meaning, tree=tree)
            tree = with_invariants(
                tree, meaning.product, meaning.contract, partial(self._read_totals, meaning=whole, files=files)
            )
        except (*UNREADABLE, LookupError) as error:
            return [*findings, Finding(PLACES_FILE, "the file", printable(str(error)), "the tree of places", MISFIT)]
        findings += check_tree(tree, self._record.replay, meaning, self._where)
        self.meaning = meaning if findings else replace(meaning, tree=tree)
        return findings


def _alike(event: PrivacyEvent, wanted: PrivacyEvent) -> bool:
    if not isinstance(event, DiscreteGaussian) or not isinstance(wanted, DiscreteGaussian):
        return event == wanted
    return abs(event.sigma_squared - wanted.sigma_squared) <= _MACHINES * wanted.sigma_squared
