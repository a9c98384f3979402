"""What a federated run publishes: a version like any other, whose record says how it was made across sites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from contracts.release.federation_spec import FederationSpec
from contracts.release.source import Source
from contracts.release.spec import Publish, ReleaseSpec
from contracts.release.terms import Publisher, declared
from flows.outcome import Outcome, outcome_of
from flows.steps import flow_run_ids
from privacy.federation.rounds import RoundSum
from privacy.grant.draw_replay import LOST
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.products.across.results import output_of, write_output
from tasks.products.across.spec_terms import Federation
from tasks.public_journal import show_journal
from tasks.publish import Publication, publish
from tasks.records.facts import Outputs
from tasks.records.ledger_facts import gather
from tasks.records.model.across_statements import ExecutionStatement, SumStatement
from tasks.records.outputs import AcrossPlan
from tasks.records.private_record import AuditorRecords
from tasks.records.software import software
from tasks.release_freshness import show_latest
from tasks.report import report
from tasks.storage.workspace.run_folder import now_to_the_second
from tasks.storage.workspace.settings import Workspace
from tasks.verify import check_staged


@dataclass(frozen=True)
class FederatedOutcome:
    """What came of a federation; public.

    Args:
        version: where it is, and what it cost.
        rounds: how many were summed.
        left_out: how many rounds each site is missing from, by name; none of the sites that are in all.
        lost: attempts that were lost, and paid.
    """

    version: Outcome
    rounds: int
    left_out: dict[str, int]
    lost: int


def publish_across(
    federation: Federation,
    spec: FederationSpec,
    rounds: Sequence[RoundSum],
    ledger: Ledger,
    workspace: Workspace,
    *,
    began: str,
) -> Publication:
    """Make what the sums lead to, and publish it with its record.

    Args:
        federation: the federation.
        spec: where it goes, and what is declared about it.
        rounds: the released sums, in order.
        ledger: the coordinator's.
        workspace: the coordinator's.
        began: when this attempt began.
    Privacy: released values only; they were paid for before round 1.
    """
    made, signer = output_of(federation, rounds), workspace.signer()
    execution = ExecutionStatement(
        kind="across_sites",
        spec=federation.spec.statement,
        plan=federation.plan.to_json(),
        record_epsilon=federation.record_epsilon,
        rounds=tuple(
            SumStatement(key=key, present=each.present, length=each.steps.size)
            for (key, _), each in zip(federation.rounds, rounds, strict=True)
        ),
        notes=made.notes,
    )
    plan = AcrossPlan(federation.plan.person_events, federation.person_epsilon, federation.delta)

    def write(folder: Path, version: VersionEntry) -> None:
        files = partial(write_output, federation, made, rounds, version.number)
        about = declared(spec.about, workspace.publisher or Publisher())
        when = began, now_to_the_second()
        facts = gather(
            ledger,
            release_of(spec),
            federation.contract,
            plan,
            version,
            Outputs(),
            (),
            software(),
            about=about,
            flow_run=flow_run_ids(),
            attempt=when,
            execution=execution,
            write=files,
        )
        report(facts, folder=folder, auditors=AuditorRecords(workspace.records, signer))

    store, witnesses = workspace.root / spec.publish, workspace.witnesses()
    publication = publish(ledger, signer, federation.run_key, store, write, witnesses, check=check_staged)
    show_journal(workspace, ledger)
    show_latest(workspace, ledger, publication.release, store)
    return publication


def release_of(spec: FederationSpec) -> ReleaseSpec:
    """Return the spec of the same product as one place would release it; its source stands for those of the sites."""
    csv = () if spec.learner is not None else ("csv",)
    publish_to = Publish.model_validate({"to": spec.publish, "formats": ("parquet", *csv), "formulas": spec.formulas})
    return ReleaseSpec.model_construct(
        release=spec.federation,
        contract=spec.contract,
        source=Source.model_construct(path=spec.path),
        charge=spec.charge,
        product=spec.product,
        publish=publish_to,
        about=spec.about,
        path=spec.path,
        written_paths=(str(spec.contract), "", str(spec.publish)),
    )


def federated_outcome(
    publication: Publication, ledger: Ledger, workspace: Workspace, *, repeated: bool
) -> FederatedOutcome:
    """Read from ledger and record what came of a federation, now or before."""
    replay = json.loads((publication.folder / "record.json").read_bytes())["replay"]
    rounds, members = replay["execution"]["rounds"], replay["execution"]["spec"]["sites"]
    missing = {
        member["name"]: sum(not each["present"][place] for each in rounds) for place, member in enumerate(members)
    }
    return FederatedOutcome(
        version=outcome_of(publication, ledger, workspace, repeated=repeated),
        rounds=len(rounds),
        left_out={name: times for name, times in missing.items() if times},
        lost=sum(f"/{LOST}-" in draw["key"] for draw in replay["draws"]),
    )
