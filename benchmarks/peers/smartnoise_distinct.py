"""SmartNoise SQL: keys by `COUNT(DISTINCT person)` with a threshold, as `PrivateReader` censors groups.

It has no query that asks for keys alone. Rare groups are dropped where the noisy number of people is below the
threshold that delta asks for. Its epsilon is one noisy column's; the query's own privacy cost says what it is divided
by.
"""

from __future__ import annotations

import pandas as pd
import rows_of_people
from rows_of_people import Question
from snsql import Privacy, from_connection

QUERY = "SELECT key, COUNT(DISTINCT person) AS people FROM public.rows GROUP BY key"


def ask(question: Question) -> list[list[float]]:
    """Read the table once; each answer is drawn anew."""
    frame = pd.read_parquet(question.data)[["person", "key"]].astype({"key": "string"})
    terms = {
        "max_ids": question.rows_per_person,
        "sample_max_ids": False,
        "censor_dims": True,
        "clamp_counts": False,
        "rows": len(frame),
    }
    columns = {"person": {"type": "int", "private_id": True}, "key": {"type": "string"}}
    metadata = {"": {"public": {"rows": {**terms, **columns}}}}
    unit = from_connection(frame, privacy=Privacy(epsilon=1.0, delta=question.delta), metadata=metadata)
    parts = unit.get_privacy_cost(QUERY)[0]
    print("epsilon is divided by", parts)
    reader = from_connection(
        frame, privacy=Privacy(epsilon=question.epsilon / parts, delta=question.delta), metadata=metadata
    )
    return [[float(len(reader.execute(QUERY)) - 1)] for _ in range(question.repeats)]


rows_of_people.main(ask, "smartnoise-sql", "opendp", "pandas")
