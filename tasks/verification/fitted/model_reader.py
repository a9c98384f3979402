"""Reading the published model of a version strictly, from its two files; only bytes whose checksum is signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contracts.errors import Finding, SudareError
from contracts.release.linked_rows import table_pair
from privacy.generators.copied_model import copies_of
from privacy.generators.filled_model import contents_of
from privacy.generators.generator import Model
from privacy.generators.linked_model import LinkedModel
from privacy.generators.models import read_model
from privacy.marginals.domain import CellDomain
from tasks.records.model.synthetic_statements import ModelStatement
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
    findings = findings or _check_inside(model, stated, meaning) or _check_parents(model, stated, meaning)
    found, copies = len(copies_of(model)), meaning.product.copies or 0
    if not findings and found != copies:
        findings = [Finding(stated.values, "copies", str(found), f"{copies}, as the product says", OTHER_MODEL)]
    return (None if findings else model), findings


def _check_inside(model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
    """Check that the model says how values lie inside the bins that the product looks into, and inside no others."""
    wanted = {tree.column: list(tree.cuts) for tree in meaning.product.trees(meaning.contract)}
    found = {name: inside.cuts.tolist() for name, inside in contents_of(model).items()}
    if found == wanted:
        return []
    wrong = next((name for name in {**wanted, **found} if found.get(name) != wanted.get(name)), "")
    allowed = f"leaves inside the bins of {printable(', '.join(wanted)) or 'no column'}, as product and contract say"
    return [Finding(stated.values, f"inside {printable(wrong)}", "other leaves, or none", allowed, OTHER_MODEL)]


def _check_parents(model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
    """Check that a model of two tables is there where the product asks for one, and has the parent's columns."""
    if not meaning.product.counts_parents and not isinstance(model, LinkedModel):
        return []
    wanted = table_pair(meaning.names, meaning.contract).parent_columns if meaning.product.counts_parents else ()
    found = model.parents.domain.columns if isinstance(model, LinkedModel) else ()
    if found == wanted:
        return []
    names, allowed = (printable(", ".join(each)) or "no parents" for each in (found, wanted))
    return [Finding(stated.values, "parents", names, f"{allowed}, as product and contract say", OTHER_MODEL)]


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
