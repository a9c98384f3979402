"""A data file once more in parts, for engines that read folders: one part a row group of the whole file.

The whole file stays what is refined, replayed and signed for; `sudare verify` compares the parts with it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.records.files.part_names import part_name
from tasks.records.files.tidy_tables import WrittenFile, written


def write_parts(folder: Path, whole: WrittenFile) -> tuple[WrittenFile, ...]:
    """Write the row groups of a Parquet file to files of their own, one in memory at a time.

    Args:
        folder: the version's folder.
        whole: the file, which is written.
    Returns:
        tuple[WrittenFile, ...]: at least one, for a file without rows has a part without rows.
    Raises:
        ValueError: more row groups than parts can be numbered.
    Privacy: published rows only.
    """
    made = []
    with pq.ParquetFile(folder / whole.path) as file:
        schema = file.schema_arrow
        labels = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        for place in range(max(1, file.num_row_groups)):
            rows = file.read_row_group(place) if file.num_row_groups else schema.empty_table()
            path = part_name(whole.path, place)
            (folder / path).parent.mkdir(exist_ok=True)
            pq.write_table(
                rows, folder / path, compression="zstd", use_dictionary=labels, row_group_size=max(1, rows.num_rows)
            )
            part = written(folder, path, whole.draw, "part", rows.num_rows, whole.columns)
            made.append(replace(part, form=whole.form))
    return tuple(made)
