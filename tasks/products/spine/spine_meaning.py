"""What the record of counts by place is about, read again, and what it must then say: rules 5, 6 and 8.

1. contract and product are read again, and the product fits its contract
2. levels, tables and draws are those of the product, in their order; each draw with its share of the charge
3. the places are a tree over the labels of the contract's column, with the digest that the product pins, with as many
   places as the record says, with public totals that add up, and each draw adds up the places of its level
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.product import SpineProduct
from contracts.release.spine.rules import PlaceCells, place_cells, spine_problems, tree_problems
from privacy.grant.queries.place_counts import groups_digest
from privacy.table_plans.spine_plan import SpinePlan
from tasks.records.draws.place_counts import PlaceCountDraw
from tasks.records.spine.spine_fields import SpineReplay, stated_tables
from tasks.records.spine.spine_files import PLACES_FILE
from tasks.records.strict_json import printable
from tasks.verification.record_identity import OTHER, check_forms, differences, read_again


@dataclass(frozen=True)
class SpineMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product, which fits it.
        names: the columns that are counted by.
        tree: the places, once they were read.
    """

    contract: Contract
    product: SpineProduct
    names: tuple[str, ...]
    tree: PlaceTree | None = None

    def minimum_frequency_of(self, key: str) -> None:
        """No cell is suppressed."""
        return None

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns as they are: the plan names them."""
        return clique

    def cells_at(self, level: str) -> PlaceCells:
        """Return the cells of a level.

        Raises:
            LookupError: the places were not read.
        """
        if self.tree is None:
            raise LookupError("the places that its rows are of cannot be read")
        if level not in self._cells:
            self._cells[level] = place_cells(self.contract, self.product.spine.column, self.tree, level)
        return self._cells[level]

    @cached_property
    def _cells(self) -> dict[str, PlaceCells]:
        """The cells of the levels that were asked for: making labels of places takes long."""
        return {}


def read_spine(replay: SpineReplay, *, where: str) -> tuple[SpineMeaning | None, list[Finding]]:
    """Read what a release of counts by place is about."""
    read, findings = read_again(replay, SpineProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    problems = list(spine_problems(product, contract))
    for at, problem in problems:
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else SpineMeaning(contract, product, product.names(contract))), findings


def check_stated(replay: SpineReplay, product: SpineProduct, plan: SpinePlan, where: str) -> list[Finding]:
    """Check that levels, tables and draws are those of the plan, one by one."""
    levels = [(level.name, level.invariant) for level in replay.levels]
    tables = [table.model_dump(mode="json") for table in replay.tables]
    drawn = [(draw.key, list(draw.clique), list(draw.shape), getattr(draw, "level", None)) for draw in replay.draws]
    listed: list[tuple[str, list[Any], list[Any]]] = [
        ("replay.levels", levels, [(name, name in product.invariants) for name in product.levels]),
        ("replay.places", [replay.places], [PLACES_FILE]),
        ("replay.tables", tables, stated_tables(plan)),
        ("replay.draws", drawn, [(each.key, list(each.clique), list(each.shape), each.level) for each in plan.draws]),
        ("replay.product.spine.sha256", [product.spine.sha256 is None], [False]),
    ]
    pairs: list[tuple[str, object, object]] = []
    for at, found, expected in listed:
        pairs.append((at, f"{len(found)} of them", f"{len(expected)} of them"))
        each = enumerate(zip(found, expected, strict=False))
        pairs += [(f"{at}[{place}]", str(one), str(other)) for place, (one, other) in each]
    return list(differences(pairs, where=where, allowed="as product and contract say"))


def check_tree(tree: PlaceTree, replay: SpineReplay, meaning: SpineMeaning, where: str) -> list[Finding]:
    """Compare places with the product's digest, with the sizes of levels, with public totals, and with each draw."""
    found = [
        Finding(
            PLACES_FILE,
            printable(".".join(map(str, at))),
            printable(problem.found),
            printable(problem.allowed),
            OTHER,
        )
        for at, problem in tree_problems(meaning.product, meaning.contract, tree)
    ]
    pairs: list[tuple[str, object, object]] = [
        ("replay.levels.places", str([level.places for level in replay.levels]), str(list(tree.level_sizes.values())))
    ]
    digests = {level: groups_digest(size, tree.groups(level)) for level, size in tree.level_sizes.items()}
    for place, draw in enumerate(replay.draws):
        if isinstance(draw, PlaceCountDraw):
            pairs.append((f"replay.draws[{place}].groups", draw.groups, digests[draw.level]))
    return found + list(differences(pairs, where=where, allowed="as the places of the version say"))
