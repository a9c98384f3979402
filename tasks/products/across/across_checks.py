"""What a verification checks of a version that was made across sites: rules 5, 6, 8 and 9.

Nothing that the record says of its execution is believed: the terms that it states are read again, and learner, plan,
events, epsilon and product are worked out from them and from the recorded contract, as every party does.
    5. the terms are those that were charged; plan, product and what a record loses follow from them; every round says
       of each site whether it is in the sum, and enough are
    6. the draws are a sum a round and lost attempts, no more than the reserve pays for, each with its planned event;
       each has the round's length, and no columns, levels or listed cells
    8. the published sums are those that were entered
    9. tables, model and rows, or weights follow from the sums
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from contracts.canonical import canonical_json
from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.federation_spec import FederationTerms
from privacy.accounting.amounts import PICO, atto_to_text
from privacy.federation.rounds import RoundSum
from privacy.learning.learners import parameters_of
from tasks.products.across.result_checks import check_output, output_forms
from tasks.products.across.results import FederatedOutput, file_names, output_of
from tasks.products.across.spec_terms import Federation, understood
from tasks.records.files.write import ROUNDS
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import RecordTerms
from tasks.records.strict_json import printable, shown
from tasks.storage.progress import Bar
from tasks.verification.draws.charged_noise import check_draws
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.array_reader import read_arrays
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.files.table_files import OTHER_NOISE
from tasks.verification.inclusion import JournalledRun
from tasks.verification.outcomes import RuleFindings
from tasks.verification.recompute.loss import NotRecomputable, recompute
from tasks.verification.record_identity import FIXED_FILES, OTHER, check_file_list, differences
from tasks.verification.refinement_replay import values_sha256

UNTOLD: Final = "that sites, rounds and sums were as the coordinator signs them: no site signs what it sent"
MOST_RESERVED: Final = 10_000
_FOLLOWS: Final = "as follows from the terms of the sites and the contract"
_LOST: Final = re.compile(r"(?P<round>.*/[0-9]{5})/lost-[0-9]{1,9}")
_OVERDRAWN: Final = "more was drawn than was charged: the loss is larger than the account was told"
_UNREADABLE: Final = (ValidationError, SudareError, ArithmeticError, LookupError, TypeError, ValueError)


class AcrossChecks:
    """The checks of a version that was made across sites.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    statement: ClassVar[type[RecordTerms]] = AcrossRecord

    def __init__(self, record: AcrossRecord, where: str, manifest_name: str) -> None:
        self._record, self._where, self._manifest_name = record, where, manifest_name
        self._known: Federation | None = None
        self._sound = False
        self._made = FederatedOutput()

    @property
    def record(self) -> AcrossRecord:
        """The record."""
        return self._record

    @property
    def contract(self) -> Contract | None:
        """The contract, where it and the terms could be read."""
        return None if self._known is None else self._known.contract

    @property
    def rules(self) -> Mapping[int, str]:
        """Rules 8 and 9, as they read for sums over sites."""
        return {8: "noisy sums over sites", 9: "what was made follows from the noisy sums"}

    @property
    def untold(self) -> tuple[str, ...]:
        """What the coordinator alone says."""
        return (UNTOLD,)

    @property
    def untraced(self) -> tuple[str, ...]:
        """Every term of the product is seen in its events or its data."""
        return ()

    @property
    def draws_complete(self) -> bool:
        """A reserve that was not needed leaves planned draws out; all are paid."""
        return False

    @property
    def priced(self) -> bool | None:
        """Events are those that the plan gives: their losses can be recomputed."""
        return True if self._sound else None

    def read(self) -> list[Finding]:
        """Read contract and terms again, and work out what they mean."""
        replay, execution = self._record.replay, self._record.replay.execution
        try:
            contract = Contract.model_validate(replay.contract)
            terms = FederationTerms.model_validate(execution.spec)
            findings = [*self._forms(contract, terms), *self._too_large(terms)]
            self._known = None if findings else understood(terms, contract, where=self._where)
        except _UNREADABLE as error:
            found, allowed = printable(str(error)), "a contract, and terms that fit it"
            return [Finding(self._where, "replay.execution.spec", found, allowed, OTHER)]
        return findings

    def _forms(self, contract: Contract, terms: FederationTerms) -> Iterator[Finding]:
        """Contract and terms are written in the one form that they have, and hash to what was charged."""
        replay = self._record.replay
        pairs = [
            ("replay.contract", _text(replay.contract), _text(contract.model_dump(mode="json"))),
            ("replay.contract_digest", replay.contract_digest, contract.digest),
            ("replay.execution.spec", _text(replay.execution.spec), _text(terms.statement)),
            ("replay.spec_digest", replay.spec_digest, terms.digest),
        ]
        for field, found, expected in pairs:
            if found != expected:
                yield Finding(self._where, field, "another", "the one form of what was charged", OTHER)

    def _too_large(self, terms: FederationTerms) -> Iterator[Finding]:
        """Refuse terms whose plan would take more memory than the rounds that were made."""
        made, training = len(self._record.replay.execution.rounds), terms.training
        asked = 0 if training is None else training.rounds
        reserved = max(
            0 if training is None else training.reserve,
            0 if terms.generator is None else terms.generator.reserve,
            0 if terms.tables is None else terms.tables.reserve,
        )
        if asked > made or reserved > MOST_RESERVED:
            found = f"{asked} rounds, {reserved} in reserve"
            allowed = f"at most the {made} that were made, and {MOST_RESERVED} in reserve"
            yield Finding(self._where, "replay.execution.spec", found, allowed, OTHER)

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that the files are those that such a run makes."""
        if self._known is None:
            return []
        required = FIXED_FILES | file_names(self._known)
        return check_file_list(required, (), manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check that all that the record says of product and execution follows from the terms."""
        known, replay = self._known, self._record.replay
        if known is None:
            return []
        charge, execution = known.spec.charge, replay.execution
        keys, rounds = [key for key, _ in known.rounds], execution.rounds
        pairs: list[tuple[str, object, object]] = [
            ("release", self._record.release, known.spec.federation),
            ("replay.product", _text(replay.product), _text(known.spec.product.model_dump(mode="json"))),
            ("replay.charge.account", replay.charge.account, charge.account),
            ("replay.charge.epsilon", replay.charge.epsilon, str(charge.epsilon)),
            ("replay.charge.delta", replay.charge.delta, str(charge.delta)),
            ("replay.charge.noise_epsilon", replay.charge.noise_epsilon, None),
            ("replay.formulas", replay.formulas, known.spec.formulas),
            ("replay.due", replay.due, None),
            ("replay.claim.epsilon", replay.claim.epsilon, known.person_epsilon),
            ("replay.claim.delta", replay.claim.delta, known.delta),
            ("replay.execution.plan", _text(execution.plan), _text(known.plan.to_json())),
            ("replay.execution.record_epsilon", execution.record_epsilon, known.record_epsilon),
            ("replay.execution.rounds", [each.key for each in rounds], keys),
        ]
        findings = list(differences(pairs, where=self._where, allowed=_FOLLOWS))
        findings += [] if findings else self._check_rounds(known)
        self._sound = not findings
        return findings

    def _check_rounds(self, federation: Federation) -> list[Finding]:
        """Each round says of every site whether it is in the sum; enough are, and it is as long as planned."""
        sites, fewest = len(federation.plan.sites), federation.plan.trust.fewest
        lengths, findings = _lengths(federation), []
        for place, each in enumerate(self._record.replay.execution.rounds):
            at = f"replay.execution.rounds[{place}]"
            if len(each.present) != sites or sum(each.present) < fewest:
                found = f"{sum(each.present)} of {len(each.present)} sites"
                allowed = f"for each of {sites} sites true or false, and at least {fewest} true"
                findings.append(Finding(self._where, f"{at}.present", found, allowed, OTHER))
            if place < len(lengths) and each.length != lengths[place]:
                found = f"{each.length} numbers"
                findings.append(Finding(self._where, f"{at}.length", found, f"{lengths[place]}, {_FOLLOWS}", OTHER))
        return findings

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check that there is a draw a round, and that lost attempts are within the reserve."""
        known, replay = self._known, self._record.replay
        if known is None or not self._sound:
            return [], ["the draws against the terms: no terms that hold"]
        findings = self._check_keys(known)
        planned = [event.to_json() for event in known.plan.person_events]
        if run is None:
            return findings, ["the draws against the journal: no readable run"]
        findings += check_draws(replay, run, where=self._where, complete=False, reserved=True)
        pairs: list[tuple[str, object, object]] = [
            ("the run's key", run.charge.run_key, known.run_key),
            ("events of the charge", _text(list(run.charge.events)), _text(planned)),
        ]
        findings += differences(pairs, where=self._where, allowed=_FOLLOWS)
        return findings + self._check_loss(planned), []

    def _check_loss(self, planned: list[dict[str, Any]]) -> list[Finding]:
        """Recompute epsilon of all that was charged, the reserve included."""
        claim = self._record.replay.claim
        try:
            again = recompute(planned, atto_to_text(claim.delta), {"kind": "pure"}).epsilon_best
        except NotRecomputable as error:
            return [Finding(self._where, "replay.claim", printable(str(error)), "events with a loss", _OVERDRAWN)]
        if again is not None and Decimal(again) * PICO <= claim.epsilon:
            return []
        found, allowed = shown(claim.epsilon), "at least what the charged events cost, recomputed"
        return [Finding(self._where, "replay.claim.epsilon", found, allowed, _OVERDRAWN)]

    def _check_keys(self, federation: Federation) -> list[Finding]:
        """Every draw is a round's, with its event, or a lost attempt of one; each round has its draw."""
        events, findings = {key: event.to_json() for key, event in federation.rounds}, []
        lost = dict.fromkeys(federation.reserves, 0)
        lengths = {each.key: [each.length] for each in self._record.replay.execution.rounds}
        drawn = [draw.key for draw in self._record.replay.draws]
        for place, draw in enumerate(self._record.replay.draws):
            attempt = _LOST.fullmatch(draw.key)
            of = draw.key if attempt is None else attempt["round"]
            lost |= {} if attempt is None else {p: lost[p] + 1 for p in lost if draw.key.startswith(f"{p}/")}
            if of not in events or draw.event != events[of]:
                at, allowed = f"replay.draws[{place}]", "a round, or a lost attempt of one, with its planned event"
                findings.append(Finding(self._where, at, shown(draw.key), allowed, OTHER))
            pairs: list[tuple[str, object, object]] = [
                (f"replay.draws[{place}].clique", list(draw.clique), []),
                (f"replay.draws[{place}].shape", list(draw.shape), lengths.get(draw.key, [])),
                (f"replay.draws[{place}].coarsening", draw.coarsening, None),
                (f"replay.draws[{place}].listed", draw.listed, None),
            ]
            findings += differences(pairs, where=self._where, allowed="as of the sum of a round, or of none")
        if missing := sorted(set(events) - set(drawn)):
            findings.append(Finding(self._where, "replay.draws", f"no {missing[0]}", "a draw a round", OTHER))
        for prefix, most in federation.reserves.items():
            if lost[prefix] > most:
                found, allowed = f"{lost[prefix]} lost attempts", f"at most {most}, which the reserve pays for"
                findings.append(Finding(self._where, f"replay.draws, {prefix}", found, allowed, _OVERDRAWN))
        return findings

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Check the sums, and make again what was made of them."""
        known = self._known
        if known is None or not self._sound:
            return None
        files, findings = OpenFiles(folder, manifest, sound), list[Finding]()
        sums = self._sums(files, findings)
        measured = findings, list(files.skipped)
        files.skipped.clear()
        if sums is None or findings:
            return measured, ([], ["what was made: its sums cannot be read, or are others"])
        try:
            self._made = output_of(known, sums)
            again = list(check_output(known, self._made, sums, files, self._record))
        except ModuleNotFoundError as missing:
            files.skipped.append(f"what was made: {missing.name} is not installed")
            again = []
        except _UNREADABLE as error:
            found, allowed = printable(str(error)), "sums from which something can be made"
            again = [Finding(ROUNDS, "the sums", found, allowed, OTHER_NOISE)]
        return measured, (again, files.skipped)

    def _sums(self, files: OpenFiles, findings: list[Finding]) -> list[RoundSum] | None:
        """Read the sums; each is that of the draw that was entered, over the sites that are stated."""
        stated = self._record.replay.execution.rounds
        data = files.read(ROUNDS, findings)
        if data is None:
            return None
        try:
            arrays = read_arrays(data, {each.key: [each.length] for each in stated})
        except (*_UNREADABLE, pa.ArrowException, OSError, MemoryError) as error:
            findings.append(Finding(ROUNDS, "the file", printable(str(error)), "the sums of all rounds", OTHER_NOISE))
            return None
        entered, sums = {draw.key: draw.sha256 for draw in self._record.replay.draws}, list[RoundSum]()
        for number, each in enumerate(stated):
            found = draw_sha256(each.present, arrays[each.key])
            if found != entered[each.key]:
                allowed = f"{entered[each.key]}, as it was entered: of these sites and numbers"
                findings.append(Finding(ROUNDS, f"SHA-256 of {each.key}", found, allowed, OTHER_NOISE))
            sums.append(RoundSum(number, each.present, arrays[each.key], found))
        return sums

    def forms(self) -> Mapping[str, FileForm]:
        """Of the sums, and of what was made."""
        if self._known is None:
            return {}
        keys = frozenset(each.key for each in self._record.replay.execution.rounds)
        return {ROUNDS: FileForm({"array": keys}, piece=None), **output_forms(self._known, self._made)}

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """All is made again by rule 9: nothing is left to estimate."""
        return None


def draw_sha256(present: tuple[bool, ...], steps: NDArray[np.int64]) -> str:
    """Return the digest of the coordinator's draw: which sites are in a sum, and the sum."""
    return values_sha256(np.concatenate([np.array(present, np.int64), steps]))


def _lengths(federation: Federation) -> list[int]:
    """Return how many numbers the sums of rounds have, in order, as far as terms and contract say."""
    if federation.generated is not None:
        return [each.length for each in federation.generated.plan.sums.sums]
    if federation.trained is not None:
        return [parameters_of(federation.trained[1])] * federation.plan.rounds
    return [federation.contract.cells(clique) for clique in federation.counting.cliques]


def _text(value: Any) -> str:
    """Write a value in its canonical form, which tells `true` from 1."""
    return canonical_json(value).decode()
