"""Versions whose draws share the charge optimally: they verify, and other shares than those are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tasks.verification.forgery import Json, assert_caught, forge, load
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables
from tests.worlds.versions import Worlds

TABLES = "[{by: [ward], of: [count, {mean: age}]}, {by: [], of: [{sum: bill}, {quantiles: [0.5], of: age}]}]"


def shared(mechanism: str, of: StatisticsScenario) -> StatisticsScenario:
    product = f"{{kind: statistics, mechanism: {mechanism}, split: optimal, tables: {TABLES}}}"
    return replace(of, product=product, release="shares")


LAPLACE = shared("laplace", of_tables(TABLES))


@pytest.mark.parametrize("scenario", [LAPLACE, shared("gaussian", gaussian())], ids=["laplace", "gaussian"])
def test_a_version_with_optimal_shares_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    version = worlds.published(scenario)
    version.assert_verifies()
    assert load(version.folder / "record.json")["replay"]["product"]["split"] == "optimal"


def test_noise_of_other_shares_is_found(worlds: Worlds, tmp_path: Path) -> None:
    """A record that says that tables shared by weight has draws whose noise does not fit."""
    version = forge(worlds.published(LAPLACE).copy(tmp_path / "v"), record=_by_weight)
    assert_caught(version, {6}, "the share of the charge")


def _by_weight(record: Json) -> None:
    del record["replay"]["product"]["split"]
