"""Sites in this process: for simulations, and for tests of what every transport must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contracts.errors import SudareError
from privacy.federation.rounds import Call, Collected, Contribution, HasSites, Residues, summed

SiteAnswer = Callable[[Call], Contribution | None]
"""A site's answer to a call; None is a dropped connection."""


class InProcessSites:
    """Asks the sites one after another.

    Args:
        plan: names the sites.
        answers: what answers for each.
    """

    def __init__(self, plan: HasSites, answers: Mapping[str, SiteAnswer]) -> None:
        self._plan, self._answers = plan, dict(answers)

    def collect(self, call: Call) -> Collected:
        """Ask every site and add up; a site that refuses or is silent is left out."""
        sent: dict[str, Residues] = {}
        absent: dict[str, str] = {}
        for name in self._plan.sites:
            try:
                answer = self._answers[name](call)
            except SudareError as error:
                absent[name] = reason(error)
                continue
            if answer is None:
                absent[name] = NO_ANSWER
            else:
                sent[name] = answer.residues
        return summed(sent, self._plan, absent)


NO_ANSWER = "no answer"
LEDGER = "its ledger refuses"
FAILED = "it failed"


def reason(error: SudareError) -> str:
    """Return the public reason for which a site is left out."""
    return LEDGER if getattr(error, "exit_code", 1) == 4 else FAILED
