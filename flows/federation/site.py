"""A site: it joins a federation with its own rows, contract, ledger and account, and answers rounds.

What comes from outside is a line of JSON and parameters; what goes out is a contribution, or one of a closed set of
reasons. Before it joins, the site has its own copy of spec and contract, works out its own plan, and refuses a
coordinator that has others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from contracts.canonical import digest
from contracts.contract.contract import checks
from contracts.contract.odcs import load_contract
from contracts.errors import GateBroken, SudareError
from contracts.release.federation_spec import FederationSpec, SiteFile
from flows.periods.clock import check_clock
from flows.prepare import check_people
from privacy.coordination.coordinator import contribute_phase
from privacy.federation.rounds import FAILED, LEDGER, Call, Contribution, reason
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.across_sites import SiteShare
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import PrivateRows
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Execution
from privacy.ledger.entries import LedgerRefusal
from privacy.private_table import PrivateTable, snapshot_mark
from privacy.snapshots.snapshot import SnapshotCounts, SnapshotRows
from tasks.checkpoints import check_not_forgotten
from tasks.federation.flower import packed, unpacked
from tasks.ingest import ingest
from tasks.products.across.spec_terms import DRAWS, Federation, understood
from tasks.storage.workspace.run_folder import hold, run_name
from tasks.storage.workspace.settings import Workspace, blocks_of
from tasks.validation.misfits import Misfits, misfits, write_misfits

logger = logging.getLogger(__name__)

OTHER_SPEC = "its federation spec says something else"
OTHER_CONTRACT = "its contract is another"
OTHER_PLAN = "its plan is another: the same version of Sudare is needed"
_OTHERS: Final = {
    "spec": (OTHER_SPEC, "compare both copies"),
    "contract": (OTHER_CONTRACT, "compare both copies"),
    "plan": (OTHER_PLAN, "both need the same version of Sudare"),
}
"""Why a site does not take part where a digest is another, and what its own people are told to do."""
PLAIN = "it was asked for a contribution without secure aggregation"
WireAnswer = tuple[dict[str, Any], bytes]
Look = Callable[[Misfits, Path], None]
"""Shows the site's operator how its rows fit, and where the private page is; raises where they say no."""


@dataclass(frozen=True)
class Joined:
    """A site that has paid: its grant is open.

    Args:
        federation: as this site understands it.
        name: of the site.
        grant: the site's.
        rows: handle on its rows; None where tables are counted.
        counts: gives handles on its marginals.
        mark: the public mark of its snapshot.
        trained_rows: handle on the columns that are trained on after sums; None where nothing is summed first.
    """

    federation: Federation
    name: str
    grant: Grant
    rows: PrivateRows | None
    counts: SnapshotCounts
    mark: str
    trained_rows: PrivateRows | None = None

    def contribution(self, call: Call) -> Contribution:
        """Answer one attempt of a round, once."""
        known = self.federation
        if known.generated is not None and self.rows is not None and self.trained_rows is not None:
            handles, phased = (self.rows, self.trained_rows), known.generated
            return contribute_phase(
                self.grant, phased, *handles, call, plan=phased.plan, key=DRAWS, execution=Execution("cpu")
            )
        if self.rows is None:
            plan = known.counting
            if not 0 <= call.number < plan.rounds:
                raise CannotTrain("round", call.number, f"0 to {plan.rounds - 1}")
            counts = self.counts.marginal(plan.cliques[call.number])
            query = MarginalQuery(counts, plan.noise(call.number))
            return self.grant.draw(SiteShare(query, plan, call), key=DRAWS)
        _, learner, training = known.training
        trained = TrainingQuery(self.rows, learner, training.training, Execution("cpu"))
        return self.grant.draw(SiteShare(trained, training, call), key=DRAWS)


@contextmanager
def joined(
    site: SiteFile, spec: FederationSpec, workspace: Workspace, *, look: Look = lambda found, page: None
) -> Iterator[Joined]:
    """Take the site's rows in, reserve all rounds at its ledger, and open its grant; inside the block it answers.

    Before it pays, its operator may look how the rows fit the contract; a site that has paid only goes on.

    Args:
        site: what the site holds for itself.
        spec: its own copy of the federation.
        workspace: the site's.
        look: how the operator looks; what it raises ends the joining, and nothing is charged.
    Raises:
        GateBroken: no rows, or a declared gate; entered in the site's journal.
        LedgerRefusal: the site's account does not hold it; nothing was drawn.
        SudareError: as ingest raises it.
    Privacy: from here on the site's charge is spent, whatever happens.
    """
    known = understood(spec, load_contract(site.contract), where=str(spec.path))
    with hold(workspace.runs, run_name(spec.federation, spec.digest), keep_snapshot=True) as folder:
        with closing(workspace.open_ledger()) as ledger:
            check_not_forgotten(ledger, workspace.releases)
            check_clock(ledger, workspace.clock_ahead)
            name, events = site.source.name, known.plan.record_events
            try:
                with blocks_of(workspace):
                    table = ingest(
                        site.source,
                        known.contract,
                        folder=folder.path,
                        key=workspace.snapshot_key(),
                        memory_limit=workspace.memory_limit,
                    )
                _check_gates(table, known, workspace, folder.path)
                mark = snapshot_mark(table.keyed_hash, spec.digest)
                key = site_run_key(spec, site.site, mark)
                charge = ledger.charge(key)
                asked = None if charge is None or charge.status == "returned" else charge.request
                if asked is None or asked.source != table.source:
                    check_people(ledger, table)
            except GateBroken as broken:
                stopped = known.request(events, run_key="", account=site.account, source=name, snapshot_hash="")
                ledger.record_gate_failure(stopped, sorted({finding.field for finding in broken.findings}))
                raise
            if asked is None:
                look(*_looked(table, known, workspace, folder.path))
            ledger.reserve(
                known.request(events, run_key=key, account=site.account, source=table.source, snapshot_hash=mark)
            )
            yield _answering(known, site.site, open_grant(ledger, key), table, mark)


def _answering(federation: Federation, name: str, grant: Grant, table: PrivateTable, mark: str) -> Joined:
    """Return the site with handles on what its federation asks for."""
    rows = trained = None
    source, counts = SnapshotRows(table, federation.contract), SnapshotCounts(table, federation.contract)
    if federation.trained is not None:
        rows = source.rows(federation.trained[0].names)
    if federation.generated is not None:
        rows, trained = (
            source.rows(layout.names).with_layout(layout)
            for layout in (federation.generated.layout, federation.generated.trained_layout)
        )
    return Joined(federation, name, grant, rows, counts, mark, trained)


def site_run_key(spec: FederationSpec, site: str, mark: str) -> str:
    """Return the key of a site's run; the same site with the same rows is the same run."""
    return f"{spec.federation}-{digest({'spec': spec.digest, 'site': site, 'snapshot': mark})[:24]}"


class SiteService:
    """Answers messages for a site, at two places: queries, and what the protocol masks before it is sent.

    Which of the two a message came to is all that decides whether a contribution is given; nothing that a message
    says of itself does.

    Args:
        site: the site.
        told: told in words what it answers; these words stay at the site.
    """

    def __init__(self, site: Joined, on_message: Callable[[str], None] = lambda text: None) -> None:
        self._site, self._why, self._told = site, "", on_message
        self._queries: dict[str, Callable[[dict[str, Any], bytes], WireAnswer]] = {
            "join": self._join,
            "round": self._refused_plain if self.masks else self._round,
            "why": lambda header, body: ({"refused": self._why or FAILED}, b""),
        }

    @property
    def masks(self) -> bool:
        """Whether contributions go out under secure aggregation."""
        return self._site.federation.plan.trust.secure_aggregation

    def __call__(self, message: bytes) -> bytes:
        """Answer a query, whose answer is sent as it is; an error goes out as a reason, without its text."""
        return self._answered(message, self._queries)

    def masked(self, message: bytes) -> bytes:
        """Answer the handler that secure aggregation runs: rounds, where the trust asks for it, and nothing else."""
        return self._answered(message, {"round": self._round} if self.masks else {})

    def _answered(
        self, message: bytes, handlers: Mapping[str, Callable[[dict[str, Any], bytes], WireAnswer]]
    ) -> bytes:
        try:
            header, body = unpacked(message)
            return packed(*handlers[header["op"]](header, body))
        except SudareError as error:
            self._why = reason(error)
            logger.warning("round refused: %s", error if isinstance(error, LedgerRefusal) else type(error).__name__)
            self._told(f"a round was refused: {self._why}")
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing of it may go out
            self._why = FAILED
            logger.warning("round failed: %s", type(error).__name__)
            self._told(f"a message could not be answered: {type(error).__name__}")
        return packed({"refused": self._why})

    def _join(self, header: dict[str, Any], body: bytes) -> WireAnswer:
        """Compare what the coordinator holds with this site's own copies."""
        del body
        told, why = {"site": self._site.name}, self._other(header)
        if why:
            return {**told, "refused": why}, b""
        self._told("the coordinator has the same spec, contract and plan: this site takes part")
        return {**told, "mark": self._site.mark}, b""

    def _other(self, header: dict[str, Any]) -> str:
        """Return why what the coordinator holds is not this site's; empty where it is. None given is another."""
        for name, own in self._site.federation.digests.items():
            if header.get(name) != own:
                why, remedy = _OTHERS[name]
                self._told(f"the coordinator has another {name}: this site does not take part; {remedy}")
                return why
        return ""

    def _round(self, header: dict[str, Any], body: bytes) -> WireAnswer:
        """Answer one attempt, once; a site that was started anew may meanwhile have another spec or plan."""
        why = self._other(header)
        if why:
            self._why = why
            return {"refused": why}, b""
        parameters = np.frombuffer(body, dtype="<f4").astype(np.float32)
        sent = self._site.contribution(Call(header["number"], header["attempt"], parameters))
        self._told(f"round {header['number'] + 1} was answered")
        return {"largest": 2 * self._site.federation.plan.largest_entry}, sent.residues.astype("<u4").tobytes()

    def _refused_plain(self, header: dict[str, Any], body: bytes) -> WireAnswer:
        """Refuse a contribution that would leave as it is."""
        del header, body
        self._why = PLAIN
        return {"refused": PLAIN}, b""


def _looked(table: PrivateTable, federation: Federation, workspace: Workspace, folder: Path) -> tuple[Misfits, Path]:
    """Count how the rows fit and write the private page, in the site's own folder; nothing of it leaves the site."""
    found = misfits(table, federation.contract, folder=folder, memory_limit=workspace.memory_limit)
    return found, write_misfits(found, release=federation.spec.federation, share=workspace.asks_above, folder=folder)


def _check_gates(table: PrivateTable, federation: Federation, workspace: Workspace, folder: Any) -> None:
    """Run the contract's checks where it declares gates; without one no outcome is looked at."""
    if any(check.gate for check in checks(federation.contract)):
        from tasks.validate import validate

        validate(table, federation.contract, folder=folder, memory_limit=workspace.memory_limit)


REASONS: Final = (LEDGER, FAILED, OTHER_SPEC, OTHER_CONTRACT, OTHER_PLAN, PLAIN)
"""All that a site says where it does not contribute."""
