"""A statistic as it is published: its parameters as JSON values, its arrays beside them, each named by its digest.

The JSON values are those that the statistic's own digest is taken of, so whoever rebuilds it from them has the digest
that the draw was asked with, and the bound of a change (`moves`) that its event must state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.learning.embedding import Embedding
from privacy.learning.lattice import LatticePoints, sha256
from privacy.learning.moments import (
    ABOVE,
    ON,
    PARTS,
    Everyone,
    Groups,
    LabelCodes,
    Moments,
    NearestCentre,
    NormShells,
    Responsibilities,
)

_RATIONAL: Final = re.compile(r"[0-9]{1,20}(/[1-9][0-9]{0,19})?")

_GROUPS: Final = ("everyone", "labels", "nearest_centre", "norm_shells", "responsibilities")
PART_NAMES: Final = PARTS

StatisticRows = dict[str, NDArray[Any]]
"""Columns of a tidy table of sums: part, group, i, j (-1 where a part has none), and each number's natural unit."""


def statistic_arrays(statistic: Moments) -> dict[str, LatticePoints]:
    """Return the arrays of a statistic, by the digests that its public parameters name them by."""
    return {sha256(each): each for each in _members(statistic).values()}


def nearly(one: Moments, other: Moments, *, share: float) -> bool:
    """Say whether two statistics are the same but for last bits of what was computed in floating point.

    Args:
        share: by how much of an array's largest number, beside 2 units, its numbers may differ.
    """
    if _form(one) != _form(other):
        return False
    pairs = zip(_members(one).values(), _members(other).values(), strict=True)
    return all(close(mine, theirs, share=share) for mine, theirs in pairs)


def close(one: LatticePoints, other: LatticePoints, *, share: float) -> bool:
    """Say whether whole numbers differ by at most a share of the largest, and 2 units."""
    if one.shape != other.shape:
        return False
    apart = np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)
    return bool(apart <= share * np.abs(other.astype(np.float64)).max(initial=0.0) + 2)


def _members(statistic: Moments) -> dict[str, LatticePoints]:
    """Return the arrays of a statistic by what they are."""
    members: dict[str, LatticePoints | None] = {
        "centre": statistic.embedding.centre,
        "axes": statistic.embedding.axes,
    }
    match statistic.groups:
        case NearestCentre(centres=centres):
            members["centres"] = centres
        case NormShells(edges=edges):
            members["edges"] = edges
        case Responsibilities(log_weights=weights, centres=centres, factors=factors, owners=owners):
            members |= {"log_weights": weights, "centres": centres, "factors": factors, "owners": owners}
        case _:
            pass
    return {name: each for name, each in members.items() if each is not None}


def _form(statistic: Moments) -> dict[str, Any]:
    """Return the public parameters without the arrays, of which only the shapes are kept."""
    members = _members(statistic)

    def without(values: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in values.items() if name not in members}
        return {name: without(each) if isinstance(each, Mapping) else each for name, each in kept.items()}

    return {**without(statistic.public), "shapes": {name: each.shape for name, each in members.items()}}


def read_statistic(written: Mapping[str, Any], arrays: Mapping[str, LatticePoints]) -> Moments:
    """Rebuild a statistic from what was published; written by a stranger, and checked.

    Args:
        written: its public parameters.
        arrays: the arrays that these name, by digest.
    Raises:
        ValueError: not a statistic, a number out of range, or an array that there is not or has another digest.
    """
    kind = written.get("kind") if isinstance(written, Mapping) else None
    if kind != "moments":
        raise ValueError(f"statistic kind {str(kind)[:60]!r}; allowed: moments")
    fields = _fields(written, {"kind", "parts", "embedding", "groups"}, "statistic")
    # Constructors check the fields; a stranger's value of a wrong type must be refused like a wrong value.
    try:
        embedding, groups = _embedding(fields["embedding"], arrays), _groups(fields["groups"], arrays)
        return Moments(embedding, groups, tuple(fields["parts"]))
    except (TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a statistic: {type(error).__name__}") from error


def tidy_rows(statistic: Moments) -> StatisticRows:
    """Say of each number of a statistic what it is.

    Returns:
        part: place among `PART_NAMES`. group: place of the group, from 0. i, j: places of the entries, i <= j;
        -1 for none. unit: what one lattice unit is in natural units: rows for counts, the embedding's own unit for
        sums, its square for products.
    """
    count = statistic.groups.count
    dimension, bound = statistic.embedding.dimension, float(statistic.embedding.bound)
    one, none, places = 1 / statistic.move, np.full(dimension, -1), np.arange(dimension)
    rows, columns = np.triu_indices(dimension)
    # An entry above a matrix's diagonal weighs 7, one on it 5: their units differ.
    products = np.where(rows == columns, 1.0, ON / ABOVE) * (bound * bound * one)
    parts = {
        "counts": (none[:1], none[:1], np.full(1, one)),
        "sums": (places, none, np.full(dimension, bound * one)),
        "diagonal": (places, places, np.full(dimension, bound * bound * one)),
        "full": (rows, columns, products),
    }
    return _stacked([(part, count, *parts[part]) for part in statistic.parts])


def _stacked(parts: list[tuple[str, int, NDArray[np.int64], NDArray[np.int64], Floats]]) -> StatisticRows:
    """Repeat each part for all groups, one after the other."""
    return {
        "part": np.concatenate([np.full(count * i.size, PART_NAMES.index(part)) for part, count, i, _, _ in parts]),
        "group": np.concatenate([np.repeat(np.arange(count), i.size) for _, count, i, _, _ in parts]),
        "i": np.concatenate([np.tile(i, count) for _, count, i, _, _ in parts]),
        "j": np.concatenate([np.tile(j, count) for _, count, _, j, _ in parts]),
        "unit": np.concatenate([np.tile(unit, count) for _, count, _, _, unit in parts]),
    }


def _embedding(written: Any, arrays: Mapping[str, LatticePoints]) -> Embedding:
    fields = _fields(written, {"columns", "centre", "axes", "bound", "bits"}, "embedding")
    bound = fields["bound"]
    # Text, since a float would not be the exact rational that was digested.
    if not isinstance(bound, str) or not _RATIONAL.fullmatch(bound):
        raise ValueError("embedding: bound must be a rational as text, such as '1/2'")
    if not isinstance(fields["columns"], list):
        raise ValueError("embedding: columns must be a list of names")
    axes = None if fields["axes"] is None else _array(fields["axes"], arrays)
    columns = tuple(fields["columns"])
    return Embedding(columns, _array(fields["centre"], arrays), axes, Fraction(bound), fields["bits"])


def _groups(written: Any, arrays: Mapping[str, LatticePoints]) -> Groups:
    kind = written.get("kind") if isinstance(written, Mapping) else None
    match kind:
        case "everyone":
            _fields(written, {"kind"}, "groups")
            return Everyone()
        case "labels":
            fields = _fields(written, {"kind", "column", "count"}, "groups")
            return LabelCodes(fields["column"], fields["count"])
        case "nearest_centre":
            return NearestCentre(_array(_fields(written, {"kind", "centres"}, "groups")["centres"], arrays))
        case "norm_shells":
            return NormShells(_array(_fields(written, {"kind", "edges"}, "groups")["edges"], arrays))
        case "responsibilities":
            return _responsibilities(written, arrays)
    raise ValueError(f"groups kind {str(kind)[:60]!r}; allowed: {', '.join(_GROUPS)}")


def _responsibilities(written: Any, arrays: Mapping[str, LatticePoints]) -> Responsibilities:
    names = {"kind", "log_weights", "centres", "factors", "bits", "labels", "owners"}
    fields = _fields(written, names, "groups")
    labels = None if fields["labels"] is None else _groups(fields["labels"], arrays)
    if labels is not None and not isinstance(labels, LabelCodes):
        raise ValueError("groups: labels must be labels, or null")
    owners = None if fields["owners"] is None else _array(fields["owners"], arrays)
    weights, centres, factors = (_array(fields[name], arrays) for name in ("log_weights", "centres", "factors"))
    return Responsibilities(weights, centres, factors, fields["bits"], labels, owners)


def _fields(written: Any, names: set[str], what: str) -> Mapping[str, Any]:
    if not isinstance(written, Mapping) or set(written) != names:
        raise ValueError(f"{what}: must have exactly {', '.join(sorted(names))}")
    return written


def _array(name: Any, arrays: Mapping[str, LatticePoints]) -> LatticePoints:
    if not isinstance(name, str) or name not in arrays:
        raise ValueError(f"no array {str(name)[:64]}")
    # The name is the digest: an array that was exchanged does not have it.
    if sha256(arrays[name]) != name:
        raise ValueError(f"the array {name[:64]} has another digest")
    return arrays[name]
