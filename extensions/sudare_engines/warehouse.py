"""Ingest in a warehouse: a table is bounded and encoded by the server that has it, into a stage of the session alone.

reach the server and see who it is → one state of the table → refuse what engines read differently → bound and encode
there → hash there

The stage ends with the session, so that nothing of it stays. A run that was interrupted makes it again: an unchanged
table gives the same keyed hash, and so is the same run. What crosses over is what `stage` says.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Literal

from contracts.contract.contract import Contract
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from sudare_engines.engine import Engine
from sudare_engines.portable_sql import sql_of
from sudare_engines.stage_rules import (
    hash_of,
    key_row,
    kinds_of,
    refuse_lost_rows,
    refuse_no_rows,
    refuse_nobodys,
    repeated_ids,
)
from sudare_engines.staged_table import StagedTable
from sudare_engines.staging import BesideCodes, stage_of, staged
from tasks.storage.progress import step
from tasks.storage.snapshot.snapshot import private_folder

logger = logging.getLogger(__name__)

NAME: Final = "in-the-warehouse"
"""Stands for the stage in the run's folder, where nothing of it lies."""


class Warehouse(Engine):
    """A session of a server that has the table; made by `Kind(source)`, which reaches it and sees that it is safe.

    Raises:
        SourceUnreadable: the server cannot be reached or does not let us in.
        EngineNotTrusted: it is on another machine, and the session is not encrypted as it must be.
    """

    @abstractmethod
    def __init__(self, source: Source) -> None: ...

    @abstractmethod
    def make_tables(self, columns: Mapping[str, Literal["whole", "text"]], keys: Mapping[str, str]) -> None:
        """Make the tables `sudare_stage` and `sudare_keys` for this session alone; no statement holds a key.

        Args:
            columns: what the columns of the stage hold, by their names; whole numbers are of 32 bits.
            keys: the one row of keys, by the names of its columns.
        """

    @abstractmethod
    def one_state(self) -> AbstractContextManager[None]:
        """See one state of the table inside the block, whatever others write."""

    @abstractmethod
    def open(self, contract: Contract) -> dict[str, str]:
        """Let `sudare_source` stand for the table; return the types of the contract's columns by their names.

        Raises:
            SourceUnreadable: there is no such table, or it is a view.
            GateBroken: its columns are not those of the contract.
        """

    @abstractmethod
    def source_rows(self) -> int:
        """Return how many rows the table has."""

    @abstractmethod
    def stage(self, sql: str) -> int:
        """Keep what a SELECT over the source gives in `sudare_stage`; return how many rows were written."""

    @abstractmethod
    def drop_keys(self) -> None:
        """Drop the keys."""


def ingest_in_warehouse(
    kind: type[Warehouse],
    source: Source,
    contract: Contract,
    *,
    folder: Path,
    key: bytes,
    beside: Sequence[BesideCodes] = (),
) -> PrivateTable:
    """Make the stage of a run in the server that has its table.

    Args:
        kind: the kind of warehouse.
        source: a table of it.
        contract: columns, domains and the privacy unit.
        folder: the run's private folder; made 0700.
        key: the workspace's snapshot key.
        beside: what is encoded beside the codes.
    Returns:
        The snapshot, whose engine counts it; whoever has it closes the engine.
    Raises:
        EngineNotTrusted, SourceUnreadable: as `Warehouse`.
        SpecRefused: columns are of types that engines read differently.
        GateBroken: columns, rows or unit ids are not as the contract and the format declare.
        EngineFailed: the server could not do it, or hides rows of the table from us.
    Privacy: nothing leaves but the error, if there is one; the keyed hash is private.
    """
    with step("ingest") as bar, private_folder(folder):
        session = kind(source)
        try:
            names = stage_of(contract, beside)
            texts = {
                names.beside[each.name]
                for each in beside
                if isinstance(each, KeyColumn) and not isinstance(each, UnitOrder)
            }
            session.make_tables({name: "text" if name in texts else "whole" for name in names.columns}, key_row(key))
            bar.advance(0.1)
            with session.one_state():
                written, read, columns = _staged(session, contract, beside, source.name)
            bar.advance(0.9)
            rows, hashed = hash_of(session, contract, beside, key)
            session.drop_keys()
            repeated = repeated_ids(session, columns, contract)  # after the stage: no statement that fails undoes it
            refuse_lost_rows(session, contract, read=read, written=written, found=rows, remedy="Run again")
            refuse_no_rows(rows, source.name)
        except BaseException:
            session.close()
            raise
        logger.info("staged a table in a warehouse under contract %s", contract.digest[:12])
        counted = StagedTable(session, contract, rows, beside, read, repeated)
        return PrivateTable(folder / NAME, hashed, contract.digest, source.name, counted)


def _staged(
    session: Warehouse, contract: Contract, beside: Sequence[BesideCodes], where: str
) -> tuple[int, int, dict[str, str]]:
    """Bound and encode the table there; return how many rows were written, how many there are, and the columns."""
    columns = session.open(contract)
    kinds = kinds_of(session, columns, contract, where)
    refuse_nobodys(session, contract, kinds, where)
    sql = sql_of(staged(contract, kinds, beside), session.dialect)
    return session.stage(sql), session.source_rows(), columns
