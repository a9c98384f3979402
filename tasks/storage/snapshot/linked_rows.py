"""From linked tables to one, in DuckDB: which rows belong to which unit, and how many of them are kept.

Downward from the unit's table, for each table on the way to the base:

1. a row belongs to every unit that it leads to; one without a key, or with one that no parent has, is dropped
2. of a unit's rows that share a key by which others lead to them, one is kept
3. of a unit's rows, or of its rows below one parent, at most the declared number are kept

The choices of 2 and 3 are uniform at random, for each unit by itself: a row's draw is the keyed hash of the unit's
id, of the parent's key and of the row's place among the rows that it is chosen from
(`tasks.storage.snapshot.snapshot`). All of these are the unit's own. So no choice, and no row of a unit, depends on
another unit, as docs/derivations.md proves in section 2. Tables whose rows belong to no unit are the same for
neighbours; of rows that share a key there, one is taken in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import duckdb

from contracts.contract.linked import flat_name, reached
from contracts.contract.linked_tables import Derivation, Link, LinkedTable, LinkedTables, value_step
from contracts.domains.domain import DeclaredDomain
from contracts.domains.value_sql import double, id_sql, identifier, literal

FLAT, FLAT_PARENTS, LOSSES = "flat", "flat_parents", "link_losses"
OWNED, SHARED = "owned", "shared"
OUTER, INNER = "outer_key", "inner_key"
ONE, SOME = "one of a key", "some of a parent"
_DIGITS: Final = "[+-]?[0-9]{1,30}([.]0*)?"
Execute = Callable[[str], None]


def key_sql(raw: str, stored: str, logical_type: str, largest: int | None = None) -> str:
    """Write a key as text, null where it is missing: the same text for a value however a writer stores it.

    Args:
        raw: SQL for the value.
        stored: its type in DuckDB.
        logical_type: as the contract declares it; `017`, `17` and `17.0` are one integer, and `017` another string.
        largest: the largest id that is a number, where one is declared; a larger one is missing.
    """
    text = id_sql(raw, largest)
    if logical_type == "integer" and stored == "VARCHAR":
        plain = f"TRY_CAST(split_part({text}, '.', 1) AS HUGEINT)"
        read = f"CASE WHEN regexp_full_match({text}, {literal(_DIGITS)}) THEN CAST({plain} AS VARCHAR) END"
        return f"coalesce({read}, nullif({text}, ''))"
    return f"nullif({text}, '')"


@dataclass
class LinkedRows:
    """The relations of one join, made one after the other in a DuckDB file that holds each table as delivered.

    Args:
        linked: the tables.
        stored: by table, the type of each of its columns in DuckDB.
        execute: runs a statement; its variables OUTER and INNER hold the keys of the choices.
    """

    linked: LinkedTables
    stored: dict[str, dict[str, str]]
    execute: Execute
    _made: set[str] = field(default_factory=set)

    def flatten(self, base: str, into: str = FLAT) -> None:
        """Make a table of the rows of the base that units keep, in its order, with all columns they lead to.

        Args:
            base: a table whose rows belong to units.
            into: the table to make.
        Privacy: the rows of a unit depend on that unit's rows and on rows that belong to none.
        """
        self.execute("SET preserve_insertion_order = false")  # rows are told apart by their numbers
        owned = self._owned(base)
        names = reached(self.linked, base)
        taken = [f"o.unit AS {identifier(str(self.linked.terms.unit.column))}"]
        joins: list[str] = []
        for name in names:
            alias = self._row(name)
            joins.append(f"JOIN {self._table(name)} AS {alias} ON {alias}.rowid = o.{alias}")
            for column in self.linked.table(name).delivered:
                named = identifier(flat_name(self.linked, name, column.name))
                taken.append(f"{alias}.{identifier(column.name)} AS {named}")
        for name in names:
            for place, (derived, made) in enumerate(self.linked.table(name).derived):
                alias = f"{self._row(name)}d{place}"
                on = f"{alias}.unit = o.unit AND {alias}.parent = o.{self._row(name)}"
                joins.append(f"LEFT JOIN {self._reduced_by_key(name, made)} AS {alias} ON {on}")
                named = identifier(flat_name(self.linked, name, derived))
                empty = "NULL" if made.reduction in ("max", "min") else "0"
                taken.append(f"coalesce({alias}.number, {empty}) AS {named}")
        order = f"ORDER BY o.{self._row(base)}, o.unit"
        self.execute("SET preserve_insertion_order = true")
        self.execute(f"CREATE TABLE {into} AS SELECT {', '.join(taken)} FROM {owned} AS o {' '.join(joins)} {order}")

    def count_losses(self) -> None:
        """Make the table `link_losses`: for each link that was followed, the rows of its child that are left out.

        Privacy: exact and private, for the operator who holds the rows (`tasks.validation.misfits`).
        """
        unit = self.linked.terms.unit
        found = [self._loss(f"{unit.table}.{unit.column}", unit.table, str(unit.column), None)]
        for link in self.linked.terms.links:
            if {f"{kind}_{self._row(link.child)}" for kind in (OWNED, SHARED)} & self._made:
                found.append(self._loss(f"{link.origin} → {link.to}", link.child, link.child_column, link))
        for table in self.linked.tables:
            for name, made in table.derived:
                if made.column and f"{OWNED}_{self._row(made.child)}" in self._made:
                    found.append(self._misread(reduced_name(self.linked, table.name, name, made), made))
        self.execute(f"CREATE TABLE {LOSSES} AS {' UNION ALL '.join(found)}")

    def _loss(self, what: str, name: str, column: str, link: Link | None) -> str:
        """Write one row: rows of a table, those without a key, those whose key no parent has, others left out."""
        key = self._key(name, column)
        stray = "false"
        if link is not None:
            parents = f"SELECT {self._key(link.parent, link.parent_column)} FROM {self._table(link.parent)} AS t"
            stray = f"{key} NOT IN (SELECT * FROM ({parents}) AS k(key) WHERE key IS NOT NULL)"
        counts = f"count(*) AS number, count(*) FILTER ({key} IS NULL) AS missing, count(*) FILTER ({stray}) AS stray"
        bounded = link is None or self.linked.chain(link.parent) is not None
        kept = f"(SELECT count(*) FROM {OWNED}_{self._row(name)})" if bounded else "number"
        beyond = f"greatest(0, number - missing - stray - {kept}) AS beyond"
        counted = f"SELECT {counts} FROM {self._table(name)} AS t"
        return f"SELECT {literal(what)} AS link, number, missing, stray, {beyond} FROM ({counted})"

    def _owned(self, name: str) -> str:
        """Make the rows of a table that units keep: unit, numbers of this row and of those it leads to, its key."""
        relation = f"{OWNED}_{self._row(name)}"
        if relation in self._made:
            return relation
        terms, chain = self.linked.terms, self.linked.chain(name) or ()
        up = chain[0] if chain else None
        key = self.linked.keyed(name)
        parent = None if up is None else self._owned(up.parent)
        joins, rows = self._aside(name, up)
        group: tuple[str, ...]
        if up is None or parent is None:
            unit, group, bound = self._key(name, str(terms.unit.column)), ("unit",), terms.unit.max_rows_per_unit
            taken = [f"{unit} AS unit", *rows]
            known = ["unit IS NOT NULL"]
        else:
            joins = [f"JOIN {parent} AS p ON p.key = {self._key(name, up.child_column)}", *joins]
            above = [f"p.{self._row(each)}" for each in reached(self.linked, up.parent)]
            taken = ["p.unit AS unit", "p.key AS parent", *above, *rows]
            group, bound, known = ("unit", "parent"), up.at_most or 1, []
        taken += [] if key is None else [f"{self._key(name, key)} AS key"]
        source = f"SELECT {', '.join(taken)} FROM {self._table(name)} AS t {' '.join(joins)}"
        known += [] if key is None else ["key IS NOT NULL"]
        query = f"SELECT * FROM ({source}) WHERE {' AND '.join(['true', *known])}"
        if key is not None:
            query = self._chosen(query, name, ("unit", "key"), 1, ONE)
        self._make(relation, self._chosen(query, name, group, bound, SOME))
        return relation

    def _aside(self, name: str, up: Link | None) -> tuple[list[str], list[str]]:
        """Join a table with those that it leads to beside its unit: the joins, and the numbers of all these rows."""
        joins, rows = [], [f"t.rowid AS {self._row(name)}"]
        for place, link in enumerate(self.linked.upward(name)):
            if link is up:
                continue
            alias = f"a{place}"
            key = self._key(name, link.child_column)
            joins.append(f"JOIN {self._shared(link.parent, link.parent_column)} AS {alias} ON {alias}.key = {key}")
            rows += [f"{alias}.{self._row(each)}" for each in reached(self.linked, link.parent)]
        return joins, rows

    def _shared(self, name: str, key: str) -> str:
        """Make the rows of a table that belong to no unit, one for each key."""
        relation = f"{SHARED}_{self._row(name)}"
        if relation not in self._made:
            joins, rows = self._aside(name, None)
            taken = ", ".join([f"{self._key(name, key)} AS key", *rows])
            query = f"SELECT * FROM (SELECT {taken} FROM {self._table(name)} AS t {' '.join(joins)})"
            self._make(relation, self._chosen(f"{query} WHERE key IS NOT NULL", name, ("key",), 1, ONE))
        return relation

    def _misread(self, what: str, made: Derivation) -> str:
        """Write the row of a column whose values are reduced: rows, those without a value, unreadable, clipped."""
        domain, raw = self.linked.table(made.child).column(made.column).domain, f"t.{identifier(made.column)}"
        broken = [
            f"coalesce({domain.violation_sql(check, raw)}, true)" for check in ("not_null", "castable", "between")
        ]
        counts = ", ".join(f"count(*) FILTER ({each})" for each in broken)
        return f"SELECT {literal(what)}, count(*), {counts} FROM {self._table(made.child)} AS t"

    def _reduced_by_key(self, name: str, made: Derivation) -> str:
        """Write what a derived column is for each row of a table, by unit and row; rows without any are missing.

        Values become whole steps before they are added up, so that a sum is the same in any order of the rows.
        """
        child, owned = self.linked.table(made.child), self._owned(made.child)
        tests = " AND ".join(["true", *(_one_of(child, column, labels) for column, labels in made.where)])
        joined = f"{owned} AS c JOIN {self._table(made.child)} AS t ON t.rowid = c.{self._row(made.child)}"
        rows = f"SELECT c.unit AS unit, c.{self._row(name)} AS parent"
        if made.reduction == "count":
            return f"({rows}, count(*) AS number FROM {joined} WHERE {tests} GROUP BY ALL)"
        domain = child.column(made.column).domain
        up = next(link for link in self.linked.upward(made.child) if link.parent == name)
        steps, scale = _steps(domain, value_step(made, domain, up.at_most or 1))
        value = domain.value_sql(f"t.{identifier(made.column)}")
        read = f"SELECT unit, parent, {steps} AS steps FROM ({rows}, {value} AS v FROM {joined} WHERE {tests})"
        number = f"CAST({made.reduction}(steps) AS DOUBLE) / {double(float(scale))}"
        return f"(SELECT unit, parent, {number} AS number FROM ({read}) GROUP BY ALL)"

    def _chosen(self, query: str, name: str, group: Sequence[str], bound: int, purpose: str) -> str:
        """Make what a query finds, and write a query that keeps at most `bound` rows of each group of it.

        Those with the smallest draws are kept. Only groups that have too many are sorted. What is hashed tells its
        parts apart by their lengths.
        """
        own, partition, place = self._row(name), ", ".join(group), len(self._made)
        found, crowded = f"found_{place}", f"crowded_{place}"
        self._make(found, query)
        self._make(crowded, f"SELECT {partition} FROM {found} GROUP BY ALL HAVING count(*) > {bound}")
        parts = [literal(f"{purpose}, {own}"), "ordinal_", *(f"length({each}) || ':' || {each}" for each in group)]
        hashed = " || ':' || ".join(parts)
        draw = f"sha256(getvariable('{OUTER}') || sha256(getvariable('{INNER}') || {hashed})) AS draw_"
        ordinal = f"row_number() OVER (PARTITION BY {partition} ORDER BY {own}) AS ordinal_"
        drawn = f"SELECT *, {draw} FROM (SELECT *, {ordinal} FROM {found} SEMI JOIN {crowded} USING ({partition}))"
        rank = f"row_number() OVER (PARTITION BY {partition} ORDER BY draw_, ordinal_) AS place_"
        ranked = f"SELECT *, {rank} FROM ({drawn})"
        kept = f"SELECT * EXCLUDE (ordinal_, draw_, place_) FROM ({ranked}) WHERE place_ <= {bound}"
        return f"SELECT * FROM {found} ANTI JOIN {crowded} USING ({partition}) UNION ALL BY NAME {kept}"

    def _make(self, relation: str, query: str) -> None:
        self.execute(f"CREATE TABLE {relation} AS {query}")
        self._made.add(relation)

    def _row(self, name: str) -> str:
        """Name the column that holds a row's number in a table, and what is made of that table."""
        return row_name(self.linked, name)

    def _table(self, name: str) -> str:
        return delivered_name(self.linked, name)

    def _key(self, name: str, column: str) -> str:
        """Write a key of a row t as text."""
        kind = self.linked.table(name).types[column]
        largest = self.linked.terms.unit.numbers_up_to
        return key_sql(f"t.{identifier(column)}", self.stored[name][column], kind, largest)


def _one_of(child: LinkedTable, name: str, labels: Sequence[str]) -> str:
    """Write that a row's cell is one of some labels."""
    column = child.column(name)
    codes = ", ".join(str(column.labels.index(label)) for label in labels)
    raw = f"t.{identifier(name)}"
    value = column.domain.value_sql(raw)
    return f"({column.domain.code_sql(f'({value})', raw)}) IN ({codes})"


def _steps(domain: DeclaredDomain, step: Decimal) -> tuple[str, int]:
    """Write a value v, clipped to its bounds, in whole steps; null where it is missing. And how many steps are 1."""
    scale = int(1 / step)
    low, high = domain.value_bounds or (Decimal(0), Decimal(0))
    clipped = f"greatest({double(float(low))}, least({double(float(high))}, v))"
    missing = "NULL" if domain.nulls.to is None else str(round(Decimal(domain.nulls.to) * scale))
    null = domain.null_sql("v")
    return f"CASE WHEN {null} THEN {missing} ELSE CAST(round({clipped} * {scale}) AS BIGINT) END", scale


def reduced_name(linked: LinkedTables, table: str, name: str, made: Derivation) -> str:
    """Name a column of a child and the derived column that its values become, for the operator."""
    return f"{made.child}.{made.column} → {flat_name(linked, table, name)}"


def row_name(linked: LinkedTables, name: str) -> str:
    """Return the column that numbers the rows of a table."""
    return f"r{[table.name for table in linked.tables].index(name)}"


def delivered_name(linked: LinkedTables, name: str) -> str:
    """Return the name under which a table is put down before it is joined."""
    return f"delivered_{row_name(linked, name)}"


def flatten(
    linked: LinkedTables,
    base: str,
    connection: duckdb.DuckDBPyConnection,
    execute: Execute,
    *,
    parent: str | None = None,
) -> None:
    """Make the tables `flat` and `link_losses` of a connection that holds every table as delivered; see `LinkedRows`.

    Args:
        linked: the tables.
        base: the table whose rows are released.
        connection: the open file.
        execute: runs a statement on it.
        parent: a table whose rows are made flat too, as `flat_parents`: the same rows that those of the base lead to.
    """
    stored = {}
    for table in linked.tables:
        described = connection.execute(f"DESCRIBE {delivered_name(linked, table.name)}").fetchall()
        stored[table.name] = {row[0]: row[1] for row in described}
    rows = LinkedRows(linked, stored, execute)
    rows.flatten(base)
    if parent is not None:
        rows.flatten(parent, into=FLAT_PARENTS)
    rows.count_losses()
