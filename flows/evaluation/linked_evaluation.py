"""How synthetic rows of two linked tables are compared with real ones; all that is found is private."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.evaluation.product_evaluations import rows_of
from privacy.evaluation.scores import PrivateScores
from privacy.private_table import PrivateTable
from tasks.evaluate import evaluate
from tasks.evaluation.linked_scores import joined_rows, with_linked_errors
from tasks.records.files.synthetic_files import parent_name
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.verification.fitted_meaning import SyntheticMeaning


class LinkedEvaluation:
    """Two tables: the child's rows with their parents' columns, and what more there is."""

    def scores(
        self,
        path: Path,
        record: SyntheticRecord,
        meaning: SyntheticMeaning,
        table: PrivateTable,
        made: Path,
        terms: dict[str, Any],
    ) -> PrivateScores:
        """Compare; as `ModifierEvaluation`."""
        contract, names, limit = meaning.contract, meaning.names, terms["memory_limit"]
        above = record.replay.rows.parents
        parents = rows_of(path, "" if above is None else above.data, parent_name(record.release))
        folder = table.path.parent
        with joined_rows(made, parents, contract, names, folder=folder, memory_limit=limit) as joined:
            scores = evaluate(table, joined.rows, contract, **terms)
            return with_linked_errors(scores, table, joined, parents, contract, names, memory_limit=limit)
