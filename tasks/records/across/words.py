"""A release across sites in words: whose loss is bounded, who is trusted with what, what is not protected.

All of it follows from the terms that the parties agreed on, and from their contract.
"""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.message import message, plural
from contracts.release.federation_spec import FederationTerms
from tasks.storage.sources.gate_words import delivered, readable_somehow

OPERATORS: Final = message(
    "that the operator of each site that took part let it, who could see what share of its rows "
    "does not fit the contract"
)
NOT_CHECKED: Final = message(
    "No check can tell whether a site has the rows that it says, whether it drew its share of the noise, or who "
    "looked at contributions. They are trust, in those named above; each site's own ledger and its auditors stand "
    "for what it did."
)
WITHOUT_KEYS: Final = message(
    "Sites had no keys: who reached the coordinator's link could join as a site that was not there."
)
WITH_KEYS: Final = message(
    "each site is known by its key, which the spec names: nobody else can take part in its name"
)


def person(terms: FederationTerms, contract: Contract) -> str:
    """Say for which rows of a person the coordinator's account is charged: the unit's bound, at each of some sites.

    Where the unit is a row, an event moves by one row a site, however many rows of a person a site has.
    """
    sites, rows = terms.trust.sites_per_person, contract.unit.max_rows_per_unit
    if sites == 1:
        return _at_one_site(rows)
    if rows == 1:
        return message("one row at each of up to {sites} sites", sites=sites)
    return message("up to {rows} rows at each of up to {sites} sites", rows=rows, sites=sites)


def record(contract: Contract) -> str:
    """Say for which rows a site's account is charged."""
    column, rows = contract.unit.column, contract.unit.max_rows_per_unit
    if column is None:
        return _at_one_site(rows)
    if rows == 1:
        return message("one row of one {unit} at one site", unit=column)
    return message("up to {rows} rows of one {unit} at one site", rows=rows, unit=column)


def _at_one_site(rows: int) -> str:
    return message("one row at one site") if rows == 1 else message("up to {rows} rows at one site", rows=rows)


def trusted(terms: FederationTerms, contract: Contract) -> list[str]:
    """Say who is trusted with what."""
    trust = terms.trust
    said = [message("the unit is a record: {record}", record=record(contract)), _losers(terms, contract)]
    if trust.noise == "server":
        said.append(_adding_server(terms))
    else:
        counted = trust.fewest - trust.colluding
        said.append(
            plural(
                "each site adds a share of the noise; one share is counted on",
                "each site adds a share of the noise; {shares} shares are counted on",
                counted,
                shares=counted,
            )
        )
        said.append(
            plural(
                "up to one site may tell others its own noise",
                "up to {sites} sites may tell others their own noise",
                trust.colluding,
                sites=trust.colluding,
            )
        )
    if trust.noise == "sites" and not trust.secure_aggregation:
        said.append(
            message("the server {server} is trusted: it sees each site's contribution", server=repr(trust.server))
        )
    if trust.secure_aggregation:
        said.append(message("secure aggregation holds against a server that follows the protocol and looks"))
    return [*said, WITH_KEYS] if terms.site_keys else said


def _losers(terms: FederationTerms, contract: Contract) -> str:
    """Say whose loss is counted, and who may lose more."""
    rows = person(terms, contract)
    if terms.trust.sites_per_person == len(terms.sites):
        return message("the loss of a person counts {rows}, as declared; who has more rows may lose more", rows=rows)
    return message(
        "the loss of a person counts {rows}, as declared; who has more rows, or rows at more sites, may lose more",
        rows=rows,
    )


def _adding_server(terms: FederationTerms) -> str:
    """Say what a server sees that adds the noise."""
    server = repr(terms.trust.server)
    if terms.trust.secure_aggregation:
        return message(
            "the server {server} is trusted: it sees the exact sum over sites, and adds the noise", server=server
        )
    return message(
        "the server {server} is trusted: it sees what each site sums, exactly, and adds the noise", server=server
    )


def gates(contract: Contract) -> list[str]:
    """List the checks that stop a site, whatever gates the contract declares."""
    return [
        message("at each site that took part {gate}", gate=gate)
        for gate in (*readable_somehow(contract), *delivered(contract))
    ]


COURSE: Final = (
    OPERATORS,
    message("which sites took part in which rounds"),
    message("how many attempts of rounds were lost, and of which rounds"),
)
"""What the course of a run shows."""


def unprotected(contract: Contract) -> list[str]:
    """List every quantity that depends on the data and is published without noise.

    A declared total is none of them: nothing says whose it would be, and `check_federation` refuses it.
    """
    return [
        *(message("that {gate} (always checked)", gate=gate) for gate in gates(contract)),
        *(
            message("that at each site that took part the check {check} held (a gate of the contract)", check=check)
            for check in contract.gates
        ),
        *COURSE,
    ]
