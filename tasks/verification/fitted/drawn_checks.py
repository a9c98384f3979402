"""What is checked alike of every version that follows from draws: counts by place, statistics, a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from privacy.accounting.events import PrivacyEvent
from tasks.records.model.version_statements import DrawsRecord
from tasks.storage.progress import Bar
from tasks.verification.draws.charged_noise import check_draws
from tasks.verification.draws.draw_checks import FittedMeaning
from tasks.verification.files.table_files import OTHER_TABLE, ColumnArrays, compare_column
from tasks.verification.fitted.fitted_values import priced
from tasks.verification.fitted_meaning import check_kinds_of_draws, read_draws
from tasks.verification.inclusion import JournalledRun
from tasks.verification.outcomes import RuleFindings

RecordT = TypeVar("RecordT", bound=DrawsRecord)
MeaningT = TypeVar("MeaningT", bound=FittedMeaning)


class DrawnChecks(Generic[RecordT, MeaningT]):
    """The checks of a version that follows from draws.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    Class attributes:
        draws_complete: whether all planned draws must have been made.
    """

    draws_complete: bool = True

    def __init__(self, record: RecordT, where: str, manifest_name: str) -> None:
        self._record, self._where, self._manifest_name = record, where, manifest_name
        self.meaning: MeaningT | None = None
        self.events: tuple[PrivacyEvent, ...] = ()
        self._sound = True

    @property
    def record(self) -> RecordT:
        """The record."""
        return self._record

    @property
    def contract(self) -> Contract | None:
        """The contract, where it could be read."""
        return None if self.meaning is None else self.meaning.contract

    @property
    def priced(self) -> bool | None:
        """Whether the draws' losses can be recomputed."""
        return priced(self._record.replay, self.events)

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check the draws against journal, charge and contract."""
        replay, skipped = self._record.replay, []
        self.events, findings = read_draws(replay, where=self._where)
        if run is None:
            skipped.append("the draws against the journal: no readable run")
        else:
            findings += check_draws(replay, run, where=self._where, complete=self.draws_complete)
        if self.meaning is None or not self._planned:
            skipped.append("the draws against the contract: no valid contract or product")
        elif self.events:
            wrong = check_kinds_of_draws(replay, self.meaning, where=self._where)
            wrong += self._check_noise(self.meaning, [*findings, *wrong])
            self._sound = self._sound and not wrong
            findings += wrong
        return findings, skipped

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """Nothing is estimated that the replay does not make again."""
        return None

    @property
    def _planned(self) -> bool:
        """Whether the product could be planned again, where draws are compared with a plan."""
        return True

    def _check_noise(self, meaning: MeaningT, findings: Sequence[Finding]) -> list[Finding]:
        """Check the noise of the draws against the product; `findings` are those so far."""
        return []


def compare_columns(found: ColumnArrays | None, expected: Mapping[str, NDArray[Any]], where: str) -> list[Finding]:
    """Compare every number of a file; none of a file that could not be read."""
    if found is None:
        return []
    terms: dict[str, Any] = {
        "where": where,
        "source": "made again from the noisy measurements",
        "remedy": OTHER_TABLE,
    }
    pairs = ((name, found[name], array.reshape(-1)) for name, array in expected.items())
    return [finding for name, one, other in pairs for finding in compare_column(one, other, name=name, **terms)]
