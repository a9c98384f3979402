"""Sparse tables for the tests: a domain of 10^9 cells with few rows, and a small one that is sparse by its spec."""

from dataclasses import replace

from privacy.accounting.amounts import PICO
from tests.worlds.tables import Scenario, contract_yaml, first, property_yaml, spec_yaml

SIZE = 1000


def integer_columns(sizes: tuple[int, ...]) -> str:
    """Declare columns c0, c1, ... with a cell for each whole number."""
    domain = "{{kind: integer, bounds: [1, {}], bins: {{width: 1}}, nulls: {{policy: map, to: 1}}, {}}}"
    provenance = "provenance: {kind: declared}"
    return "".join(
        property_yaml(f"c{place}", "integer", domain.format(size, provenance)) for place, size in enumerate(sizes)
    )


def sparse(
    sizes: tuple[int, ...] = (SIZE, SIZE, SIZE),
    *,
    tables: str = "[[c0, c1, c2], [c0]]",
    refine: str = "{method: negative_l2, lambda: auto}",
    total: str = "noisy",
    zeros: str = "[]",
    epsilon: str = "2",
    rows: int = 3000,
) -> Scenario:
    """Made-up rows over integer columns, Laplace noise, Parquet and CSV."""
    base = first()
    adjacency = "replace_one" if total == "invariant" else "add_remove"
    invariants = f'[{{kind: total, value: {rows}, reference: "yearbook"}}]' if total == "invariant" else "[]"
    contract = contract_yaml(
        "trips",
        f"{{unit: {{kind: row, scope: block}}, adjacency: {adjacency}, "
        f"invariants: {invariants}, structural_zeros: {zeros}, gates: []}}",
        integer_columns(sizes),
    )
    spec = spec_yaml(
        "trips",
        "{path: trips.csv}",
        f"{{kind: tables, mechanism: laplace, tables: {tables}, refine: {refine}, total: {total}}}",
        account="trips-2024",
        epsilon=epsilon,
        formats="[parquet, csv]",
    )
    return replace(
        base, contract=contract, spec=spec, cap=(50 * PICO, 0), rows=rows, failing="", place=("travellers", "2024")
    )


def small(refine: str = "{method: negative_l2, lambda: 0.1}", **changed: str) -> Scenario:
    """A table of 600 cells with structural zeros, sparse because its spec says so."""
    given = {
        "tables": "[{columns: [c0, c1], form: sparse}, [c1]]",
        "zeros": "[{c0: ['1', '2'], c1: ['5', '6', '7']}, {c1: ['30']}]",
        **changed,
    }
    return sparse((20, 30), refine=refine, rows=400, **given)  # type: ignore[arg-type]
