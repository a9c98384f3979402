"""The checks of a synthetic version: rules 5, 6, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from contracts.errors import Finding
from privacy.evaluation.against_noisy import distance
from privacy.generators.calibration import GENERATORS, generator, task_of
from privacy.generators.generator import Model, SynthesisTask
from privacy.marginals.counts import coarser_counts
from tasks.products.synthetic.reestimation import reestimate
from tasks.products.synthetic.row_replay import check_published_rows, row_table
from tasks.records.draws.marginal import MarginalDraw
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import SyntheticRecord
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import FileForm, PublishedValues
from tasks.verification.files.folder import OpenFiles
from tasks.verification.fitted.file_forms import synthetic_forms
from tasks.verification.fitted.fit_options import check_options
from tasks.verification.fitted.fitted_checks import FittedChecks
from tasks.verification.fitted.model_reader import read_published_model
from tasks.verification.fitted.modifier_checks import RowTable
from tasks.verification.fitted_meaning import (
    SyntheticMeaning,
    check_own_fields,
    check_rows_and_model,
    csv_copy,
    modifier_checks,
    read_synthetic,
    required_files,
    row_files,
)
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import check_file_list
from tasks.verification.stated_errors import check_distances

MODEL: Final = (
    "whether the model, and so the rows, hold nothing but what the measurements tell: --deep estimates it again"
)
SEED: Final = "whether the seed of the rows was drawn blindly, and not chosen with a look at the data"


class SyntheticChecks(FittedChecks[SyntheticRecord, SyntheticMeaning, Model]):
    """The checks of a synthetic version."""

    statement: ClassVar = SyntheticRecord
    registry = GENERATORS

    @property
    def untold(self) -> tuple[str, ...]:
        """How the seed was come by, and without `--deep` whether the model comes from the measurements."""
        return (SEED,) if self._fitted_again else (MODEL, SEED)

    @property
    def rules(self) -> Mapping[int, str]:
        """Rules 8 and 9, as they read for synthetic rows."""
        return {
            8: "noisy measurements, their uncertainty, and private choices",
            9: "rows replayed from the published model and seed",
        }

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_synthetic(self._record.replay, where=self._where)
        return findings or self._read_fitter()

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that rows, measurements, choices and model are all there, and nothing else."""
        replay = self._record.replay
        required, optional = required_files(replay), {csv_copy(name) for name in row_files(replay)}
        return check_file_list(required, optional, manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check rows and model against the product, and what people are told of them."""
        if self.meaning is None:
            return []
        product, draws = self.meaning.product, self._record.replay.draws
        findings = check_rows_and_model(self._record, self.meaning, where=self._where)
        findings += check_options(draws, generator(product.generator).options, product.options, where=self._where)
        for checks in modifier_checks(product, self._record.replay):
            findings += checks.check_record(self._record, self.meaning, where=self._where)
        self._sound = self._sound and not findings
        return findings + check_own_fields(self._record, self.meaning.product.options, where=self._where)

    def _asked(self, meaning: SyntheticMeaning) -> SynthesisTask:
        charge = self._record.replay.charge
        epsilon, delta = charge.amounts
        asked = task_of(meaning.product, meaning.contract, epsilon=epsilon, delta=delta)
        return replace(asked, epsilon=charge.planned_for)

    def _fit_again(self, values: PublishedValues, meaning: SyntheticMeaning, model: Model, bar: Bar) -> RuleFindings:
        return reestimate(self._record.replay, self.events, values, meaning, model, bar)

    def forms(self) -> Mapping[str, FileForm]:
        """Of what was drawn, and of model and rows."""
        return {} if self.meaning is None else synthetic_forms(self._record.replay, self.meaning)

    def _check_outcome(self, files: OpenFiles, meaning: SyntheticMeaning) -> list[Finding]:
        """Read the model, and make the rows again."""
        findings: list[Finding] = []
        replay, modifiers = self._record.replay, modifier_checks(meaning.product, self._record.replay)
        names = row_files(replay)
        values, arrays = (files.read(name, findings) for name in (replay.model.values, replay.model.arrays))
        rows = {name: data for name in names if (data := files.read(name, findings)) is not None}
        if values is None or arrays is None:
            return findings
        model, wrong = read_published_model(replay.model, meaning, values, arrays)
        findings += wrong
        self._model = model
        if model is None:
            files.skipped += [f"{printable(name)}: there is no model that it could come from" for name in names]
            return findings
        apart = {
            draw.key: distance(
                coarser_counts(draw.resolution(meaning.contract), model.marginal(tuple(draw.clique))),
                self._values[draw.key],
            )
            for draw in replay.draws
            if draw.key in self._values and isinstance(draw, MarginalDraw)
        }
        findings += check_distances(self._record, apart, where=self._where)
        tables: tuple[RowTable, ...] = (row_table(model, replay.rows, meaning),)
        for checks in modifiers:
            tables = checks.tables(tables, model, replay, meaning)
        for table in tables:
            name = csv_copy(table.data)
            csv = files.read(name, findings) if table.in_all_formats and name in files.manifest.files else None
            data = rows.get(table.data) if table.in_all_formats else files.read(table.data, findings)
            if data is not None:
                copy = None if csv is None else (name, csv)
                findings += check_published_rows(table, meaning.contract, data, copy, replay.formulas)
        if not findings and len(rows) == len(names):
            findings += [finding for checks in modifiers for finding in checks.check_tables(rows, replay, meaning)]
        return findings
