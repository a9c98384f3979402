"""All that statistics add up, for tests that hold an engine against DuckDB: each form, by some cells."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import (
    Addends,
    DistinctCount,
    LoneSum,
    ValueMagnitudes,
    ValueMoments,
    WeightedCount,
    distinct_count,
    number_lattice,
)
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import BinTree, QuantileChoices, ValueTree
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotSums, SnapshotValues

WAGE: Final = ValueLattice("wage", Decimal(0), Decimal(1000), Decimal("0.1"), True)
AWKWARD: Final = ValueLattice("wage", Decimal("12.3"), Decimal("801.3"), Decimal("0.3"), True)
SIGNED: Final = ValueLattice("age", Decimal(-5), Decimal(120), Decimal(1), True)
WEIGHT: Final = ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), True)
INSIDE: Final = BinTree(WAGE, (0, 1, 500, 7777, 10_000))
"""Leaves between cuts: each bound, and some in between."""
CLIQUES: Final = ((), ("sex",), ("age", "sex"), ("age", "sex", "since"))


def addends_of(contract: Contract) -> tuple[Addends, ...]:
    """Return what is added up by cell: plain, weighted, alone, in quotas, moments, trees, and distinct counts."""
    weighed = replace(WAGE, weight=WEIGHT)
    return (
        WAGE,
        AWKWARD,
        weighed,
        LoneSum(SIGNED),
        LoneSum(SIGNED, Decimal(60)),
        WeightedCount(WEIGHT),
        ValueMoments(SIGNED, 125**2 * 5),
        ValueMoments(AWKWARD, 10**9 // 3),
        ValueMoments(replace(AWKWARD, weight=WEIGHT), 10**6),
        ValueTree(WAGE, Decimal(7)),
        INSIDE,
        ValueTree(replace(AWKWARD, weight=WEIGHT), Decimal(3)),
        DistinctCount(None, None, True),
        distinct_count("wage", contract.column("wage").domain, declared_cells=True),
        distinct_count("since", contract.column("since").domain, declared_cells=True),
    )


def beside_of(contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
    """Return what a stage has beside its codes for all of these."""
    told_apart = number_lattice("wage", contract.column("wage").domain)
    return (WAGE, AWKWARD, SIGNED, WEIGHT, told_apart, KeyColumn("person"), UnitOrder("person"))


def exact(table: PrivateTable, contract: Contract) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield every exact array, with words that say which one it is."""
    sums, values = SnapshotSums(table, contract), SnapshotValues(table, contract)
    for clique in CLIQUES:
        addends = addends_of(contract)
        for each, handle in zip(addends, sums.sums(clique, addends), strict=True):
            yield f"{clique} {each}", handle._read()
        choices = QuantileChoices(AWKWARD, (Decimal("0.25"), Decimal("0.5")))
        yield f"{clique} {choices}", values.values(clique, choices)._read()
    for magnitudes in (ValueMagnitudes(SIGNED), ValueMagnitudes(WAGE)):
        yield str(magnitudes), _only(sums.sums((), [magnitudes]))
    signs = ValueMagnitudes(SIGNED)
    first, last = signs.bins[2][0], signs.bins[-3][1]
    narrow: Any = signs.narrowed(first, last)
    yield f"{narrow}", _only(sums.sums(("sex",), [narrow]))


def _only(handles: tuple[Any, ...]) -> NDArray[np.int64]:
    (handle,) = handles
    counted: NDArray[np.int64] = handle._read()
    return counted
