"""A release across sites in words: whose loss is bounded, who is trusted with what, what is not protected.

All of it follows from the terms that the parties agreed on, and from their contract.
"""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.release.federation_spec import FederationTerms
from tasks.storage.sources.gate_words import delivered, readable_somehow

OPERATORS: Final = (
    "that the operator of each site that took part let it, who could see what share of its rows "
    "does not fit the contract"
)
NOT_CHECKED: Final = (
    "No check can tell whether a site has the rows that it says, whether it drew its share of the noise, or who "
    "looked at contributions. They are trust, in those named above; each site's own ledger and its auditors stand "
    "for what it did."
)
WITHOUT_KEYS: Final = "Sites had no keys: who reached the coordinator's link could join as a site that was not there."
WITH_KEYS: Final = "each site is known by its key, which the spec names: nobody else can take part in its name"


def person(terms: FederationTerms, contract: Contract) -> str:
    """Say for which rows of a person the coordinator's account is charged: the unit's bound, at each of some sites.

    Where the unit is a row, an event moves by one row a site, however many rows of a person a site has.
    """
    sites = terms.trust.sites_per_person
    return f"{_rows(contract)} at {'one site' if sites == 1 else f'each of up to {sites} sites'}"


def record(contract: Contract) -> str:
    """Say for which rows a site's account is charged."""
    column = contract.unit.column
    return f"{_rows(contract)}{'' if column is None else f' of one {column}'} at one site"


def _rows(contract: Contract) -> str:
    most = contract.unit.max_rows_per_unit
    return "one row" if most == 1 else f"up to {most} rows"


def trusted(terms: FederationTerms, contract: Contract) -> list[str]:
    """Say who is trusted with what."""
    trust = terms.trust
    more = "more rows" if trust.sites_per_person == len(terms.sites) else "more rows, or rows at more sites,"
    said = [
        f"the unit is a record: {record(contract)}",
        f"the loss of a person counts {person(terms, contract)}, as declared; who has {more} may lose more",
    ]
    if trust.noise == "server":
        seen = "the exact sum over sites" if trust.secure_aggregation else "what each site sums, exactly"
        said.append(f"the server {trust.server!r} is trusted: it sees {seen}, and adds the noise")
    else:
        counted = trust.fewest - trust.colluding
        said.append(f"each site adds a share of the noise; {counted} shares are counted on")
        said.append(f"up to {trust.colluding} sites may tell others their own noise")
    if trust.noise == "sites" and not trust.secure_aggregation:
        said.append(f"the server {trust.server!r} is trusted: it sees each site's contribution")
    if trust.secure_aggregation:
        said.append("secure aggregation holds against a server that follows the protocol and looks")
    return [*said, WITH_KEYS] if terms.site_keys else said


def gates(contract: Contract) -> list[str]:
    """List the checks that stop a site, whatever gates the contract declares."""
    return [f"at each site that took part {gate}" for gate in (*readable_somehow(), *delivered(contract))]


COURSE: Final = (
    OPERATORS,
    "which sites took part in which rounds",
    "how many attempts of rounds were lost, and of which rounds",
)
"""What the course of a run shows."""


def unprotected(contract: Contract) -> list[str]:
    """List every quantity that depends on the data and is published without noise.

    A declared total is none of them: nothing says whose it would be, and `check_federation` refuses it.
    """
    held = [f"the check {gate} held (a gate of the contract)" for gate in contract.gates]
    return [
        *(f"that {gate} (always checked)" for gate in gates(contract)),
        *(f"that at each site that took part {each}" for each in held),
        *COURSE,
    ]
