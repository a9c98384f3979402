"""A federation that ran to its end without Flower: its sites are asked in this process."""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contracts.contract.odcs import load_contract
from contracts.release.federation_spec import load_federation, load_site
from contracts.release.source import source_name
from flows.federation.federated_run import work
from flows.federation.federated_version import FederatedOutcome, federated_outcome, publish_across
from flows.federation.site import SiteService, joined
from privacy.federation.rounds import Call, Collected, summed
from tasks.federation.flower import packed, unpacked
from tasks.products.across.spec_terms import Federation, understood
from tasks.storage.workspace.settings import Workspace
from tests.worlds.federations import CONTRACT, SITES, a_coordinator, a_site, ledger_of
from tests.worlds.versions import Version


def known_of(spec: Path) -> Federation:
    terms = load_federation(spec)
    return understood(terms, load_contract(terms.contract), where=str(spec))


class Local:
    """The way to sites in this process, as messages: what Flower carries, without Flower.

    Args:
        known: the federation.
        answers: what answers for each site.
        silent: by number of the attempt, from 0, the sites that do not answer it.
    """

    def __init__(
        self, federation: Federation, answers: dict[str, SiteService], silent: Mapping[int, set[str]] | None = None
    ) -> None:
        self.known, self.answers, self.silent, self.attempts = federation, answers, silent or {}, 0

    def collect(self, call: Call) -> Collected:
        sent, away = {}, self.silent.get(self.attempts, set())
        self.attempts += 1
        for name, answer in self.answers.items():
            header = {"op": "round", "number": call.number, "attempt": call.attempt, **self.known.digests}
            message = packed(header, call.parameters.tobytes())
            told, body = ({"refused": "silent"}, b"") if name in away else unpacked(answer.masked(message))
            if "refused" not in told:
                sent[name] = np.frombuffer(body, "<u4").astype(np.uint32)
        return summed(sent, self.known.plan, {})


@dataclass(frozen=True)
class FederatedRun:
    """A federation that published a version.

    Args:
        outcome: what came of it.
        known: what its spec means.
        workspace: the coordinator's.
        told: what it said on the way.
    """

    outcome: FederatedOutcome
    known: Federation
    workspace: Workspace
    told: list[str]

    @property
    def folder(self) -> Path:
        return Path(self.outcome.version.folder)

    @property
    def version(self) -> Version:
        return Version(self.folder, self.workspace.signer())


def released(
    tmp_path: Path, federation: str, *, contract: str = CONTRACT, silent: Mapping[int, set[str]] | None = None
) -> FederatedRun:
    """Run a federation and publish its version; the coordinator's workspace is `c`, and each site has its own."""
    spec, workspace = a_coordinator(tmp_path / "c", federation=federation, contract=contract)
    sites = {name: a_site(tmp_path / name, name, federation=federation, contract=contract) for name in SITES}
    return released_by(sites, spec, workspace, silent=silent)


def released_by(
    sites: Mapping[str, tuple[Path, Workspace]],
    spec_path: Path,
    workspace: Workspace,
    *,
    silent: Mapping[int, set[str]] | None = None,
) -> FederatedRun:
    """Run a federation whose parties have all that they need: each site its file and its workspace."""
    known, told, answers = known_of(spec_path), list[str](), {}
    with ExitStack() as stack:
        for name, (path, site_workspace) in sites.items():
            answers[name] = SiteService(stack.enter_context(joined(*load_site(path), site_workspace)))
        ledger = stack.enter_context(closing(ledger_of(workspace)))
        way, source = Local(known, answers, silent), source_name(spec_path)
        rounds = work(known, ledger, way, source=source, between=0, on_message=told.append)
        began = "2026-01-01T00:00:00Z"
        made = publish_across(known, load_federation(spec_path), rounds, ledger, workspace, began=began)
        return FederatedRun(federated_outcome(made, ledger, workspace, repeated=False), known, workspace, told)
