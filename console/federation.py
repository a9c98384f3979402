"""`sudare federation`: a model, rows or tables, across sites that keep their rows."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.output import AsJson, At, answer, print_facts, workspace_at
from console.running import Stop
from contracts.errors import Finding, SpecRefused
from contracts.release.federation_spec import load_federation, load_site
from flows.prefect_runs.server import prefect_server
from privacy.accounting.amounts import pico_to_text
from tasks.federation.flower import Certificates
from tasks.federation.site_keys import key_file, site_key
from tasks.storage.workspace.environment import federation_environment

FederationArgument = Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation spec (YAML).")]
SiteFileArgument = Annotated[Path, typer.Argument(metavar="SITE", help="The site file (YAML).")]
LinkIsClosed = Annotated[
    bool, typer.Option("--link-is-closed", help="Say that nobody but the parties can reach the link.")
]
Authority = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="The certificate authority (PEM).")]


def plan(federation: FederationArgument, as_json: AsJson = False) -> None:
    """Say what a federation costs whom, without data.

    Examples:

        sudare federation plan federation.yaml
    """
    # the plans and the ledger, which take half a second: not for `key`
    from contracts.contract.odcs import load_contract
    from tasks.products.across.spec_terms import understood
    from tasks.records.across import words
    from tasks.records.across.across_groups import noise as noise_of

    spec = load_federation(federation)
    contract = load_contract(spec.contract)
    known = understood(spec, contract, where=str(spec.path))
    noise = noise_of(known.plan.to_json())
    payload: dict[str, Any] = {
        "federation": spec.federation,
        "sites": list(known.plan.sites),
        "rounds": known.plan.rounds,
        "noise": noise,
        "person": words.person(spec, contract),
        "record": words.record(contract),
        "epsilon_person": pico_to_text(known.person_epsilon),
        "epsilon_record": pico_to_text(known.record_epsilon),
        "delta": str(spec.charge.delta),
        "trust": words.trusted(spec, contract),
        "unprotected": words.unprotected(contract),
        "spec_digest": spec.digest,
        "contract_digest": contract.digest,
    }

    def people(console: Console) -> None:
        rounds, sites = _counted(known.plan.rounds, "round"), _counted(len(known.plan.sites), "site")
        console.print(f"{spec.federation}: {rounds} over {sites}; no data was read")
        print_facts(
            console,
            [
                (
                    "a person",
                    f"ε = {payload['epsilon_person']} at δ = {payload['delta']}, from {spec.charge.account}: "
                    f"{payload['person']}",
                ),
                (
                    "a record",
                    f"ε = {payload['epsilon_record']} at δ = {payload['delta']}, from its site's account: "
                    f"{payload['record']}",
                ),
                ("noise", noise),
                ("trust", "\n".join(payload["trust"])),
                ("not protected", "\n".join(payload["unprotected"])),
                ("digest of the spec", spec.digest),
                ("of the contract", contract.digest),
            ],
        )

    answer(payload, people, as_json=as_json)


def key(site_file: SiteFileArgument, workspace: At = None, as_json: AsJson = False) -> None:
    """Make this site's key, unless it has one, and print its public half for the federation spec.

    The link takes no node but those whose keys the spec names, and each as
    the site that it names. The secret half stays in this workspace.

    Examples:

        sudare federation key north.yaml
    """
    mine, spec = load_site(site_file)
    where = workspace_at(workspace)
    public = site_key(where, spec.federation, mine.site)
    file = key_file(where, spec.federation, mine.site)
    payload = {"site": mine.site, "federation": spec.federation, "key": public, "file": str(file)}

    def people(console: Console) -> None:
        print_facts(console, [("secret half", str(file)), ("for the spec", f"sites: the entry {mine.site}")])
        console.print(f"key: {public}", soft_wrap=True, highlight=False)

    answer(payload, people, as_json=as_json)


def run(
    federation: FederationArgument,
    host: Annotated[str, typer.Option(help="Where sites reach this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port of the link.")] = 9092,
    ca: Authority = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This machine's certificate (PEM).")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its secret key (PEM).")] = None,
    joining: Annotated[float, typer.Option(help="Seconds that sites have to join.")] = 600.0,
    answering: Annotated[float, typer.Option(help="Seconds that a site has to answer one stage.")] = 120.0,
    between: Annotated[float, typer.Option(help="Seconds to wait after a lost attempt.")] = 30.0,
    link_is_closed: LinkIsClosed = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Coordinate a federation: wait for its sites, train or count, and release what they lead to.

    The same spec is the same run: after an interruption it resumes, and
    replays the rounds that were summed.

    Examples:

        sudare federation run federation.yaml

        sudare federation run federation.yaml --host 192.0.2.1 \\
          --ca ca.pem --certificate server.pem --key server.key --link-is-closed
    """
    # torch and Flower, which take seconds: not for `key` and `plan`
    from flows.federation.federated_run import SiteNetwork
    from flows.federation.federated_run import federation as federate

    keyed = bool(load_federation(federation).site_keys)
    certificates = _certificates(host, ca, certificate, key, closed=link_is_closed, keyed=keyed)
    where = workspace_at(workspace)
    network = SiteNetwork(federation_environment(), host, port, certificates, joining, answering, between)
    quiet = Console(stderr=True)
    with Stop(), prefect_server(where) as prefect:
        prefect.wait()
        with prefect.connected():
            released = federate(federation, where, network, on_message=lambda text: quiet.print(text, style="dim"))
    version, lost = released.version, released.lost
    payload = {**version.to_json(), "rounds": released.rounds, "left_out": released.left_out, "lost": lost}
    missing = (
        ", ".join(f"{name} in {_counted(times, 'round')}" for name, times in released.left_out.items()) or "nobody"
    )

    def people(console: Console) -> None:
        console.print(f"{version.release} version {version.version}: {_counted(released.rounds, 'round')} summed")
        print_facts(
            console,
            [
                ("version", version.folder),
                ("for people", f"{version.folder}/record.html"),
                ("cost", f"ε = {version.epsilon} at δ = {version.delta}"),
                ("left out", missing),
                ("lost", f"{_counted(lost, 'attempt')}, paid"),
                ("check it", f"sudare verify {version.folder} --key {version.public_key_file}"),
            ],
        )

    answer(payload, people, as_json=as_json)


def site(
    site_file: SiteFileArgument,
    link: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the coordinator is.")] = "127.0.0.1:9092",
    ca: Authority = None,
    link_is_closed: LinkIsClosed = False,
    accept_misfits: Annotated[
        bool, typer.Option("--accept-misfits", help="Join however many rows do not fit the contract.")
    ] = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Join a federation with the rows of this site; ends with Ctrl-C, or when its node ends.

    The whole cost is reserved at this site's own ledger before it joins. Before
    that you are shown, privately, how the rows fit the contract; above the
    workspace's share (1 %) a person at the terminal is asked.

    Examples:

        sudare federation site north.yaml --link 192.0.2.1:9092 --ca ca.pem --link-is-closed
    """
    # as in `run`
    from console.check import site_accepted
    from flows.federation.federated_run import site as joining

    keyed = bool(load_site(site_file)[1].site_keys)
    certificates = _certificates(link.rpartition(":")[0], ca, None, None, closed=link_is_closed, keyed=keyed)
    where, quiet = workspace_at(workspace), Console(stderr=True)
    environment = federation_environment()

    def say(text: str) -> None:
        quiet.print(text, style="dim")

    look = partial(site_accepted, share=where.asks_above, accept=accept_misfits, may_ask=not as_json)
    with (
        Stop(),
        joining(
            site_file, where, environment=environment, link=link, certificates=certificates, on_message=say, look=look
        ) as node,
    ):
        told = "paid; this site waits for the coordinator, and answers until Ctrl-C"
        answer({"joined": link, "site": str(site_file)}, lambda _: quiet.print(told, style="dim"), as_json=as_json)
        while True:
            node.check()
            time.sleep(1)


def _certificates(
    host: str, ca: Path | None, certificate: Path | None, key: Path | None, *, closed: bool, keyed: bool
) -> Certificates | None:
    """Return the certificates; without any, contributions travel in the clear, which is for loopback alone.

    Beyond loopback, sites have keys, or somebody says that the link is closed to others: without keys it asks nobody
    who they are. What a key signs is the time, and must not be overheard: keys need TLS everywhere.
    """
    findings, remedy = [], "docs/federation.md says how"
    beyond = host not in ("127.0.0.1", "localhost", "::1")
    if ca is None and (beyond or keyed):
        allowed = "TLS wherever other machines are reached, or sites have keys"
        findings.append(Finding("the command", "--ca", f"no --ca for {host}", allowed, remedy))
    if beyond and not (closed or keyed):
        found = f"{host} without --link-is-closed, and sites without keys"
        allowed = "a `key:` for every site, or a link that only the parties can reach (a private network, a firewall)"
        findings.append(Finding("the command", "--link-is-closed", found, allowed, remedy))
    if findings:
        raise SpecRefused(findings)
    if ca is None:
        return None
    return Certificates(ca.absolute(), *(None if each is None else each.absolute() for each in (certificate, key)))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
