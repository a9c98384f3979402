"""Who in a federation is trusted with what, as its spec declares it, and what of it contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Flag, Label, Problem, Whole, refuse, show

LEAST_BLIND_SITES = 3
"""Secure aggregation hides a site's share among those of at least two others."""


def _positive(number: int) -> int:
    """Refuse none or less where something is counted."""
    if number < 1:
        refuse([Problem(str(number), "a whole number above 0")])
    return number


Positive = Annotated[Whole, AfterValidator(_positive)]


class TrustTerms(Frozen):
    """Who is trusted with what; no field has a default (`privacy.federation.plan.Trust`)."""

    noise: Literal["sites", "server"]
    secure_aggregation: Flag
    server: Label | None
    fewest: Positive
    colluding: Whole
    sites_per_person: Positive


def trust_problems(trust: TrustTerms, sites: int) -> Iterator[Problem]:
    """Yield what of the trust does not fit the number of sites, or contradicts itself.

    The same is refused again where the noise is planned (`privacy.federation.plan.check_trust`).
    """
    if trust.secure_aggregation and sites < LEAST_BLIND_SITES:
        allowed = f"secure aggregation among at least {LEAST_BLIND_SITES} sites"
        remedy = "add sites, or write secure_aggregation: false and name the server"
        yield _at("secure_aggregation", f"true with {_sites(sites)}", allowed, remedy)
    yield from _number_problems(trust, sites)
    yield from _server_problems(trust)


def _number_problems(trust: TrustTerms, sites: int) -> Iterator[Problem]:
    """Yield the numbers out of range."""
    least = 2 if trust.secure_aggregation else 1
    if not least <= trust.fewest <= max(least, sites):
        why = " under secure aggregation" if trust.secure_aggregation else ""
        allowed = f"a whole number from {least} to {max(least, sites)}{why}: a sum of fewer sites is never made"
        remedy = "write how many of the sites must answer in a round"
        yield _at("fewest", f"{trust.fewest} of {_sites(sites)}", allowed, remedy)
    elif trust.noise == "server" and trust.colluding:
        allowed = "0 where the server adds the noise: no site knows any of it"
        yield _at("colluding", str(trust.colluding), allowed, "write colluding: 0")
    elif not 0 <= trust.colluding < trust.fewest:
        allowed = f"a whole number from 0 to {trust.fewest - 1}, less than `fewest`"
        remedy = "write how many sites may tell others their own noise, or raise fewest"
        yield _at("colluding", str(trust.colluding), allowed, remedy)
    if trust.sites_per_person > sites:
        remedy = "write at how many of the sites one person may have rows"
        yield _at(
            "sites_per_person",
            f"{trust.sites_per_person} of {_sites(sites)}",
            f"a whole number from 1 to {sites}",
            remedy,
        )


def _server_problems(trust: TrustTerms) -> Iterator[Problem]:
    """Yield a server that is trusted and has no name, or has a name and sees nothing that it is trusted with."""
    blind = trust.noise == "sites" and trust.secure_aggregation
    if not blind and trust.server is None:
        seen = "exact sums" if trust.noise == "server" else "the share of each site"
        remedy = "write its name, such as server: the statistics office"
        if trust.noise == "sites":
            remedy += "; or write secure_aggregation: true, so that it sees noisy sums only"
        yield _at("server", show(None), f"the name of the server, which is trusted: it sees {seen}", remedy)
    if blind and trust.server is not None:
        allowed = "null: under secure aggregation the server sees noisy sums only"
        yield _at("server", show(trust.server), allowed, "write server: null")


def _sites(number: int) -> str:
    return "1 site" if number == 1 else f"{number} sites"


def _at(field: str, found: str, allowed: str, remedy: str) -> Problem:
    return Problem(found, allowed, remedy, at=("trust", field))
