"""Finished runs of counts by place, for the tests: wards of wings of a hospital, with and without public totals."""

import csv
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import polars as pl

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.ledger.ledger import Ledger
from privacy.table_plans.spine_plan import SpinePlan
from tests.worlds.statistics import StatisticsScenario

WARDS = {"surgery": "north", "children": "north", 'x, "y"': "south", "(null)": "south"}
TEAMS = """place,parent,level
hospital,,hospital
day,hospital,team
night,hospital,team
surgery,day,ward
(null),day,ward
children,night,ward
"x, ""y""\",night,ward
"""
"""A further tree over the same wards: its teams cross the wings."""
TABLES = "[{columns: [floor, insured], levels: {hospital: 1, wing: 2, ward: 3}}, {columns: [floor]}, []]"


@dataclass
class SpineScenario(StatisticsScenario):
    """What a finished run of counts by place is made from."""

    product: str = (
        "{kind: spine, spine: {column: ward, file: places.csv, levels: [hospital, wing, ward]}, "
        f"tables: {TABLES}INVARIANTS}}"
    )
    invariants: str = ""
    delta: str = "1e-9"
    calculus: Calculus = field(default_factory=lambda: RenyiCalculus(Fraction(12)))
    cap: tuple[int, int] = (20 * PICO, ATTO // 10**9)
    formats: str = "[parquet]"
    release: str = "wards"
    plan_type: ClassVar[type] = SpinePlan

    def prepared_of(self, folder: Path, kind: type) -> tuple[ReleaseSpec, Contract, SpinePlan, Ledger]:  # type: ignore[override]
        folder.mkdir(parents=True, exist_ok=True)
        self.write_places(folder / "places.csv")
        self.product = self.product.replace("INVARIANTS", self.invariants)
        return super().prepared_of(folder, kind)

    def write_places(self, path: Path) -> None:
        """Write the tree with the exact numbers of rows of each wing."""
        inside = self.wing_counts()
        lines = [("hospital", "", "hospital", self.rows), *((w, "hospital", "wing", n) for w, n in inside.items())]
        lines += [(ward, wing, "ward", "") for ward, wing in WARDS.items()]
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("place", "parent", "level", "beds"), *lines])
        (path.parent / "teams.csv").write_text(TEAMS)
        floors = self.floor_counts()
        whole = {("hospital", each): floors["north", each] + floors["south", each] for each in ("1", "2", "9")}
        for name, counts in (("floors.csv", floors), ("floors-of-all.csv", whole)):
            with (path.parent / name).open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("place", "floor", "beds"), *((*at, n) for at, n in counts.items())])

    def wing_counts(self) -> dict[str, int]:
        wards = self.frame().get_column("ward").replace_strict(WARDS, default="south", return_dtype=pl.String)
        return {wing: int((wards == wing).sum()) for wing in ("north", "south")}

    def floor_counts(self) -> dict[tuple[str, str], int]:
        rows = self.frame()
        wings = rows.get_column("ward").replace_strict(WARDS, default="south", return_dtype=pl.String)
        floors = rows.get_column("floor").replace_strict({1: "1", 2: "2"}, default="9", return_dtype=pl.String)
        return {
            (wing, floor): int(((wings == wing) & (floors == floor)).sum())
            for wing in ("north", "south")
            for floor in ("1", "2", "9")
        }


def without_totals() -> SpineScenario:
    """Add and remove; nothing but noisy counts."""
    return SpineScenario()


def with_totals() -> SpineScenario:
    """Replace one, with the totals of the wings public; Parquet in parts."""
    return replace(
        without_totals(),
        privacy="{unit: {kind: row, scope: block}, adjacency: replace_one, "
        'invariants: [{kind: total, value: 2000, reference: "yearbook"}]}',
        invariants=", invariants: {wing: {column: beds, reference: yearbook}}",
        formats="[parquet, parts]",
        release="wings",
        epsilon="8",
    )


def with_margins() -> SpineScenario:
    """The counts of the wings by floor are public; nobody is on the first floor of the children's ward."""
    return replace(
        with_totals(),
        privacy=with_totals().privacy.replace(
            "adjacency", "structural_zeros: [{ward: [children], floor: ['1']}], adjacency"
        ),
        invariants=", invariants: {wing: {columns: [floor], file: floors.csv, column: beds, reference: yearbook}}",
        formats="[parquet]",
        release="floors",
    )


def with_patterns() -> SpineScenario:
    """The totals of the wings are public, and one of them has no first floor."""
    return replace(
        with_totals(),
        privacy=with_totals().privacy.replace(
            "adjacency", "structural_zeros: [{ward: [surgery, children], floor: ['1']}], adjacency"
        ),
        formats="[parquet]",
        release="patterns",
    )


def with_teams() -> SpineScenario:
    """A further tree over the wards, of which teams cross the wings; public floors of wings; Parquet and CSV."""
    return replace(
        with_totals(),
        product=without_totals()
        .product.replace("ward]}", "ward]}, other_spines: [{file: teams.csv, levels: [hospital, team, ward]}]")
        .replace("ward: 3}", "ward: 3, team: 2}"),
        invariants=with_margins().invariants,
        formats="[parquet, csv]",
        release="teams",
    )
