"""The federated flow: sites join → ε from the coordinator's ledger → rounds over Flower → an ordinary version.

The coordinator sees no row. Each site runs `site` beside its own workspace; on one machine or on many, the code is
the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final

from contracts.contract.odcs import load_contract
from contracts.release.federation_spec import load_federation, load_site
from contracts.release.source import source_name
from flows.federation.federated_version import FederatedOutcome, federated_outcome, publish_across
from flows.federation.flower_sites import FlowerSites
from flows.federation.site import Look, SiteService, joined
from flows.periods.clock import check_clock
from privacy.coordination.coordinator import Attempts, count_across, run_phases, train_across
from privacy.federation.plans import CountingPlan
from privacy.federation.rounds import AttemptLost, Call, Collected, RoundSum, Sites
from privacy.grant.grant import open_grant
from privacy.learning.plan import Execution
from privacy.ledger.ledger import Ledger
from tasks.checkpoints import check_not_forgotten
from tasks.federation.flower import Certificates, FlowerEngine, Lasting, answering, awaited
from tasks.federation.site_keys import key_of
from tasks.products.across.spec_terms import DRAWS, Federation, understood
from tasks.publish import probe_store, published
from tasks.storage.workspace.run_folder import now_to_the_second
from tasks.storage.workspace.settings import Workspace

STARTING_SECONDS: Final = 120.0
OnMessage = Callable[[str], None]
"""Told in words how far it is; public things only."""


@dataclass(frozen=True)
class SiteNetwork:
    """How the parties reach each other.

    Args:
        environment: Flower's virtual environment.
        host: where the link listens.
        port: of the link.
        certificates: TLS; None for loopback and nothing else.
        joining: how long sites have to join [seconds].
        answering: how long a site has to answer a stage of a round [seconds].
        between: how long to wait between a lost attempt and the next [seconds].
    """

    environment: Path
    host: str
    port: int
    certificates: Certificates | None
    joining: float
    answering: float
    between: float


def federation(
    spec_path: Path, workspace: Workspace, network: SiteNetwork, *, on_message: OnMessage
) -> FederatedOutcome:
    """Coordinate as a flow that Prefect knows: its state, and in its log how far it is; within `connected()`.

    Sites are no flows: what they do hangs on their own rows, and is nobody's to see but theirs.

    Args:
        spec_path, workspace, network, told: as of `coordinate`, which says what is raised and paid.
    """
    from prefect import flow
    from prefect.logging import get_run_logger

    @flow(name="federation", retries=0, persist_result=False, log_prints=False, validate_parameters=False)
    def run(spec_path: str, workspace_path: str) -> FederatedOutcome:
        log = get_run_logger()

        def both(text: str) -> None:
            on_message(text)
            log.info(text)

        return coordinate(Path(spec_path), Workspace.open(Path(workspace_path)), network, on_message=both)

    return run(str(spec_path), str(workspace.root))


def coordinate(
    spec_path: Path, workspace: Workspace, network: SiteNetwork, *, on_message: OnMessage
) -> FederatedOutcome:
    """Train, count or sum across the sites of a federation, or resume, and publish; once, as one spec is one run.

    Args:
        spec_path: the federation spec.
        workspace: the coordinator's.
        network: how the parties reach each other.
        on_message: told how far it is.
    Returns:
        FederatedOutcome: where the version is, and who took part.
    Raises:
        StoreUnwritable: another workspace's version is there, or the store cannot be written.
        SitesMissing: fewer sites joined than a round needs; nothing was asked of any.
        LedgerRefusal: the coordinator's account does not hold it, or more attempts were lost than the reserve holds.
        EngineMissing, EngineFailed: Flower is not there, or ended by itself.
    Privacy: `FederatedPlan.person_events`, charged before round 1; each site pays from its own account.
    """
    spec = load_federation(spec_path)
    known = understood(spec, load_contract(spec.contract), where=str(spec.path))
    store = workspace.root / spec.publish
    with closing(workspace.open_ledger()) as ledger:
        check_not_forgotten(ledger, workspace.releases, store)
        before = published(ledger, known.run_key, store)
        if before is not None:
            on_message("it was released before: nothing is asked of any site")
            return federated_outcome(before, ledger, workspace, repeated=True)
        check_clock(ledger, workspace.clock_ahead)
    workspace.witnesses()  # a policy that nobody can meet costs nothing
    probe_store(store, spec.federation)
    began = now_to_the_second()
    with over_flower(known, workspace, network) as sites:
        on_message("waiting for the sites to join")
        for site_name, why in sites.join(seconds=network.joining).items():
            on_message(f"site {site_name} does not take part: {why}")
        with closing(workspace.open_ledger()) as ledger:
            rounds = work(
                known, ledger, sites, source=source_name(spec.path), between=network.between, on_message=on_message
            )
            publication = publish_across(known, spec, rounds, ledger, workspace, began=began)
            return federated_outcome(publication, ledger, workspace, repeated=False)


def work(
    federation: Federation, ledger: Ledger, sites: Sites, *, source: str, between: float, on_message: OnMessage
) -> tuple[RoundSum, ...]:
    """Charge the coordinator's account, and sum, train or count round after round; return the sums."""
    plan, account, mark = federation.plan, federation.spec.charge.account, federation.spec.digest
    ledger.reserve(
        federation.request(
            plan.person_events, run_key=federation.run_key, account=account, source=source, snapshot_hash=mark
        )
    )
    rounds, heard = iter(range(1, plan.rounds + 1)), Heard(sites)

    def summed(released: RoundSum) -> None:
        left_out = [name for name, here in zip(plan.sites, released.present, strict=True) if not here]
        why = ", ".join(f"{name}: {heard.absent[name]}" if name in heard.absent else name for name in left_out)
        on_message(f"round {next(rounds)} of {plan.rounds}" + (f", without {why}" if why else ""))

    def lost(error: Exception) -> None:
        on_message(f"an attempt was lost: {error}")
        time.sleep(between)

    attempts = Attempts(lambda: token_hex(8), AttemptLost, summed, lost)
    grant = open_grant(ledger, federation.run_key)
    if isinstance(plan, CountingPlan):
        shapes = [federation.shape(clique) for clique in plan.cliques]
        return count_across(grant, heard, shapes, plan=plan, key=DRAWS, attempts=attempts)
    if federation.generated is not None:
        phased, execution = federation.generated, Execution("cpu")
        sums, trained = run_phases(
            grant, heard, phased, plan=phased.plan, key=DRAWS, execution=execution, attempts=attempts
        )
        return (*sums, *trained.rounds)
    layout, learner, training = federation.training
    model = train_across(
        grant, heard, learner, layout, plan=training, key=DRAWS, execution=Execution("cpu"), attempts=attempts
    )
    return model.rounds


class Heard:
    """The way to the sites, which remembers why some of them were left out of the last attempt.

    Args:
        sites: the way.
    """

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.absent: Mapping[str, str] = {}

    def collect(self, call: Call) -> Collected:
        """Ask the sites."""
        collected = self._sites.collect(call)
        self.absent = collected.absent
        return collected


@contextmanager
def over_flower(federation: Federation, workspace: Workspace, network: SiteNetwork) -> Iterator[FlowerSites]:
    """Run Flower's link and app beside the coordinator, inside the block."""
    engine = FlowerEngine(network.environment, workspace.private / "flower" / "coordinator")
    link = f"{network.host}:{network.port}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="sudare-")))
        keys = federation.spec.site_keys
        linked = stack.enter_context(engine.link(network.port, network.certificates, host=network.host, keys=keys))
        address = folder / "coordinator"
        app = stack.enter_context(engine.app(address, link, network.certificates))

        def alive() -> None:
            linked.check()
            app.check()

        line = stack.enter_context(awaited(address, seconds=STARTING_SECONDS, alive=alive))
        running, nodes = (linked, app), engine.nodes() if keys else None
        sites = FlowerSites(line, federation, seconds=network.answering, running=running, nodes=nodes)
        try:
            yield sites
        finally:
            sites.stop()


@contextmanager
def site(
    site_path: Path,
    workspace: Workspace,
    *,
    environment: Path,
    link: str,
    certificates: Certificates | None,
    on_message: OnMessage = lambda text: None,
    look: Look = lambda found, page: None,
) -> Iterator[Lasting]:
    """Join a federation as a site, inside the block: pay, then answer rounds through a node of Flower's.

    Args:
        site_path: the site file.
        workspace: the site's.
        environment: Flower's virtual environment.
        link: where the coordinator's link is, HOST:PORT.
        certificates: TLS; None for loopback and nothing else.
        on_message: told what it answers, in words for this site alone.
        look: shows this site's operator how the rows fit, before it pays; what it raises ends the joining.
    Yields:
        Lasting: the node; its `check`, to be called now and then, raises when it has ended for good.
    Raises:
        SpecRefused: the spec names another key for this site than its workspace has.
        GateBroken, LedgerRefusal, SudareError: as `flows.federation.site.joined`; the site does not join.
    """
    mine, spec = load_site(site_path)
    key = key_of(mine, spec, workspace)
    engine = FlowerEngine(environment, workspace.private / "flower" / mine.site)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="sudare-")))
        address, masked = folder / "site", folder / "masked"
        answers = SiteService(stack.enter_context(joined(mine, spec, workspace, look=look)), on_message)
        stack.enter_context(answering(address, answers))
        stack.enter_context(answering(masked, answers.masked))
        node = stack.enter_context(engine.node(mine.site, (address, masked), link, certificates, key=key))
        yield node
