"""The contract of a record, read by the model that the release used; once for each that is written alike.

A contract with hundreds of thousands of labels takes seconds to read. A verification needs it for the product, for
the words of the record, and for its pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contracts.canonical import digest
from contracts.contract.contract import Contract

_LAST: Final[dict[str, Contract]] = {}
"""The contract that was read last, by the digest of what is written."""


def recorded_contract(written: Mapping[str, Any]) -> Contract:
    """Return the contract of a record's replay block.

    Raises:
        pydantic.ValidationError: it is none.
    """
    key = digest(written)
    contract = _LAST.get(key) or Contract.model_validate(written)
    _LAST.clear()
    _LAST[key] = contract
    return contract
