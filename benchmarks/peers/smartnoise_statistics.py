"""SmartNoise SQL: `PrivateReader.execute` of one GROUP BY, with row privacy and all groups kept.

Its epsilon is one noisy column's, so the query's own privacy cost says what it is divided by: an average is a sum and
a count, and both are shared with SUM(value) and COUNT(value) beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import repeated_query
from repeated_query import Ask, Cell, Grouped, Noisy
from snsql import Privacy, from_connection

COLUMNS = {
    "sum": {"sum": "SUM(value)"},
    "mean": {"mean": "AVG(value)"},
    "together": {"count": "COUNT(value)", "sum": "SUM(value)", "mean": "AVG(value)"},
}


def connect(table: Grouped) -> Ask:
    """Read the table once; small groups are kept, since the keys are declared."""
    frame = pd.read_parquet(table.path)
    columns = {
        "region": {"type": "string"},
        "sex": {"type": "string"},
        "value": {"type": "int", "lower": table.low, "upper": table.high},
    }
    terms = {"row_privacy": True, "censor_dims": False, "clamp_counts": False, "rows": len(frame)}
    metadata = {"": {"public": {"rows": {**terms, **columns}}}}

    def answers(mode: str, epsilon: float, repeats: int) -> Iterator[dict[str, dict[Cell, float]]]:
        wanted = COLUMNS[mode]
        selected = ", ".join(f"{expression} AS noisy_{name}" for name, expression in wanted.items())
        query = f"SELECT region, sex, {selected} FROM public.rows GROUP BY region, sex"
        unit = from_connection(frame, privacy=Privacy(epsilon=1.0, delta=0.0), metadata=metadata)
        parts = unit.get_privacy_cost(query)[0]
        privacy = Privacy(epsilon=epsilon / parts, delta=0.0)
        reader = from_connection(frame, privacy=privacy, metadata=metadata)
        for _ in range(repeats):
            _, *found = reader.execute(query)
            yield {name: {(row[0], row[1]): row[2 + place] for row in found} for place, name in enumerate(wanted)}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        return table.rows(answers(mode, epsilon, repeats))

    return ask


repeated_query.main(connect, "smartnoise-sql", "opendp", "pandas")
