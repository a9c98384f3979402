"""What is checked alike of every draw of counts, a marginal or counts by place: its file, and the worst neighbour."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.contract.contract import Contract
from contracts.errors import Finding
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import shown
from tasks.verification.draws.charged_noise import worst_moves
from tasks.verification.draws.draw_checks import UNDERSTATED, FittedMeaning, is_own_file
from tasks.verification.record_identity import differences


def check_count_draw(
    draw: FittedDraw,
    meaning: FittedMeaning,
    own: Sequence[tuple[str, object, object]] = (),
    *,
    contract: Contract | None = None,
    at: str,
    where: str,
    allowed: str,
    coarsening: object = None,
) -> list[Finding]:
    """Check that every cell is drawn, into a file of its own, with the moves of the worst neighbour.

    Args:
        draw: what the record says of the draw.
        meaning: contract and product.
        own: what else is compared, as pairs with their names.
        contract: of the rows that were counted, where they are not those of the base.
        at: its place in the record.
        where: the record's file.
        allowed: what a draw of the kind is, in words.
        coarsening: what it must state of a coarser resolution.
    """
    counted = contract or meaning.contract
    name, worst, in_own = draw.measurements or "", worst_moves(counted), is_own_file(draw.measurements)
    pairs: list[tuple[str, object, object]] = [
        *own,
        (f"{at}.coarsening", None if draw.coarsening is None else draw.coarsening.model_dump(), coarsening),
        (f"{at}.listed", draw.listed, None),
        (
            f"{at}.measurements",
            name if in_own else shown(name),
            name if in_own else "a Parquet file in measurements/",
        ),
    ]
    findings = list(differences(pairs, where=where, allowed=allowed))
    if draw.event.get("moves") != worst:
        terms = f"{counted.adjacency} with {counted.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
    return findings
