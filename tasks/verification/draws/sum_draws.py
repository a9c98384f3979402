"""How far can one privacy unit move a published sum over rows? Derived here anew, from its parameters alone.

A row's vector z has norm at most R = 2^bits, its weights a_g are not negative and add up to A. One row moves each
part of counts (a_g), sums (a_g z_i), squares (a_g z_i^2) or products by at most m, once all are brought to one scale:

    m = A R^d,  d = 2 with squares or products, 1 with sums, else 0
    times 5 with products, whose matrix has weight 5 on its diagonal and 7 above: 25 |z|^4 bounds its squared norm

add_remove: k rows move p parts by p k^2 m^2, squared. replace_one: 2 p k^2 m^2, for the inner product of the vectors
of two rows is nowhere negative; but sums without counts may turn round: 4 k^2 m^2. `moves` are whole
numbers whose squares add up to that. The proofs are in docs/derivations.md, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contracts.contract.contract import Adjacency, Contract
from contracts.errors import Finding
from tasks.records.model.synthetic_statements import StatisticStatement, SyntheticDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import OTHER, differences

MOST_NORMS: Final = 6
"""So many moves has the event of a sum at most: two for each of three parts."""
_DEGREES: Final = {"counts": 0, "sums": 1, "diagonal": 2, "full": 2}
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"


def check_sum(
    draw: SyntheticDraw, stated: StatisticStatement, contract: Contract, names: Sequence[str], *, at: str, where: str
) -> list[Finding]:
    """Check the draw of a sum: its form, its columns, and the bound of a change in its event.

    Args:
        draw: what the record says of the draw.
        stated: what was added up.
        contract: gives adjacency and rows of a unit.
        names: the columns of the product.
        at: where in the record the draw stands.
        where: the record's file name.
    """
    name = draw.measurements or ""
    own = name.startswith("measurements/") and name.endswith(".parquet") and name.count("/") == 1
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), []),
        (f"{at}.shape", len(draw.shape), 1),
        (f"{at}.index", draw.index, None),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.event.kind", draw.event.get("kind"), "discrete_gaussian"),
        (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
    ]
    findings = list(differences(pairs, where=where, allowed="as of every sum over rows"))
    try:
        columns, worst = (
            columns_of(stated.parameters),
            worst_moves_of_sum(stated, contract.adjacency, contract.unit.max_rows_per_unit),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        allowed = "parameters of a sum over rows"
        found = printable(f"{type(error).__name__}: {error}")
        return [*findings, Finding(where, f"{at}.statistic", found, allowed, OTHER)]
    unknown = next((each for each in columns if each not in names), None)
    if unknown is not None:
        found = f"the column {shown(unknown)}"
        findings.append(Finding(where, f"{at}.statistic", found, "columns of the product", OTHER))
    if draw.event.get("moves") != worst:
        terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:80]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", _UNDERSTATED))
    return findings


def worst_moves_of_sum(stated: StatisticStatement, adjacency: Adjacency, rows: int) -> list[int]:
    """Derive whole numbers whose squares add up to the largest squared change by one privacy unit.

    Args:
        stated: what was added up.
        adjacency: neighbour relation of the contract.
        rows: of a unit, at most.
    Raises:
        LookupError, TypeError, ValueError: parameters that are none.
    """
    parameters, apart = stated.parameters, adjacency == "replace_one"
    weight = _weight(parameters["groups"])
    if parameters["kind"] != "moments":
        raise ValueError(f"kind {shown(parameters['kind'])}")
    parts = list(parameters["parts"])
    degree, radius = max(_DEGREES[part] for part in parts), 2 ** _is_whole(parameters["embedding"]["bits"])
    move = rows * weight * radius**degree * (5 if "full" in parts else 1)
    if not apart:
        return [move] * len(parts)
    turning = "sums" in parts and "counts" not in parts
    return [move] * (2 * (len(parts) - turning)) + [2 * move] * turning


def columns_of(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a sum reads: those that are embedded, and that of the labels."""
    groups = parameters["groups"]
    labels = groups if groups["kind"] == "labels" else groups.get("labels")
    return (*parameters["embedding"]["columns"], *([] if labels is None else [labels["column"]]))


def _weight(groups: Mapping[str, Any]) -> int:
    """Return what a row's weights add up to."""
    kind = groups["kind"]
    if kind == "responsibilities":
        return int(2 ** _is_whole(groups["bits"]))
    if kind not in ("everyone", "labels", "nearest_centre", "norm_shells"):
        raise ValueError(f"groups {shown(kind)}")
    return 1


def _is_whole(bits: Any) -> int:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        raise ValueError(f"bits {shown(bits)}")
    return bits
