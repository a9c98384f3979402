"""prv_accountant: epsilon of growing lists of mechanisms, with its bounds from below and above.

Standard input: JSON {"delta": δ, "steps": one list a prefix of [{"noise_multiplier": z} or {"pure": ε}, how often]}.
Standard output: JSON [[lower, estimate, upper], ...].
"""

from __future__ import annotations

import json
import sys
from typing import Any

from prv_accountant import GaussianMechanism, PRVAccountant, PureDPMechanism

EPSILON_ERROR = 0.01


def _variable(mechanism: dict[str, float]) -> Any:
    if "pure" in mechanism:
        return PureDPMechanism(mechanism["pure"])
    return GaussianMechanism(noise_multiplier=mechanism["noise_multiplier"])


def main() -> None:
    """Compose every prefix."""
    asked = json.load(sys.stdin)
    found = []
    for prefix in asked["steps"]:
        counts = [count for _, count in prefix]
        accountant = PRVAccountant(
            prvs=[_variable(mechanism) for mechanism, _ in prefix],
            max_self_compositions=counts,
            eps_error=EPSILON_ERROR,
            delta_error=asked["delta"] / 1000,
        )
        found.append(accountant.compute_epsilon(delta=asked["delta"], num_self_compositions=counts))
    print(json.dumps(found))


main()
