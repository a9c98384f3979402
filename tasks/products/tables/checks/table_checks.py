"""What a verification checks of a version of tables: rules 5, 6, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.reading.scalars import parse_decimal
from contracts.release.product import AUTO
from contracts.release.tables.tables import RESIDUALS
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import CountNoise
from privacy.table_plans.plan import TOTAL_KEY, plan_product
from tasks.products.tables.checks.sparse_form import check_sparse_form
from tasks.products.tables.checks.table_replay import replay_tables
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import Record
from tasks.records.strict_json import printable, shown
from tasks.storage.progress import Bar
from tasks.verification.draws.charged_noise import MOST_MOVES, check_draws, check_moves, check_plan, read_events
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.draws.sensitivity_counts import (
    MOST_SQUARES,
    check_residual_draw,
    check_workload,
    residual_form,
)
from tasks.verification.files.folder import VersionFolder
from tasks.verification.fitted.file_forms import table_forms
from tasks.verification.inclusion import JournalledRun
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import OTHER
from tasks.verification.stated_errors import check_distances
from tasks.verification.table_meaning import Meaning, check_files, check_tables, read_meaning

# --- Was the kind of noise the one that the product leads to?.


_KIND_OF: Final = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}


def check_mechanism(record: Record, meaning: Meaning, run: JournalledRun | None, *, where: str) -> list[Finding]:
    """Choose the mechanism again, and compare it with the draws.

    Args:
        record: the record.
        meaning: contract and product.
        run: the run as the journal has it; without it no choice can be made again, for it names the accounts.
            A charge that is no number is for rule 7.
        where: the record's file name.
    """
    replay = record.replay
    epsilon, delta = _number(replay.charge.epsilon), _number(replay.charge.delta)
    if run is None or not replay.draws or epsilon is None or delta is None:
        return []
    pure = any(account.calculus.get("kind") == PureCalculus.kind for account in run.accounts.values())
    try:
        plan = plan_product(
            meaning.product,
            meaning.contract,
            epsilon=epsilon,
            delta=delta,
            pure_account=pure,
            with_total=any(draw.key == TOTAL_KEY for draw in replay.draws),
        )
    except (SudareError, ValueError, ArithmeticError) as error:
        found, allowed = printable(str(error)), "a charge that can be split over the tables"
        return [Finding(where, "replay.charge", found, allowed, OTHER)]
    findings = []
    kind, planned = replay.draws[0].event.get("kind"), _KIND_OF[plan.mechanism]
    if meaning.product.mechanism == AUTO and kind != planned:
        why = "as residuals have" if meaning.product.noise_is_gaussian else "of which the error is least"
        allowed = f"{planned}, {why}"
        findings.append(Finding(where, "replay.draws[0].event.kind", shown(kind), allowed, OTHER))
    return findings


def _number(text: str) -> Decimal | None:
    """Read an amount from its text; None where it is none that a spec could have."""
    try:
        amount = parse_decimal(text)
    except ValueError:
        return None
    return amount if amount == 0 or Decimal("1e-60") <= amount <= 1000 else None


class TablesChecks:
    """The checks of a version of tables.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar = Record

    def __init__(self, record: Record, where: str, manifest_name: str) -> None:
        self._record, self._where, self._manifest_name = record, where, manifest_name
        self._meaning: Meaning | None = None
        self._planned = False
        self._events: tuple[CountNoise, ...] = ()
        self._untold: tuple[str, ...] = ()

    @property
    def record(self) -> Record:
        """The record."""
        return self._record

    @property
    def contract(self) -> Contract | None:
        """The contract, where it could be read."""
        return None if self._meaning is None else self._meaning.contract

    @property
    def untold(self) -> tuple[str, ...]:
        """What an earlier version that does not lie beside this one would tell."""
        return self._untold

    @property
    def untraced(self) -> tuple[str, ...]:
        """Every term of the product is seen in its events or its data."""
        return ()

    @property
    def draws_complete(self) -> bool:
        """Every table has its draw."""
        return True

    @property
    def rules(self) -> Mapping[int, str]:
        """The rules say what they say for tables."""
        return {}

    @property
    def priced(self) -> bool | None:
        """Whether the draws' losses can be recomputed."""
        most = MOST_SQUARES if self._by_residuals else MOST_MOVES
        return max(len(event.moves) for event in self._events) <= most if self._events else None

    @property
    def _by_residuals(self) -> bool:
        """Whether the tables are measured by residuals."""
        return self._meaning is not None and self._meaning.product.split == RESIDUALS

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self._meaning, findings = read_meaning(self._record.replay, where=self._where)
        if self._meaning is not None and self._by_residuals:
            findings += check_workload(self._meaning, where=self._where)
            self._meaning = None if findings else self._meaning
        return findings

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check the files of all tables."""
        return check_files(self._record.replay, manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check that the tables are those of the product."""
        if self._meaning is None:
            return []
        findings = check_tables(self._record.replay, self._meaning, where=self._where)
        self._planned = not findings
        return findings

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check that each table has its draw."""
        replay, meaning, where, skipped = self._record.replay, self._meaning, self._where, []
        self._events, findings = read_events(replay, where=where)
        if run is None:
            skipped.append("the draws against the journal: no readable run")
        else:
            findings += check_draws(replay, run, where=where)
        if meaning is None:
            skipped.append("the draws against the contract: no valid contract or product")
        else:
            if self._by_residuals:
                wrong = check_residual_draw(replay.draws, meaning, where=where)
                self._planned = self._planned and not wrong
                return findings + wrong + check_mechanism(self._record, meaning, run, where=where), skipped
            wrong = check_plan(replay, meaning, where=where)
            self._planned = self._planned and not wrong
            wrong += check_sparse_form(replay, meaning, where=where) if self._planned else []
            self._planned = self._planned and not wrong
            findings += wrong + check_moves(replay.draws, meaning, where=where)
            findings += check_mechanism(self._record, meaning, run, where=where)
        return findings, skipped

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Check the measurements and refine them again."""
        if self._meaning is None or not self._events or not self._planned:
            return None
        replay, meaning = self._record.replay, self._meaning
        where = self._where
        measured, refined, untold, distances = replay_tables(
            folder, manifest, sound, replay, meaning, self._events, where=where
        )
        self._untold = tuple(untold)
        return measured, (refined[0] + check_distances(self._record, distances, where=where), refined[1])

    def forms(self) -> Mapping[str, FileForm]:
        """Labels are those of the contract or of a coarser level; a sparse table says what it does not list."""
        if self._meaning is None:
            return {}
        forms = table_forms(self._record.replay, self._meaning)
        return forms | residual_form(self._meaning) if self._by_residuals else forms

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """Tables are refined again byte for byte by rule 9: nothing is left to estimate."""
        return None
