"""A draw of counts in a file of its own: nothing of it is left out, and its moves are the worst neighbour's."""

from __future__ import annotations

from contracts.errors import Finding
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import shown
from tasks.verification.draws.charged_noise import worst_moves
from tasks.verification.draws.draw_checks import UNDERSTATED, FittedMeaning, is_own_file
from tasks.verification.record_identity import differences


def check_drawn_alone(
    draw: FittedDraw, meaning: FittedMeaning, *, at: str, where: str, allowed: str
) -> list[Finding]:
    """Check the sensitivity of a draw, and that its file has all of it.

    Args:
        draw: what the record says of it.
        meaning: contract and product.
        at: its place in the record.
        where: the record's file name.
        allowed: what its file holds.
    """
    name, worst, own = draw.measurements or "", worst_moves(meaning.contract), is_own_file(draw.measurements)
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
    ]
    findings = list(differences(pairs, where=where, allowed=allowed))
    if draw.event.get("moves") != worst:
        terms = f"{meaning.contract.adjacency} with {meaning.contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
    return findings
