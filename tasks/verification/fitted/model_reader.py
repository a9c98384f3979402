"""Reading the published model of a version strictly, from its two files; only bytes whose checksum is signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contracts.errors import Finding, SudareError
from contracts.release.synthetic import asked_modifiers, modifiers_of_model, named_parts
from privacy.generators.generator import Model
from privacy.generators.rows import read_model
from privacy.marginals.graph import CellDomain
from tasks.records.model.version_statements import ModelStatement
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.files.array_reader import read_arrays
from tasks.verification.fitted_meaning import SyntheticMeaning
from tasks.verification.refinement_replay import values_sha256

UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, SudareError)
OTHER_MODEL: Final = "the model is not the one that the record describes: do not use this version"


def read_published_model(
    stated: ModelStatement, meaning: SyntheticMeaning, values: bytes, arrays: bytes
) -> tuple[Model | None, list[Finding]]:
    """Read the model.

    Args:
        stated: what the record says of it.
        meaning: contract and product; give the domain.
        values: bytes of its JSON file.
        arrays: bytes of its Parquet file.
    Returns:
        tuple: the model, or None with what is wrong.
    """
    parsed, findings = read_json(values, where=stated.values)
    if findings or not isinstance(parsed, dict) or set(parsed) != {"kind", "shapes", "values"}:
        allowed = "an object with kind, shapes and values"
        return None, findings or [Finding(stated.values, "the file", shown(parsed), allowed, OTHER_MODEL)]
    if parsed["kind"] != stated.kind:
        allowed = f"{shown(stated.kind)}, as the record says"
        return None, [Finding(stated.values, "kind", shown(parsed["kind"]), allowed, OTHER_MODEL)]
    try:
        numbers = read_arrays(arrays, parsed["shapes"])
        model = read_model(stated.kind, parsed["values"], numbers)
    except (*UNREADABLE, RecursionError) as error:
        return None, [Finding(stated.arrays, "the model", printable(str(error)), "a published model", OTHER_MODEL)]
    findings = _check(model, numbers, stated, meaning)
    names = {*asked_modifiers(meaning.product), *modifiers_of_model(model.kind)}
    for _, checks in named_parts(names, "checks"):
        findings = findings or checks.check_model(model, stated, meaning)
    return (None if findings else model), findings


def _check(
    model: Model, numbers: Mapping[str, NDArray[np.int64]], stated: ModelStatement, meaning: SyntheticMeaning
) -> list[Finding]:
    """Check domain, number of rows and digests."""
    wanted = CellDomain.of(meaning.contract, meaning.names)
    pairs: list[tuple[str, str, object, object]] = [
        (stated.values, "domain", model.domain, wanted),
        (stated.values, "rows", model.rows, stated.rows),
        (stated.arrays, "arrays", sorted(numbers), sorted(stated.sha256)),
    ]
    pairs += [
        (stated.arrays, f"SHA-256 of {printable(name)}", values_sha256(array), stated.sha256.get(name))
        for name, array in numbers.items()
    ]
    return [
        Finding(where, field, printable(str(found)), f"{printable(str(expected))}, as the record says", OTHER_MODEL)
        for where, field, found, expected in pairs
        if found != expected
    ]
