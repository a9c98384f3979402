"""Contracts of the stays that specs of statistics are read against."""

import pytest

from contracts.contract.contract import Contract
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.distinct_counts import laplace
from tests.worlds.statistics import StatisticsScenario


def contract_of(scenario: StatisticsScenario, folders: pytest.TempPathFactory) -> Contract:
    _, contract, _, ledger = scenario.prepared_of(folders.mktemp("stays"), StatisticsPlan)
    ledger.close()
    return contract


@pytest.fixture(scope="session")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The contract of stays: ages of 0 to 99 that may be missing, bills of 0 to 900."""
    return contract_of(StatisticsScenario(), tmp_path_factory)


@pytest.fixture(scope="session")
def bounded_stays(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """The same with notes, and at most three stays of a patient."""
    return contract_of(laplace(), tmp_path_factory)
