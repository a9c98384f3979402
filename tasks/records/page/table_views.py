"""The tables of the page, dense and sparse."""

from __future__ import annotations

from typing import Any

from tasks.records.facts import RunFacts
from tasks.records.outputs import SparseTable
from tasks.records.page.dense_view import TableView, dense_view, room
from tasks.records.page.sparse_view import sparse_view


def table_views(facts: RunFacts, values: dict[str, Any]) -> list[TableView]:
    """Prepare every table.

    Args:
        facts: the run; its tables are released values.
        values: the public record's values.
    """
    share = room(max(1, len(facts.tables)))
    return [
        sparse_view(facts, values, number, table, share)
        if isinstance(table, SparseTable)
        else dense_view(facts, values, number, table, share)
        for number, table in enumerate(facts.tables, 1)
    ]
