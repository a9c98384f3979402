"""Parts of a data file against the whole file, which other checks replay: the same rows, each in one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding
from tasks.records.files.part_names import part_name, parts_among
from tasks.records.model.release_statement import Manifest
from tasks.records.strict_json import printable, shown
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.files.version_folder import OpenFiles, VersionFolder
from tasks.verification.outcomes import RuleFindings

OTHER_PARTS: Final = "the parts are not the file's rows: use the whole file"
_SPARE_BYTES: Final = 2**16
_TIMES: Final = 2


def check_parts(
    folder: VersionFolder, manifest: Manifest, sound: frozenset[str], file_findings: RuleFindings
) -> RuleFindings:
    """Compare the parts of each data file with the row groups of the whole, one at a time.

    Args:
        folder: the version.
        manifest: its files.
        sound: those whose checksum holds.
        file_findings: what was found of the whole files, in which nothing is wrong.
    Returns:
        RuleFindings: the same, what is wrong with parts, and what could not be compared.
    """
    files, findings = OpenFiles(folder, manifest, sound), list(file_findings[0])
    for name in sorted(manifest.files):
        if name.startswith("data/") and name.endswith(".parquet") and name.count("/") == 1:
            findings += _check(name, parts_among(name, manifest.files), files)
    return findings, [*file_findings[1], *files.skipped]


def _check(name: str, parts: Sequence[str], files: OpenFiles) -> list[Finding]:
    findings: list[Finding] = []
    whole = files.read(name, findings) if parts else None
    if whole is None:
        return findings
    try:
        with pq.ParquetFile(pa.BufferReader(whole)) as file:
            groups = file.num_row_groups
            expected = [part_name(name, place) for place in range(max(1, groups))]
            if list(parts) != expected:
                found, allowed = f"{len(parts)} parts, {shown(parts[-1])} the last", f"part-00000 to {expected[-1]}"
                return [Finding(printable(name), "parts", found, allowed, OTHER_PARTS)]
            for place, part in enumerate(parts):
                data = files.read(part, findings)
                if data is not None:
                    findings += _compare(file, place if groups else None, data, printable(part))
    except (pa.ArrowException, OSError, ValueError) as error:
        findings.append(Finding(printable(name), "parts", printable(str(error)), "readable Parquet", OTHER_PARTS))
    return findings


def _compare(file: Any, group: int | None, data: bytes, where: str) -> list[Finding]:
    """Compare one part with a row group; its size is known before it is unpacked."""
    with pq.ParquetFile(pa.BufferReader(data)) as part:
        rows = 0 if group is None else file.metadata.row_group(group).num_rows
        if not part.schema_arrow.equals(file.schema_arrow, check_metadata=True):
            return [Finding(where, "columns", "others", "those of the whole file, with its marks", OTHER_PARTS)]
        if part.metadata.num_rows != rows or part.num_row_groups > 1:
            return [Finding(where, "rows", str(part.metadata.num_rows), f"{rows}, in one group", OTHER_PARTS)]
        if not rows:
            return []
        most = _TIMES * file.metadata.row_group(group).total_byte_size + _SPARE_BYTES
        unpacked = unpacked_size(data, part.metadata)
        if unpacked > most:
            return [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {most} bytes", OTHER_PARTS)]
        found, expected = part.read(), file.read_row_group(group)
        found.validate(full=True)
    for name in expected.column_names:
        if not _alike(_plain(found.column(name)), _plain(expected.column(name))):
            return [Finding(where, f"column {shown(name)}", "other values", "those of the whole file", OTHER_PARTS)]
    return []


def _alike(found: Any, expected: Any) -> bool:
    """Compare two columns; doubles by their bits, since 0 has two signs, which equal each other."""
    if not found.equals(expected):
        return False
    if not pa.types.is_floating(found.type):
        return True
    bits, others = (column.to_numpy(zero_copy_only=False).tobytes() for column in (found, expected))
    return bool(bits == others)


def _plain(column: Any) -> Any:
    """Return a column without dictionary, in one piece."""
    kind = column.type
    plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    return plain.combine_chunks()
