"""What the page shows of each table, dense or sparse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts.contract.contract import Contract
from tasks.records.page.dense_view import TableView, dense_view, room
from tasks.records.page.published_tables import PublishedList, ReadFile, published_cells, read_tables
from tasks.records.page.sparse_view import sparse_view
from tasks.records.values import Values


def table_views(replay: Mapping[str, Any], values: Values, contract: Contract, read: ReadFile) -> list[TableView]:
    """Prepare every table; arguments as for `read_tables`. One table at a time is in memory."""
    share, files = room(max(1, len(replay["tables"]))), [file["path"] for file in values["output.files"]]
    own = published_cells(replay, contract)
    return [
        sparse_view(table, contract, files, number, share)
        if isinstance(table, PublishedList)
        else dense_view(table, own[table.name], files, number, share)
        for number, table in enumerate(read_tables(replay, values, contract, read), 1)
    ]
