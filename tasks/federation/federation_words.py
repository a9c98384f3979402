"""The account of a federation in words: whose loss is bounded, who is trusted with what, what is not protected."""

from __future__ import annotations

from typing import Final

from tasks.federation.federation_run import Federation
from tasks.storage.sources.gate_words import delivered, readable_somehow

UNPROTECTED: Final = "unprotected: "
"""What a line of what is not protected begins with."""
OPERATORS: Final = (
    "that the operator of each site that took part let it, who could see what share of its rows "
    "does not fit the contract"
)


def person(known: Federation) -> str:
    """Say for which rows of a person the coordinator's account is charged: the unit's bound, at each of some sites.

    Where the unit is a row, an event moves by one row a site, however many rows of a person a site has.
    """
    sites = known.plan.trust.sites_per_person
    return f"{_rows(known)} at {'one site' if sites == 1 else f'each of up to {sites} sites'}"


def record(known: Federation) -> str:
    """Say for which rows a site's account is charged."""
    column = known.contract.unit.column
    return f"{_rows(known)}{'' if column is None else f' of one {column}'} at one site"


def _rows(known: Federation) -> str:
    most = known.contract.unit.max_rows_per_unit
    return "one row" if most == 1 else f"up to {most} rows"


def words(known: Federation) -> list[str]:
    """Say in words who is trusted with what, and what is not protected."""
    trust, plan = known.plan.trust, known.plan
    more = "more rows" if trust.sites_per_person == len(plan.sites) else "more rows, or rows at more sites,"
    said = [
        f"the unit is a record: {record(known)}",
        f"the loss of a person counts {person(known)}, as declared; who has {more} may lose more",
    ]
    if trust.noise == "server":
        seen = "the exact sum over sites" if trust.secure_aggregation else "what each site sums, exactly"
        said.append(f"the server {trust.server!r} is trusted: it sees {seen}, and adds the noise")
    else:
        said.append(f"each site adds a share of the noise; {plan.shares_counted} shares are counted on")
        said.append(f"up to {trust.colluding} sites may tell others their own noise")
    if trust.noise == "sites" and not trust.secure_aggregation:
        said.append(f"the server {trust.server!r} is trusted: it sees each site's contribution")
    if trust.secure_aggregation:
        said.append("secure aggregation holds against a server that follows the protocol and looks")
    if known.spec.keys:
        said.append("each site is known by its key, which the spec names: nobody else can take part in its name")
    return [*said, *(f"{UNPROTECTED}{quantity}" for quantity in unprotected(known))]


def unprotected(known: Federation) -> list[str]:
    """List every quantity that depends on the data and is published without noise.

    A declared total is none of them: nothing says whose it would be, and `check_federation` refuses it. The gates are
    those of a release (`tasks.records.groups.unprotected`), but for the form of the source, which is each site's own.
    """
    always = [*readable_somehow(), *delivered(known.contract)]
    declared = [f"the check {gate} held (a gate of the contract)" for gate in known.contract.gates]
    return [
        *(f"that at each site that took part {gate} (always checked)" for gate in always),
        *(f"that at each site that took part {gate}" for gate in declared),
        OPERATORS,
        "which sites took part in which rounds",
        "how many attempts of rounds were lost",
    ]
