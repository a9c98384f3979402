"""PipelineDP over PyDP: keys by its truncated geometric selection, people by its count of privacy ids.

`keys` asks PyDP for the strategy that the engine uses, with all of epsilon and delta, and tosses its coin for each
key: the engine has no query for keys alone. `keys_counts` has the engine select keys and count people, at its own
split of the budget.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pipeline_dp
import rows_of_people
from pipeline_dp import Metrics
from pydp.algorithms import partition_selection
from rows_of_people import Question


def ask(question: Question) -> list[list[float]]:
    """Read the table once."""
    frame = pd.read_parquet(question.data)
    if question.mode == "keys":
        people = frame.groupby("key").person.nunique().to_numpy()
        strategy = partition_selection.create_truncated_geometric_partition_strategy(
            question.epsilon, question.delta, question.rows_per_person
        )
        return [
            [float(np.sum([strategy.should_keep(int(number)) for number in people]))] for _ in range(question.repeats)
        ]
    rows = list(zip(frame.person.tolist(), frame.key.tolist(), strict=True))
    found = [_released(question, rows) for _ in range(question.repeats)]
    if question.mode == "keys_counts":
        return [[float(len(each))] for each in found]
    return [[each[cell] for cell in range(question.cells)] for each in found]


def _released(question: Question, rows: list[tuple[int, int]]) -> dict[int, float]:
    """Count the people of each key, or of each that is selected."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=question.epsilon, total_delta=question.delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    wanted = pipeline_dp.AggregateParams(
        metrics=[Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=question.rows_per_person,
        max_contributions_per_partition=1,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 0
    )
    declared = list(range(question.cells)) if question.cells else None
    found = engine.aggregate(rows, wanted, columns, public_partitions=declared)
    accountant.compute_budgets()
    return {key: float(each.privacy_id_count) for key, each in found}


rows_of_people.main(ask, "pipeline-dp", "python-dp", "numpy")
