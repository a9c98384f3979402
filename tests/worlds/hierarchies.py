"""Finished runs of tables at several resolutions: a mesh, and places and months that group in step."""

from dataclasses import replace
from fractions import Fraction

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from tests.worlds.tables import SEX, Scenario, first, property_yaml


def axis(name: str, cells: int, nulls: str = "{policy: map, to: 0}") -> str:
    domain = f"{{kind: integer, bounds: [0, {cells - 1}], bins: {{width: 1}}, nulls: {nulls}, "
    return property_yaml(name, "integer", domain + "provenance: {kind: declared}}")


TOWN = property_yaml(
    "place",
    "string",
    "{kind: categories, values: [Aoba, Izumi, Natori, Sakata, Tsuruoka], other: abroad, nulls: {policy: category}, "
    "provenance: {kind: declared}}",
)
PLACES = (
    "[{name: prefecture, groups: {Miyagi: [Aoba, Izumi, Natori], Yamagata: [Sakata, Tsuruoka], "
    'elsewhere: [abroad, "(null)"]}}, {name: region, groups: {Tohoku: [Miyagi, Yamagata], outside: [elsewhere]}}]'
)
MONTH = property_yaml(
    "moved",
    "date",
    "{kind: date, bounds: [2023-11-01, 2024-12-31], granularity: month, nulls: {policy: category}, "
    "provenance: {kind: declared}}",
)
PLACE_AND_TIME = f"{{columns: [place, moved], name: moves, hierarchy: {{place: {PLACES}, moved: [quarter, year]}}}}"


def hierarchical(properties: str, product: str, base: Scenario, zeros: str = "") -> Scenario:
    """The same run with other columns and another product."""
    head, _, rest = base.contract.partition("    properties:\n")
    contract = f"{head.replace('gates: []', f'structural_zeros: [{zeros}], gates: []')}    properties:\n{properties}"
    lines = [f"product: {product}" if line.startswith("product:") else line for line in base.spec.splitlines()]
    assert rest
    return replace(base, contract=contract, spec="\n".join(lines) + "\n", failing="", before=0)


def mesh() -> Scenario:
    """A mesh of 64 x 64 cells, 6 resolutions, which estimate the total themselves."""
    product = (
        "{kind: tables, mechanism: laplace, tables: [{columns: [row, col], name: mesh, hierarchy: quadtree}], "
        "total: noisy}"
    )
    return hierarchical(axis("row", 64) + axis("col", 64), product, first())


def nested() -> Scenario:
    """Places and months that group in step, structural zeros, Gaussian noise, a flat table beside, CSV."""
    base = first()
    product = (
        f"{{kind: tables, mechanism: gaussian, tables: [{PLACE_AND_TIME}, [sex]], "
        "refine: {method: simplex}, total: noisy}"
    )
    made = hierarchical(
        TOWN + MONTH + SEX, product, base, "{place: [Aoba, Izumi, Natori], moved: [2023-11, 2023-12]}"
    )
    spec = made.spec.replace("delta: 0", "delta: 1e-9").replace("formats: [parquet]", "formats: [parquet, csv]")
    return replace(made, spec=spec, calculus=RenyiCalculus(Fraction(16)), cap=(9 * PICO, ATTO // 10**8))
