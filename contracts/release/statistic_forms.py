"""Ratios and quantiles as a spec writes them, and the forms that a statistic may have."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from contracts.reading.scalars import Problem, plain_text, refuse, show

COUNT: Final = "count"
SPREADS: Final = ("variance", "sd")
OF_A_COLUMN: Final = ("sum", "mean", *SPREADS)
EFFECTIVE_SIZE: Final = "effective_size"
RATIO: Final = "ratio"
RATIO_FORM: Final = "{ratio: {sum: COLUMN}, over: {sum: COLUMN}}"
QUANTILES: Final = "quantiles"
UNITS: Final = "units"
DISTINCT: Final = "distinct"
DISTINCTS: Final = (UNITS, DISTINCT)
"""Statistics of which each is a draw of its own: how many privacy units, or different values, a cell has."""
OF_ROWS: Final = ("mean", *SPREADS, RATIO, QUANTILES)
"""Statistics that say what rows are like: a cell without rows has none, and they do not add up."""
QUANTILES_FORM: Final = "{quantiles: [0.1, 0.5, 0.9], of: COLUMN}"
FORMS: Final = (
    "count, {sum: COLUMN}, {mean: COLUMN}, {variance: COLUMN} or {sd: COLUMN}, each with `clip:` and `step:` if "
    "wanted, or "
    f"{RATIO_FORM}, or {QUANTILES_FORM}, or units, or {{distinct: COLUMN}}, or {{effective_size: WEIGHT}}"
)
METHODS: Final = ("auto", "tree", "exponential")
"""How quantiles are drawn."""
USUAL_INTERVAL_SHARE: Final = Decimal("0.25")
"""Of what chosen quantiles and their intervals cost, the share of the intervals, where nothing is said."""
_OF_QUANTILES: Final = ("method", "interval_share", "resolution")
_LEAST_INTERVAL_SHARE, _MOST_INTERVAL_SHARE = Decimal("0.01"), Decimal("0.9")
_FINEST_SHARE: Final = 6
"""Decimals of a quantile."""


def form_remedy(written: object) -> str:
    """Suggest the word that was begun; the nearest one would be a mean for a median."""
    words = [str(key) for key in written] if isinstance(written, dict) else [str(written)]
    begun = (
        (word, what)
        for word in words
        for what in (COUNT, *OF_A_COLUMN, RATIO, QUANTILES, *DISTINCTS, EFFECTIVE_SIZE)
        if word != what and word.lower().startswith(what)
    )
    hits = (f"write {what!r} instead of {word!r}" for word, what in begun)
    return next(hits, "write one of these, each in an entry of its own")


def read_ratio(written: dict[str, Any]) -> dict[str, Any]:
    """Read a ratio of two sums, each with a clip and a step of its own."""
    upper, lower = written[RATIO], written.get("over")
    if set(written) != {RATIO, "over"} or not isinstance(upper, dict) or "sum" not in upper:
        refuse([Problem(show(written), RATIO_FORM)])
    rest = {key: value for key, value in upper.items() if key != "sum"}
    return {"what": RATIO, "column": upper["sum"], **rest, "over": lower}


def read_quantiles(written: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a statistic that is written as quantiles of a column."""
    if not {QUANTILES, "of"} <= set(written) <= {QUANTILES, "of", *_OF_QUANTILES, "clip", "step"}:
        more = "`method:`, `interval_share:`, `resolution:`, `clip:` and `step:`"
        refuse([Problem(show(written), f"{QUANTILES_FORM}, with {more} if wanted")])
    rest = {key: value for key, value in written.items() if key != "of"}
    return {"what": QUANTILES, "column": written["of"], **rest}


def share_problems(shares: tuple[Decimal, ...]) -> Iterator[Problem]:
    """Yield what is wrong with a list of quantiles."""
    if not shares:
        yield Problem("an empty list of quantiles", "at least one", "write [0.5] for the median", (QUANTILES,))
    for place, share in enumerate(shares):
        at = (QUANTILES, place)
        if not 0 < share < 1:
            remedy = f"write {plain_text(share / 100)}" if 1 < share < 100 else "drop it"
            yield Problem(f"the quantile {share}", "a number above 0 and below 1", remedy, at)
        elif share != round(share, _FINEST_SHARE):
            yield Problem(f"the quantile {share}", f"at most {_FINEST_SHARE} decimals", "round it", at)
        elif share in shares[:place]:
            yield Problem(f"the quantile {share} twice", "each once", "drop one", at)


def interval_problems(share: Decimal | None, method: str) -> Iterator[Problem]:
    """Yield what is wrong with the share of the intervals of quantiles, where one is written."""
    at = ("interval_share",)
    if share is not None and method == METHODS[1]:
        found, remedy = "interval_share with method: tree", "drop it: a tree gives quantiles and intervals alike"
        yield Problem(found, "method: exponential, or auto", remedy, at)
    if share is not None and not _LEAST_INTERVAL_SHARE <= share <= _MOST_INTERVAL_SHARE:
        allowed = f"from {_LEAST_INTERVAL_SHARE} to {_MOST_INTERVAL_SHARE}, of what quantiles and intervals cost"
        yield Problem(f"interval_share: {share}", allowed, f"write {USUAL_INTERVAL_SHARE}, or drop it", at)
    elif share is not None and share != round(share, _FINEST_SHARE):
        yield Problem(f"interval_share: {share}", f"at most {_FINEST_SHARE} decimals", "round it", at)


def quantiles_schema(more: dict[str, Any]) -> dict[str, Any]:
    """Describe the written form; `more` are the keys that every statistic of a column may have."""
    shares = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 1}
    method = {"enum": [*METHODS], "default": METHODS[0]}
    keys = {
        QUANTILES: shares,
        "of": {"type": "string"},
        "method": method,
        "interval_share": {"type": ["number", "string"]},
        "resolution": {"type": ["number", "string"]},
        **more,
    }
    return {"type": "object", "properties": keys, "required": [QUANTILES, "of"], "additionalProperties": False}
