"""The checks of a synthetic version: rules 5, 6, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract import Contract
from contracts.errors import Finding
from privacy.audit.drawn import check_draws
from privacy.audit.identity import check_listed
from privacy.audit.inclusion import JournalledRun
from privacy.audit.readable import printable
from privacy.audit.statements import Manifest
from privacy.audit.synthetic import (
    DrawnEvent,
    SyntheticMeaning,
    check_marginals_and_choices,
    check_rows_and_model,
    check_told_synthetic,
    csv_of_rows,
    read_draws,
    read_synthetic,
    required_files,
)
from privacy.audit.synthetic_statements import SyntheticRecord
from privacy.audit.told_errors import check_distances
from privacy.evaluation.against_noisy import distance
from privacy.generators.generator import Model
from privacy.learning.statistics import Statistic
from tasks.progress import Bar
from tasks.verification.files import VersionFolder
from tasks.verification.fitted_values import OpenFiles, check_fitted_values, priced
from tasks.verification.published_draws import PublishedValues
from tasks.verification.published_model import read_published_model
from tasks.verification.reestimate import reestimate
from tasks.verification.replay_rows import check_published_rows
from tasks.verification.replay_tables import Outcome

MODEL: Final = (
    "whether the model, and so the rows, hold nothing but what the measurements tell: --deep estimates it again"
)
SEED: Final = "whether the seed of the rows was drawn blindly, and not chosen with a look at the data"


class SyntheticChecks:
    """The checks of a synthetic version.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    def __init__(self, record: SyntheticRecord, where: str, manifest_name: str) -> None:
        self._record, self._where, self._manifest_name = record, where, manifest_name
        self.meaning: SyntheticMeaning | None = None
        self.events: tuple[DrawnEvent, ...] = ()
        self._sound = True
        self._values: Mapping[str, NDArray[np.int64]] = {}
        self._statistics: Mapping[str, Statistic] = {}
        self._model: Model | None = None
        self._estimated_again = False

    @property
    def record(self) -> SyntheticRecord:
        """The record."""
        return self._record

    @property
    def contract(self) -> Contract | None:
        """The contract, where it could be read."""
        return None if self.meaning is None else self.meaning.contract

    @property
    def untold(self) -> tuple[str, ...]:
        """How the seed was come by, and without `--deep` whether the model comes from the measurements."""
        return (SEED,) if self._estimated_again else (MODEL, SEED)

    @property
    def whole(self) -> bool:
        """A fit that ran out of time leaves the last planned draws out; they are paid for."""
        return False

    @property
    def rules(self) -> Mapping[int, str]:
        """Rules 8 and 9, as they read for synthetic rows."""
        return {
            8: "noisy measurements, their uncertainty, and private choices",
            9: "rows replayed from the published model and seed",
        }

    @property
    def priced(self) -> bool | None:
        """Whether the draws' losses can be recomputed."""
        return priced(self._record.replay, self.events)

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_synthetic(self._record.replay, where=self._where)
        return findings

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that rows, measurements, choices and model are all there, and nothing else."""
        replay = self._record.replay
        required, optional = required_files(replay), {csv_of_rows(replay)}
        return check_listed(required, optional, manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check rows and model against the product, and what people are told of them."""
        if self.meaning is None:
            return []
        findings = check_rows_and_model(self._record, self.meaning, where=self._where)
        self._sound = self._sound and not findings
        return findings + check_told_synthetic(self._record, self.meaning, where=self._where)

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check marginals, sums and choices against journal, charge and contract."""
        replay, skipped = self._record.replay, []
        self.events, findings = read_draws(replay, where=self._where)
        if run is None:
            skipped.append("the draws against the journal: no readable run")
        else:
            findings += check_draws(replay, run, where=self._where, whole=False)
        if self.meaning is None:
            skipped.append("the draws against the contract: no valid contract or product")
        elif self.events:
            wrong = check_marginals_and_choices(replay, self.events, self.meaning, where=self._where)
            self._sound = self._sound and not wrong
            findings += wrong
        return findings, skipped

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[Outcome, Outcome] | None:
        """Check measurements and choices, then the model, and the rows that come out of it."""
        if self.meaning is None or not self.events or not self._sound:
            return None
        files = OpenFiles(folder, manifest, sound)
        drawn = check_fitted_values(self._record.replay, self.events, self.meaning, files)
        self._values, self._statistics = drawn.noisy, drawn.statistics
        measured = drawn.findings, list(files.skipped)
        files.skipped.clear()
        return measured, (self._check_rows(files), files.skipped)

    def reestimate(self, bar: Bar) -> Outcome | None:
        """Fit the model again from the published measurements, and compare."""
        self._estimated_again = True
        replay = self._record.replay
        measured = sum(draw.measurements is not None for draw in replay.draws)
        if self._model is None or self.meaning is None or len(self._values) != measured:
            return [], ["the model: it or the measurements cannot be read"]
        measured_values = PublishedValues(self._values, self._statistics)
        return reestimate(replay, self.events, measured_values, self.meaning, self._model, bar)

    def _check_rows(self, files: OpenFiles) -> list[Finding]:
        """Read the model, and make the rows again."""
        findings: list[Finding] = []
        replay, meaning = self._record.replay, self.meaning
        names = (replay.model.values, replay.model.arrays, replay.rows.data)
        values, arrays, rows = (files.read(name, findings) for name in names)
        csv_name = csv_of_rows(replay)
        csv = files.read(csv_name, findings) if csv_name in files.manifest.files else None
        if values is None or arrays is None or meaning is None:
            return findings
        model, wrong = read_published_model(replay.model, meaning, values, arrays)
        findings += wrong
        self._model = model
        if model is None:
            files.skipped.append(f"{printable(replay.rows.data)}: there is no model that it could come from")
            return findings
        apart = {
            draw.key: distance(model.marginal(tuple(draw.clique)), self._values[draw.key])
            for draw in replay.draws
            if draw.key in self._values and draw.statistic is None and draw.training is None
        }
        findings += check_distances(self._record, apart, where=self._where)
        if rows is not None:
            copy = None if csv is None else (csv_name, csv)
            findings += check_published_rows(model, replay.rows, meaning, rows, copy)
        return findings
