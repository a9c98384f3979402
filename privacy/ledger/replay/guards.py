"""What guards the ledger beside its entries: the database's own rules, the dates, and a checkpoint for each version.

The database refuses to change or delete an entry or a checkpoint (triggers), to hold two of a kind (keys and unique
constraints), and to refer to nothing (foreign keys). Who owns it can drop these rules; nothing that is written
afterwards shows it. So they are compared with those that `schema` makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Inspector, Table, UniqueConstraint, inspect, select, text

from contracts.errors import Finding
from privacy.ledger.entries import Entry, is_behind
from privacy.ledger.store import schema

_RESTORE: Final = (
    "somebody changed the database's rules: find out who, and what was written since; then `sudare budget backup`, "
    "and `sudare budget restore` into an empty database, which has them all"
)
_FIND_OUT: Final = (
    "the clock of the machine that wrote it, or of that before, was wrong or was set: find out which, set it, and "
    "enter that it is right: sudare budget clock --correct"
)
_SQLITE_TRIGGERS: Final = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
_POSTGRES_TRIGGERS: Final = text(
    "SELECT t.tgname, CASE WHEN t.tgenabled IN ('O', 'A') THEN p.prosrc ELSE '' END "
    "FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND n.nspname = current_schema()"
)
_REFUSAL: Final = {"sqlite": "RAISE(ABORT,", "postgresql": "RAISE EXCEPTION"}


class Dates:
    """The dates of the entries read so far, since the last one that corrects the clock.

    `latest` is the latest of them, and `findings` says which is dated more than a day before an earlier one.
    """

    def __init__(self) -> None:
        self.latest = "0001-01-02T00:00:00Z"
        self.findings: list[Finding] = []
        self._entry = 0

    def entry(self, entry: Entry) -> None:
        """Take one entry in."""
        where = f"journal entry {entry.sequence}"
        if entry.kind == "clock_corrected":
            told = entry.body["latest"]
            wrong = Finding(
                where, "latest", str(told)[:40], f"{self.latest}, the date of entry {self._entry}", _FIND_OUT
            )
            self.findings = [] if told == self.latest else [*self.findings, wrong]
        elif is_behind(entry.at, self.latest):
            allowed = f"at least {self.latest}, the date of entry {self._entry}, less a day"
            self.findings.append(Finding(where, "date", entry.at, allowed, _FIND_OUT))
        if entry.kind == "clock_corrected" or entry.at > self.latest:
            self.latest, self._entry = entry.at, entry.sequence


class Versions:
    """The versions that were published, and the checkpoints that were signed for them."""

    def __init__(self, connection: Connection) -> None:
        self._signed = set(connection.execute(select(schema.checkpoints.c.run_key).distinct()).scalars())
        self._without: dict[str, int] = {}

    def entry(self, entry: Entry) -> None:
        """Take one entry in."""
        if entry.kind == "version_published" and entry.body["run_key"] not in self._signed:
            self._without[entry.body["run_key"]] = entry.sequence

    def end(self) -> Iterator[Finding]:
        """Yield a finding for each version without a checkpoint."""
        for run_key, sequence in self._without.items():
            yield Finding(
                f"journal entry {sequence}",
                "checkpoint",
                f"none of run {run_key}",
                "the one that was signed when its version was published",
                "it was deleted, or its publication was interrupted, which running the spec again would finish",
            )


def missing_guards(connection: Connection) -> Iterator[Finding]:
    """Yield what the database no longer refuses, or finds only slowly."""
    inspector = inspect(connection)
    for table in schema.metadata.sorted_tables:
        yield from _missing_keys(inspector, table)
    kind = connection.dialect.name
    query = _SQLITE_TRIGGERS if kind == "sqlite" else _POSTGRES_TRIGGERS
    triggers = {str(name): str(source) for name, source in connection.execute(query)}
    for table_name in schema.APPEND_ONLY:
        for action in schema.REFUSED_ACTIONS[kind]:
            name = f"{table_name}_refuses_{action}"
            body = triggers.get(name, triggers.get(name.lower(), ""))
            if _REFUSAL[kind] not in body:
                found = "one that does nothing, or none"
                yield Finding(f"table {table_name}", "trigger", found, f"{name}, which refuses", _RESTORE)


def _missing_keys(inspector: Inspector, table: Table) -> Iterator[Finding]:
    """Yield the primary key, unique constraints, foreign keys and indexes that a table lacks."""
    name, where = table.name, f"table {table.name}"
    primary = tuple(inspector.get_pk_constraint(name)["constrained_columns"])
    wanted = tuple(column.name for column in table.primary_key.columns)
    if set(primary) != set(wanted):
        yield Finding(where, "primary key", ", ".join(primary) or "none", ", ".join(wanted), _RESTORE)
    unique = {tuple(sorted(each["column_names"])) for each in inspector.get_unique_constraints(name)}
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            columns = tuple(sorted(column.name for column in constraint.columns))
            if columns not in unique:
                yield Finding(where, "unique constraint", "none", ", ".join(columns), _RESTORE)
    foreign = {tuple(each["constrained_columns"]) for each in inspector.get_foreign_keys(name)}
    for key in table.foreign_key_constraints:
        if tuple(key.column_keys) not in foreign:
            yield Finding(where, "foreign key", "none", ", ".join(key.column_keys), _RESTORE)
    indexes = {str(each["name"]) for each in inspector.get_indexes(name)}
    for index in table.indexes:
        if index.name not in indexes:
            yield Finding(where, "index", "none", str(index.name), _RESTORE)
