"""Sudare in Python: confidential tables published under differential privacy, from a notebook or a program.

    import sudare

    ws = sudare.Workspace.init("work")
    account = ws.open_account("adults", population="adults", block="1994", unit="row",
                              adjacency="add_remove", calculus="pure", epsilon="3", source="adult")
    release = ws.run(spec, source=frame)
    release.tables["education"].to_polars()

It is a thin front. Runs go through the flow, the ledger and the checks of the `sudare` command, and each of the two
finds what the other has published. A name is loaded when it is first used, so that importing this takes no time.
The manual: docs/python.md.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sudare.entrance import main, refusal, stranger, unsupported

if TYPE_CHECKING:
    from console.output import VerificationFailed
    from contracts.errors import (
        ContractRefused,
        Finding,
        GateBroken,
        Refused,
        SourceUnreadable,
        SpecRefused,
        SudareError,
    )
    from flows.periods.publications import SecondVersion
    from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
    from sudare.account import Account
    from sudare.contract import Contract
    from sudare.plan import Plan
    from sudare.record import Record
    from sudare.release import Release
    from sudare.spec import Spec
    from sudare.table import Table
    from sudare.verification import Verification, verify
    from sudare.workspace import Workspace

__all__ = [
    "Account",
    "BudgetExceeded",
    "Contract",
    "ContractRefused",
    "Finding",
    "GateBroken",
    "LedgerRefusal",
    "Plan",
    "Record",
    "Refused",
    "Release",
    "SecondVersion",
    "SourceUnreadable",
    "Spec",
    "SpecRefused",
    "SudareError",
    "Table",
    "Verification",
    "VerificationFailed",
    "Workspace",
    "main",
    "verify",
]

_ERRORS: Final = (
    "ContractRefused",
    "Finding",
    "GateBroken",
    "Refused",
    "SourceUnreadable",
    "SpecRefused",
    "SudareError",
)
_PLACES: Final = {
    "Account": "sudare.account",
    "Contract": "sudare.contract",
    "Plan": "sudare.plan",
    "Record": "sudare.record",
    "Release": "sudare.release",
    "Spec": "sudare.spec",
    "Table": "sudare.table",
    "Workspace": "sudare.workspace",
    "BudgetExceeded": "privacy.ledger.entries",
    "LedgerRefusal": "privacy.ledger.entries",
    "VerificationFailed": "console.output",
    "SecondVersion": "flows.periods.publications",
    **dict.fromkeys(("Verification", "verify"), "sudare.verification"),
    **dict.fromkeys(_ERRORS, "contracts.errors"),
}
"""Where each name is defined."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first used.

    Raises:
        ImportError: a folder named like one of our packages comes before ours on the path, and which; or the system
            is one that Sudare does not run on.
    """
    if name not in _PLACES:
        raise AttributeError(f"module 'sudare' has no attribute {name!r}")
    reason = unsupported(sys.platform)
    if reason is not None:
        raise ImportError(reason)
    found = stranger()
    if found is not None:
        raise ImportError(refusal(*found))
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
