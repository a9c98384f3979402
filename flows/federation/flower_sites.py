"""The way to sites that Flower carries: the coordinator's end of the socket to the app on the link."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

from contracts.errors import Finding, Refused
from flows.federation.site import OTHER_CONTRACT, OTHER_PLAN, REASONS
from privacy.federation.rounds import FAILED, NO_ANSWER, Call, Collected
from tasks.federation.flower import Running, packed, unpacked
from tasks.products.across.spec_terms import Federation

MORE_SECONDS: Final = 120.0
"""What the app may take beyond the time that sites have."""
TWICE: Final = "two nodes call themselves that"
OTHER_NAME: Final = "the node with its key calls itself another site"
"""What the app on the link says of nodes (`sudare_federation.server`)."""


_REMEDIES: Final = {
    OTHER_CONTRACT: "compare both copies: sudare contract diff",
    OTHER_PLAN: "install one version of Sudare at both",
}


class SitesMissing(Refused):
    """Fewer sites joined than a round needs; nothing was asked of any of them."""

    exit_code = 4


class FlowerSites:
    """Sites behind Flower.

    Args:
        line: the socket to the app.
        federation: as the coordinator understands it.
        seconds: how long a site has to answer a stage of a round.
        running: Flower's processes here, that must live.
        nodes: which node is which site's, by its key; None where a node is the site that it says it is.
    """

    def __init__(
        self,
        line: Connection,
        federation: Federation,
        *,
        seconds: float,
        running: tuple[Running, ...],
        nodes: Mapping[str, int] | None = None,
    ) -> None:
        self._line, self._federation, self._seconds, self._running = line, federation, seconds, running
        self._nodes = None if nodes is None else dict(nodes)
        self._hello = {"op": "join", **federation.digests}

    def join(self, *, seconds: float) -> dict[str, str]:
        """Wait for the sites to join.

        Args:
            seconds: how long.
        Returns:
            Why the others did not, by site; empty where all did.
        Raises:
            SitesMissing: fewer than the plan needs; says why each of the others did not.
        """
        plan = self._federation.plan
        asked = {"op": "sites", "sites": list(plan.sites), "message": self._hello, "seconds": seconds}
        asked["nodes"] = self._nodes
        told: dict[str, Any] = self._ask(packed(asked), seconds + MORE_SECONDS)[0]["told"]
        absent = {
            name: _closed_reason(told[name].get("refused")) if name in told else NO_ANSWER
            for name in plan.sites
            if "mark" not in told.get(name, {})
        }
        if len(plan.sites) - len(absent) < plan.trust.fewest:
            raise _missing(self._federation, absent)
        return absent

    def collect(self, call: Call) -> Collected:
        """Make one attempt of a round."""
        plan = self._federation.plan
        asked = {
            "op": "round",
            "sites": list(plan.sites),
            "message": self._hello,
            "secure": plan.trust.secure_aggregation,
            "fewest": plan.trust.fewest,
            "largest": 2 * plan.largest_entry,
            "number": call.number,
            "attempt": call.attempt,
            "seconds": self._seconds,
        }
        body = call.parameters.astype("<f4").tobytes()
        told, residues = self._ask(packed(asked, body), 6 * self._seconds + MORE_SECONDS)
        present = tuple(name in told["present"] for name in plan.sites)
        absent = {name: _closed_reason(why) for name, why in told["absent"].items() if name in plan.sites}
        return Collected(present, np.frombuffer(residues, dtype="<u4").astype(np.uint32), absent)

    def stop(self) -> None:
        """Let the app end, unless it has."""
        with suppress(OSError):
            self._line.send_bytes(packed({"op": "stop"}))

    def _ask(self, message: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        self._line.send_bytes(message)
        waited = 0.0
        while not self._line.poll(0.5):
            waited += 0.5
            for each in self._running:
                each.check()
            if waited > seconds:
                raise TimeoutError(f"Flower's app did not answer within {seconds:g} s")
        return unpacked(self._line.recv_bytes())


def _closed_reason(why: object) -> str:
    """Return a reason of the closed set; a site could say anything."""
    return why if isinstance(why, str) and why in (*REASONS, NO_ANSWER, TWICE, OTHER_NAME) else FAILED


def _missing(federation: Federation, absent: Mapping[str, str]) -> SitesMissing:
    """Say that too few joined, and of each of the others why."""
    plan = federation.plan
    found = f"{len(plan.sites) - len(absent)} sites that joined"
    allowed = f"at least {plan.trust.fewest}, as `trust.fewest` says; nothing was asked of any"
    others = [
        Finding(f"site {name}", "join", why, "a site that joins", _REMEDIES.get(why, ""))
        for name, why in absent.items()
    ]
    return SitesMissing([Finding(federation.where, "sites", found, allowed), *others])
