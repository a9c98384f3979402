"""Noisy sums over rows in plain words: what was added up, with which bound, and how much noise that is."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

from contracts.message import AND, joined, message
from privacy.grant.measurement import SumMeasurement
from privacy.learning.groups import Everyone, LabelCodes, NearestCentre, NormShells
from privacy.learning.moments import Moments

_MOST_COLUMNS: Final = 8
_PARTS: Final = {
    "counts": message("the number of rows"),
    "sums": message("the sum of their vectors"),
    "diagonal": message("the sum of the squares of the vectors' entries"),
    "full": message("the sum of the products of each two entries of a vector"),
}
NUMBERS: Final = {
    "counts": message("a count [rows]"),
    "sums": message("a sum of entries"),
    "diagonal": message("a sum of squares"),
    "full": message("a sum of products"),
}


def parts(statistic: Moments) -> tuple[str, ...]:
    """Name the parts of a statistic."""
    return statistic.parts


def groups(statistic: Moments) -> str:
    """Say for which rows the sums are taken."""
    match statistic.groups:
        case Everyone():
            return message("all rows together")
        case LabelCodes(column=column, count=count):
            return message("each of the {count} cells of {column}", count=count, column=column)
        case NearestCentre(count=count):
            return message("the rows nearest to each of {count} released or public centres", count=count)
        case NormShells(count=count):
            return message("the rows in each of {count} shells, by the norms of their vectors", count=count)
        case shared:
            return message(
                "each of {count} components of a released or public mixture, rows shared out among them",
                count=shared.count,
            )


def vectors(statistic: Moments) -> str:
    """Say what a row's vector is, and how it is bounded."""
    embedded = statistic.embedding
    more = ["..."] if len(embedded.columns) > _MOST_COLUMNS else []
    centre = message(", less a released or public centre") if embedded.centre.any() else ""
    turned = "" if embedded.axes is None else message(", on {axes} released or public axes", axes=embedded.dimension)
    return message(
        "{entries} entries in [0, 1] of {columns}{centre}{turned}; clipped to norm {norm}, in whole steps of norm / "
        "2^{bits}",
        entries=embedded.centre.size,
        columns=joined([*embedded.columns[:_MOST_COLUMNS], *more]),
        centre=centre,
        turned=turned,
        norm=f"{float(embedded.bound):.6g}",
        bits=embedded.bits,
    )


def what(statistic: Moments) -> str:
    """Say in one sentence what was added up."""
    added = [_PARTS[part] for part in statistic.parts]
    sums = added[0] if len(added) == 1 else joined([joined(added[:-1]), added[-1]], AND)
    return message("{sums}, for {rows}", sums=sums, rows=groups(statistic))


def deviations(measurement: SumMeasurement) -> dict[str, float]:
    """Give the standard deviation of the noise of one number of each part, in natural units.

    Counts are in rows; sums in the unit of an entry, which goes from 0 to 1; products in its square.
    """
    statistic = measurement.statistic
    one, bound = sqrt(measurement.variance) / statistic.move, float(statistic.embedding.bound)
    units = {"counts": 1.0, "sums": bound, "diagonal": bound * bound, "full": bound * bound}
    return {part: one * units[part] for part in statistic.parts}


def sum_entry(measurement: SumMeasurement) -> dict[str, Any]:
    """Describe a measurement for people; the keys that marginals have too mean the same."""
    statistic = measurement.statistic
    return {
        "columns": ", ".join(statistic.embedding.columns),
        "cells": measurement.values.size,
        "deviation": {part: f"{each:.6g}" for part, each in deviations(measurement).items()},
        "sums": what(statistic),
        "vectors": vectors(statistic),
    }
