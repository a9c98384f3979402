"""The file of a training by DP-SGD: its last checkpoint, number by number, as it was drawn.

Earlier checkpoints are not published: nothing is made of them. Their digests stand in the record and in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.learning.learners import learner_digest, parameters_of
from privacy.learning.trained import Trained, unpacked
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written

if TYPE_CHECKING:
    from privacy.ledger.entries import Entry

CHECKPOINT_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("value", pa.float32(), nullable=False),
    ]
)
CHECKPOINT_PARTS: Final = ("parameters", "first moments", "second moments", "average", "padding")


def checkpoint_name(trained: Trained, number: int) -> str:
    """Name the file of a training's last checkpoint after its number."""
    return f"{number:04d}-checkpoint"


def write_checkpoints(
    trainings: Sequence[Trained], entries: Sequence[Entry], folder: Path, *, marks: Mapping[str, str]
) -> Iterator[WrittenFile]:
    """Write the last checkpoint of each training.

    Args:
        trainings: what was trained.
        entries: the run's journal entries; give the numbers of the draws.
        folder: the version's folder.
        marks: what each file says about where it comes from.
    Privacy: released values only.
    """
    (folder / MEASUREMENTS).mkdir(exist_ok=True)
    numbers = {entry.body["key"]: entry.body["number"] for entry in entries if entry.kind == "noise_drawn"}
    for trained in trainings:
        path = f"{MEASUREMENTS}/{checkpoint_name(trained, numbers[trained.draws[-1]])}.parquet"
        values = unpacked(trained.checkpoint, 2 * trained.checkpoint.size)
        parts = pa.DictionaryArray.from_arrays(
            pa.array(_parts(trained, values.size)), pa.array(CHECKPOINT_PARTS, pa.string())
        )
        schema = CHECKPOINT_SCHEMA.with_metadata(dict(marks))
        table = pa.Table.from_arrays([parts, pa.array(values)], schema=schema)
        pq.write_table(table, folder / path, compression="zstd", use_dictionary=["part"])
        columns = (("part", "string"), ("value", "float"))
        yield written(folder, path, trained.draws[-1], "checkpoint", values.size, columns)


def _parts(trained: Trained, numbers: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Say of each number of a checkpoint what it is: parameters, moments, the average, and what fills a word up."""
    size, learner = parameters_of(trained.learner), trained.learner
    averaged = learner.averaging is not None
    moments = numbers // size - 1 - averaged
    kinds = [0, *range(1, 1 + moments), *([3] if averaged else [])]
    found = np.full(numbers, 4, dtype=np.int8)
    found[: size * len(kinds)] = np.repeat(np.array(kinds, dtype=np.int8), size)
    return found


def training_part(trained: Trained, key: str) -> dict[str, Any]:
    """Write one draw of a training as the record states it: plan, learner, and which interval it is."""
    interval = trained.draws.index(key) if key in trained.draws else None
    return {"plan": trained.plan.to_json(), "learner": learner_digest(trained.learner), "interval": interval}
