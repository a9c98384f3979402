"""Which relations between columns synthetic rows keep, in one sentence: for record, label, console and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from contracts.message import Message, joined, message, plural

ALONE: Final = message("Each column was drawn on its own: no relation between columns is kept.")
_FROM_WHOLE_ROWS: Final = {
    "training": message(
        "A neural network learned from whole rows how columns go together: no relation was measured by itself, and "
        "any may be weaker in these rows."
    ),
    "votes": message(
        "Whole rows were chosen by noisy votes: no relation between columns was measured by itself, and any may be "
        "weaker in these rows."
    ),
    "sums": message(
        "Columns go together as far as noisy sums over whole rows tell, such as means, and products of two columns: "
        "no other relation is kept."
    ),
    "residuals": message(
        "All pairs of columns were measured together: what three or more columns share beyond that is not kept."
    ),
}
"""By the kind of draw; the first that was drawn decides."""
_BY_COLUMNS: Final = frozenset({"marginal", "cell_sums", "choice"})
_MAX_NAMED: Final = 3


def kept_relations(replay: Mapping[str, Any]) -> Message | None:
    """Say which relations between columns the rows of a version keep; None of what is not rows of one publisher.

    Args:
        replay: the replay block of any record, as JSON values.
    """
    if replay["product"].get("kind") != "synthetic" or "execution" in replay:
        return None
    draws: Sequence[Mapping[str, Any]] = replay["draws"]
    kinds = {draw["kind"] for draw in draws}
    for kind, sentence in _FROM_WHOLE_ROWS.items():
        if kind in kinds:
            return sentence
    if others := sorted(kinds - _BY_COLUMNS):
        return message(
            "How columns go together was learned by draws of {kinds}: the record lists them.", kinds=", ".join(others)
        )
    return _measured_pairs(draws)


def _measured_pairs(draws: Sequence[Mapping[str, Any]]) -> Message:
    """Name the pairs of columns that were measured together."""
    cliques = (draw["clique"] for draw in draws if draw["kind"] == "marginal")
    pairs = list(dict.fromkeys(frozenset(pair) for clique in cliques for pair in combinations(clique, 2)))
    if not pairs:
        return ALONE
    named = [" × ".join(sorted(pair)) for pair in pairs[:_MAX_NAMED]]
    return plural(
        "{number} pair of columns was measured together ({pairs}): no relation is kept but this one.",
        "{number} pairs of columns were measured together ({pairs}): no relation is kept but what these imply.",
        len(pairs),
        number=len(pairs),
        pairs=joined([*named, *(["..."] if len(pairs) > _MAX_NAMED else [])]),
    )
