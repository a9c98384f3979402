"""What a modifier of synthetic rows asks of the confidential rows before anything is charged.

The answer is exact and free of charge, so it is a gate: the journal has every time that it breaks, and the record of
each version lists it among what is not protected (`SyntheticModifier.gate_words`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from contracts.contract.contract import Contract
from contracts.release.synthetic_modifiers import modifier_parts

if TYPE_CHECKING:
    from privacy.private_table import PrivateTable


class ModifierGate(ABC):
    """A gate of a modifier."""

    @abstractmethod
    def check(self, contract: Contract, plan: Any, table: PrivateTable) -> None:
        """Break the gate, or return.

        Args:
            contract: the contract that encoded the rows.
            plan: the plan of the release.
            table: its rows.
        Raises:
            GateBroken: with what to do.
        Privacy: an exact answer about the rows; the record lists it among the unprotected gates.
        """


def ask_gates(product: Any, contract: Contract, plan: Any, table: PrivateTable) -> None:
    """Ask the gates of the modifiers that a product asks for.

    Raises:
        GateBroken: as `ModifierGate.check`.
    Privacy: as `ModifierGate.check`.
    """
    for _, gate in modifier_parts(product, "gate"):
        gate.check(contract, plan, table)
