"""Rule 8 of sums over rows: the statistic that was added up, rebuilt from its parameters; its noisy values.

Whoever has both files of the statistics can rebuild each from them: its digest, its columns and its length must be
those of the record. Then each number's part, group and entries follow, its natural value and its variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian
from privacy.learning.layout import row_layout
from privacy.learning.moments import Moments
from privacy.learning.written_statistics import PART_NAMES, read_statistic
from privacy.marginals.uncertainty import variance
from tasks.records.files.sum_files import SUM_SCHEMA, sum_columns
from tasks.records.model.synthetic_statements import FittedReplay, SyntheticDraw
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.files.array_reader import read_arrays
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.files.table_files import MISFIT, OTHER_NOISE, UNCERTAINTY, UNREADABLE, compare_column
from tasks.verification.fitted_meaning import STATISTIC_FILES, FittedMeaning, statistics
from tasks.verification.refinement_replay import RELATIVE_TOLERANCE, values_sha256

_OTHER_SUM: Final = "what was added up is not what the record describes: do not use these values"
_BYTES_PER_ROW: Final = 64
_SPARE_BYTES: Final = 2**22


def read_statistics(
    replay: FittedReplay,
    meaning: FittedMeaning,
    read: Callable[[str, list[Finding]], bytes | None],
    findings: list[Finding],
) -> dict[str, Moments]:
    """Rebuild what was added up, by key of the draw.

    Args:
        replay: the record's replay block.
        meaning: contract and product; give the layout of rows.
        read: gives the bytes of a file whose checksum holds.
        findings: what is wrong is added here.
    """
    stated = statistics(replay)
    if not stated:
        return {}
    written, arrays = (read(name, findings) for name in STATISTIC_FILES)
    if written is None or arrays is None:
        return {}
    found, wrong = read_json(written, where=STATISTIC_FILES[0])
    findings += wrong
    if found != stated:
        allowed = f"the {len(stated)} statistics of the record"
        findings.append(Finding(STATISTIC_FILES[0], "the statistics", shown(found), allowed, _OTHER_SUM))
        return {}
    shapes = {name: shape for each in stated for name, shape in each["shapes"].items()}
    try:
        numbers = read_arrays(arrays, shapes)
    except UNREADABLE as error:
        allowed = "the arrays of the statistics"
        findings.append(Finding(STATISTIC_FILES[1], "the file", printable(str(error)), allowed, _OTHER_SUM))
        return {}
    rebuilt = {}
    for draw in replay.draws:
        if draw.statistic is not None:
            try:
                rebuilt[draw.key] = _rebuilt(draw, meaning, numbers)
            except ValueError as error:
                field, allowed = printable(f"the statistic of {draw.key}"), "what the record describes"
                findings.append(Finding(STATISTIC_FILES[0], field, printable(str(error)), allowed, _OTHER_SUM))
    return rebuilt


def _rebuilt(draw: SyntheticDraw, meaning: FittedMeaning, numbers: Mapping[str, NDArray[np.int64]]) -> Moments:
    """Rebuild one statistic, and hold it against the record and the contract.

    Raises:
        ValueError: it is another, or none.
    """
    stated = draw.statistic
    if stated is None:
        raise ValueError("no statistic")
    own = {name: array for name, array in numbers.items() if name in stated.shapes}
    statistic = read_statistic(stated.parameters, own)
    if statistic.digest != stated.digest:
        raise ValueError(f"digest {statistic.digest}, where the record says {stated.digest}")
    if (statistic.length,) != tuple(draw.shape):
        raise ValueError(f"{statistic.length} numbers, where the record says {shown(list(draw.shape))}")
    layout = row_layout(meaning.contract, meaning.names)
    statistic.embedding.check(layout)
    statistic.groups.check(statistic.embedding, layout)
    return statistic


def check_sum_file(
    data: bytes, draw: SyntheticDraw, event: DiscreteGaussian, statistic: Moments
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check one file of noisy sums.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
        event: its event.
        statistic: what was added up.
    Returns:
        tuple: the noisy values, or None where they cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        columns, findings = _read(data, where, statistic)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    if columns is None:
        return None, findings
    noisy = columns["noisy"]
    digest = values_sha256(noisy)
    if digest != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when it was drawn"
        findings.append(Finding(where, "SHA-256 of column noisy", digest, allowed, OTHER_NOISE))
    for name, expected in sum_columns(statistic, noisy, variance(event)).items():
        findings += compare_column(
            columns[name],
            expected,
            where=where,
            name=name,
            source="recomputed from the statistic and the event",
            remedy=UNCERTAINTY,
            tolerance=RELATIVE_TOLERANCE if name in ("value", "variance") else 0.0,
        )
    return noisy, findings


def _read(data: bytes, where: str, statistic: Moments) -> tuple[dict[str, NDArray[Any]] | None, list[Finding]]:
    """Read the columns after names, types, number of rows and unpacked size have been checked."""
    file = pq.ParquetFile(pa.BufferReader(data))
    wanted = [(field.name, str(field.type)) for field in SUM_SCHEMA]
    found = [(field.name, str(field.type)) for field in file.schema_arrow]
    rows, length = file.metadata.num_rows, statistic.length
    unpacked, most = unpacked_size(data, file.metadata), length * _BYTES_PER_ROW + _SPARE_BYTES
    for field, is_, must in (("columns", found, wanted), ("rows", rows, length)):
        if is_ != must:
            return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
    if unpacked > most:
        return None, [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {most} bytes", MISFIT)]
    table = file.read()
    table.validate(full=True)
    missing = next((f.name for f in SUM_SCHEMA if not f.nullable and table.column(f.name).null_count), None)
    if missing is not None:
        return None, [Finding(where, f"column {missing}", "missing values", "a value in every row", MISFIT)]
    known = pa.array(PART_NAMES, pa.string())
    parts = pa.compute.index_in(table.column("part").cast(pa.string()), value_set=known).fill_null(-1)
    columns = {name: table.column(name).fill_null(-1).to_numpy() for name in ("i", "j")}
    columns |= {name: table.column(name).to_numpy() for name in ("group", "noisy", "value", "variance")}
    return {**columns, "part": parts.to_numpy()}, []
