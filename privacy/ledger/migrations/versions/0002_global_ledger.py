"""Overlapping time blocks that are charged together, a Merkle tree that grows by appending, checkpoints, PostgreSQL.

The journal's entries are carried over as they are: what they say and their hashes never change.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import sqlalchemy as sa
from alembic import op

from contracts.blocks import BlockRefused, TimeBlock, time_block
from contracts.canonical import canonical_json
from privacy.ledger.entries import GENESIS
from privacy.ledger.errors import LedgerUnavailable
from privacy.ledger.merkle import appended

revision = "0002"
down_revision = "0001"

_OLD = ("meta", "draws", "versions", "charges", "accounts", "sources", "journal")
_LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_PG_FUNCTION = """
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$
"""
_PG_TRIGGER = (
    "CREATE TRIGGER {table}_refuses_{action} BEFORE {action} ON {table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()"
)
_SQLITE_TRIGGER = (
    "CREATE TRIGGER {table}_refuses_{action} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
)


def upgrade() -> None:
    """Read all there is, make the new tables, and write it into them."""
    connection = op.get_bind()
    rows = {name: _rows(connection, name) for name in _OLD}
    _refuse_reserved(rows["charges"])
    _refuse_overlaps(rows["accounts"])
    for name in _OLD:
        op.drop_table(name)
    made = {table.name: table for table in _create()}
    for name, values in _carried_over(rows).items():
        if values:
            connection.execute(made[name].insert(), values)
    _refuse_changes(sqlite=connection.dialect.name == "sqlite")


def _refuse_changes(*, sqlite: bool) -> None:
    """Let the database itself refuse to change or delete what is only ever appended."""
    if not sqlite:
        op.execute(_PG_FUNCTION)
    for table in ("journal", "checkpoints"):
        for action in ("UPDATE", "DELETE") if sqlite else ("UPDATE", "DELETE", "TRUNCATE"):
            op.execute((_SQLITE_TRIGGER if sqlite else _PG_TRIGGER).format(table=table, action=action))


def _rows(connection: sa.Connection, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(sa.text(f"SELECT * FROM {table}")).mappings()]


def _refuse_reserved(charges: list[dict[str, Any]]) -> None:
    """Refuse charges that may still be returned; what was opened is spent and is carried over as it is."""
    reserved = [charge["run_key"] for charge in charges if charge["status"] == "reserved"]
    if reserved:
        raise LedgerUnavailable(
            f"runs that have reserved and not begun to draw: {', '.join(reserved)}; run their specs once more with "
            "the version of Sudare that reserved, then migrate"
        )


def _refuse_overlaps(accounts: list[dict[str, Any]]) -> None:
    """Refuse accounts whose people overlap: the first schema charged only one of them, and neither is a bound."""
    terms = [json.loads(row["terms"]) for row in accounts]
    for one, other in combinations(terms, 2):
        same_people = one["population"] == other["population"]
        if same_people and _block(one["block"]).overlaps(_block(other["block"])):
            raise LedgerUnavailable(
                f"accounts {one['name']} and {other['name']} are of the same people on overlapping days, and each "
                "was charged without the other: their losses add up. Start a new ledger for later days"
            )


def _carried_over(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the new tables."""
    places = {row["source"]: (row["population"], _block(row["block"])) for row in rows["sources"]}
    requests = {row["run_key"]: json.loads(row["request"]) for row in rows["charges"]}
    journal, frontier = _with_subtrees(sorted(rows["journal"], key=lambda row: row["sequence"]))
    last = journal[-1]["hash"] if journal else GENESIS
    return {
        "accounts": [_account(row) for row in rows["accounts"]],
        "sources": [{**row, **_days(_block(row["block"]))} for row in rows["sources"]],
        "charges": [_charge(row, requests[row["run_key"]], places) for row in rows["charges"]],
        "charge_parts": [{name: row[name] for name in ("run_key", "account", "amount")} for row in rows["charges"]],
        "draws": [{name: value for name, value in row.items() if name != "cost"} for row in rows["draws"]],
        "versions": _superseded(rows["versions"]),
        "journal": journal,
        "journal_head": [{"id": 1, "size": len(journal), "last": last, "frontier": json.dumps(frontier)}],
    }


def _superseded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark what a later version has superseded; the first schema did not."""
    newest: dict[str, int] = {}
    for row in rows:
        if row["status"] == "published":
            newest[row["release"]] = max(row["number"], newest.get(row["release"], 0))
    return [
        {**row, "status": "superseded"}
        if row["status"] == "published" and row["number"] < newest[row["release"]]
        else row
        for row in rows
    ]


def _account(row: dict[str, Any]) -> dict[str, Any]:
    terms = json.loads(row["terms"])
    return {**row, "population": terms["population"], **_days(_block(terms["block"]))}


def _charge(row: dict[str, Any], request: dict[str, Any], places: dict[str, tuple[str, TimeBlock]]) -> dict[str, Any]:
    population, block = places[request["source"]]
    kept = {name: row[name] for name in ("run_key", "number", "status", "security")}
    named = {name: request[name] for name in ("release", "spec_digest")}
    text = canonical_json({**request, "scope": "block"}).decode()
    return {**kept, **named, "population": population, **_days(block), "request": text}


def _block(written: str) -> TimeBlock:
    try:
        return time_block(written)
    except BlockRefused as error:
        raise LedgerUnavailable(
            f"the time block {written!r} of an account or source is no calendar period"
        ) from error


def _days(block: TimeBlock) -> dict[str, int]:
    return {"begins": block.begins, "ends": block.ends}


def _with_subtrees(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Add to each entry what it is about and the Merkle subtrees that it completes."""
    frontier: tuple[str, ...] = ()
    for size, row in enumerate(rows):
        frontier, subtrees = appended(frontier, size, row["hash"])
        body = json.loads(row["body"])
        row["subtrees"] = " ".join(subtrees)
        row["subject"] = body.get("run_key") or body.get("account") or body.get("name") or body.get("source") or ""
    return rows, list(frontier)


def _create() -> list[sa.Table]:
    """Create the new tables."""
    days = (("begins", sa.Integer), ("ends", sa.Integer))
    return [
        op.create_table(
            "accounts",
            sa.Column("name", sa.String(200), primary_key=True),
            sa.Column("population", sa.String(200), nullable=False, index=True),
            *(sa.Column(name, kind, nullable=False) for name, kind in days),
            sa.Column("terms", sa.Text, nullable=False),
            sa.Column("cap", sa.BigInteger, nullable=False),
            sa.Column("spent", sa.BigInteger, nullable=False),
            sa.Column("status", sa.String(10), nullable=False),
        ),
        op.create_table(
            "sources",
            sa.Column("source", sa.Text, primary_key=True),
            sa.Column("population", sa.String(200), nullable=False),
            sa.Column("block", sa.String(200), nullable=False),
            *(sa.Column(name, kind, nullable=False) for name, kind in days),
        ),
        op.create_table(
            "charges",
            sa.Column("run_key", sa.String(200), primary_key=True),
            sa.Column("number", _LONG, nullable=False, unique=True),
            sa.Column("release", sa.String(200), nullable=False),
            sa.Column("spec_digest", sa.String(64), nullable=False, index=True),
            sa.Column("population", sa.String(200), nullable=False, index=True),
            *(sa.Column(name, kind, nullable=False) for name, kind in days),
            sa.Column("request", sa.Text, nullable=False),
            sa.Column("status", sa.String(10), nullable=False),
            sa.Column("security", sa.String(10)),
        ),
        op.create_table(
            "charge_parts",
            sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), primary_key=True),
            sa.Column("account", sa.String(200), sa.ForeignKey("accounts.name"), primary_key=True, index=True),
            sa.Column("amount", sa.BigInteger, nullable=False),
        ),
        op.create_table(
            "draws",
            sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), primary_key=True),
            sa.Column("key", sa.String(200), primary_key=True),
            sa.Column("number", sa.Integer, nullable=False),
            sa.Column("event", sa.Text, nullable=False),
            sa.Column("sha256", sa.String(64), nullable=False),
            sa.UniqueConstraint("run_key", "number"),
        ),
        op.create_table(
            "versions",
            sa.Column("release", sa.String(200), primary_key=True),
            sa.Column("number", sa.Integer, primary_key=True),
            sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), nullable=False, unique=True),
            sa.Column("status", sa.String(10), nullable=False),
            sa.Column("manifest", sa.String(64)),
        ),
        op.create_table(
            "journal",
            sa.Column("sequence", _LONG, primary_key=True, autoincrement=False),
            sa.Column("previous", sa.String(64), nullable=False, unique=True),
            sa.Column("hash", sa.String(64), nullable=False),
            sa.Column("kind", sa.String(40), nullable=False),
            sa.Column("at", sa.String(40), nullable=False),
            sa.Column("body", sa.Text, nullable=False),
            sa.Column("subject", sa.Text, nullable=False, index=True),
            sa.Column("subtrees", sa.Text, nullable=False),
        ),
        op.create_table(
            "journal_head",
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("size", sa.BigInteger, nullable=False),
            sa.Column("last", sa.String(64), nullable=False),
            sa.Column("frontier", sa.Text, nullable=False),
        ),
        op.create_table(
            "checkpoints",
            sa.Column("size", _LONG, primary_key=True, autoincrement=False),
            sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), primary_key=True, index=True),
            sa.Column("key_id", sa.String(16), primary_key=True),
            sa.Column("root", sa.String(64), nullable=False),
            sa.Column("head", sa.String(64), nullable=False),
            sa.Column("at", sa.String(40), nullable=False),
            sa.Column("signature", sa.String(128), nullable=False),
        ),
    ]
