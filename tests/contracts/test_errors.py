"""Errors keep their words and findings when they come back from another process."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from console.main import PublisherMissing
from contracts.errors import ContractRefused, Finding, Refused, StoreUnwritable, SudareError
from tasks.storage.workspace.contract_registry import RegistryRefused

TWO = (
    Finding("people.yaml:3", "unit", "nothing", "a unit", "declare it"),
    Finding("people.yaml", "id", "''", "a name"),
)


@pytest.mark.parametrize("kind", [ContractRefused, RegistryRefused])
def test_a_refusal_is_the_same_in_another_process(kind: type[Refused]) -> None:
    refused = kind(TWO)
    back = pickle.loads(pickle.dumps(refused))
    assert type(back) is kind
    assert str(back) == str(refused)
    assert back.findings == TWO


@pytest.mark.parametrize(
    "error", [StoreUnwritable.because(OSError(28, "No space left"), Path("store")), PublisherMissing("no publisher")]
)
def test_an_error_is_the_same_in_another_process(error: SudareError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
