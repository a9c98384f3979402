"""What is checked alike of whatever is fitted to noisy values, synthetic rows or a model: its draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.generators.calibration import FitterRegistry
from privacy.generators.generator import SynthesisTask
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import FittedRecord
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import FileForm, FittedMeaning, PublishedValues
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.fitted.drawn_checks import DrawnChecks
from tasks.verification.fitted.file_forms import drawn_forms
from tasks.verification.fitted.fit_options import options_on_word
from tasks.verification.fitted.fitted_values import check_fitted_values
from tasks.verification.fitted.fitter_plan import NamedFitter
from tasks.verification.inclusion import JournalledRun
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import OTHER

RecordT = TypeVar("RecordT", bound=FittedRecord)
MeaningT = TypeVar("MeaningT", bound=FittedMeaning)
ModelT = TypeVar("ModelT")


class FittedChecks(DrawnChecks[RecordT, MeaningT], ABC, Generic[RecordT, MeaningT, ModelT]):
    """The checks of a version whose values were fitted to noisy ones.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    Class attributes:
        registry: where the product's generator or trainer is found by its name.
    """

    registry: ClassVar[FitterRegistry]
    draws_complete = False
    """A fit that ran out of time, or a reserve that was not needed, leaves planned draws out; all are paid."""

    def __init__(self, record: RecordT, where: str, manifest_name: str) -> None:
        super().__init__(record, where, manifest_name)
        self._values: Mapping[str, NDArray[np.int64]] = {}
        self._rebuilt: Mapping[str, Any] = {}
        self._model: ModelT | None = None
        self._fitted_again = self._stands_alone = False

    @property
    def untraced(self) -> tuple[str, ...]:
        """What nothing published shows: options, and whose plan it is where two fitters have the same."""
        if self.meaning is None:
            return ()
        replay = self._record.replay
        named = () if self._stands_alone or self._fitted_again else (self._fitter.field,)
        form, stated = self.registry.load(self._fitter.name).options, replay.product["options"]
        return (*named, *options_on_word(replay.draws, form, stated, fitted_again=self._fitted_again))

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check marginals, sums, trainings and choices against journal, charge and contract, then the fitter."""
        findings, skipped = super().check_draws(run)
        if run is not None and self.meaning is not None and self._sound and not findings:
            wrong, unplanned = self._check_fitter(self.meaning, run)
            findings += wrong
            skipped += unplanned
        return findings, skipped

    @property
    def _fitter(self) -> NamedFitter:
        """The generator or trainer that the record names."""
        return NamedFitter(self.registry, self._record.replay.product[self.registry.noun], self._where)

    def _read_fitter(self) -> list[Finding]:
        """Refuse a fitter that is not registered here: nothing can be said of what it would plan or draw."""
        findings = self._fitter.check_registered()
        self.meaning = None if findings else self.meaning
        return findings

    def _check_fitter(self, meaning: MeaningT, run: JournalledRun) -> RuleFindings:
        """Check that the named fitter plans what was charged, and whether another one would."""
        written, charged = self._record.replay.product["options"], run.charge.events
        try:
            asked = self._asked(meaning)
        except ValueError as error:
            return [Finding(self._where, "replay.charge", printable(str(error)), "the charge of a fit", OTHER)], []
        findings, skipped = self._fitter.check_plan(asked, written, charged)
        if not findings and not skipped:
            self._stands_alone = self._fitter.stands_alone(asked, written, charged)
        return findings, skipped

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Check what was drawn, then what was made of it."""
        if self.meaning is None or not self.events or not self._sound:
            return None
        files = OpenFiles(folder, manifest, sound)
        drawn = check_fitted_values(self._record.replay, self.events, self.meaning, files)
        self._values, self._rebuilt = drawn.noisy, drawn.rebuilt
        measured = drawn.findings, list(files.skipped)
        files.skipped.clear()
        return measured, (self._check_outcome(files, self.meaning), files.skipped)

    def forms(self) -> Mapping[str, FileForm]:
        """Of what was drawn."""
        return {} if self.meaning is None else drawn_forms(self._record.replay, self.meaning)

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """Fit again from the published noisy values, and compare."""
        self._fitted_again = True
        measured = sum(draw.measurements is not None for draw in self._record.replay.draws)
        if self._model is None or self.meaning is None or len(self._values) != measured:
            return [], ["the model: it or what was measured cannot be read"]
        return self._fit_again(PublishedValues(self._values, self._rebuilt), self.meaning, self._model, bar)

    @abstractmethod
    def _asked(self, meaning: MeaningT) -> SynthesisTask:
        """Return what the fitter was asked for, read again, at the epsilon that the noise was planned for."""

    @abstractmethod
    def _check_outcome(self, files: OpenFiles, meaning: MeaningT) -> list[Finding]:
        """Check the model, and what comes out of it."""

    @abstractmethod
    def _fit_again(self, values: PublishedValues, meaning: MeaningT, model: ModelT, bar: Bar) -> RuleFindings:
        """Fit again and compare with the published model."""
