"""Ledgers to measure on: a SQLite file, or a real PostgreSQL server of their own, with one account and its source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

from contracts.canonical import digest
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import DiscreteLaplace, PrivacyEvent
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest

ACCOUNT: Final = "people-2024"
DATABASES: Final = ("SQLite", "PostgreSQL")
EPSILON: Final = Fraction(1, 1000)
SIGNER: Final = Signer(bytes(32))
_SOURCE: Final = "file:people.parquet"


@contextmanager
def database(name: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty database; a PostgreSQL server runs, with its default settings, until the end."""
    if name == "SQLite":
        yield f"sqlite:///{folder / 'ledger.sqlite'}"
        return
    from pgserver.postgres_server import get_server

    server = get_server(str(folder / "postgresql"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def connect(url: str, folder: Path) -> Ledger:
    """Connect to the ledger of a database, as a process of a workspace with the signing key does."""
    return Ledger(url, draws=folder / "draws", signer=SIGNER)


def make_ledger(url: str, folder: Path, *, epsilon: int) -> None:
    """Make a ledger with one pure account and a source of its people; nothing stays connected."""
    terms = AccountTerms(ACCOUNT, "people", "2024", "row", "add_remove", PureCalculus(), epsilon * PICO, 0)
    with closing(connect(url, folder)) as ledger:
        ledger.open_account(terms)
        ledger.bind_source(_SOURCE, "people", time_block("2024"))


def request(
    run_key: str, *, release: str = "people-tables", draws: int = 1, epsilon: Fraction = EPSILON
) -> ChargeRequest:
    """Return a release of so many draws of Laplace noise, which cost epsilon together."""
    events: tuple[PrivacyEvent, ...] = (DiscreteLaplace(epsilon / draws, (1,)),) * draws
    return ChargeRequest(
        run_key=run_key,
        account=ACCOUNT,
        source=_SOURCE,
        release=release,
        spec_digest=digest(release),
        contract_digest="b" * 64,
        snapshot_hash="c" * 64,
        adjacency="add_remove",
        unit="row",
        scope="block",
        rows_per_unit=1,
        events=events,
        epsilon=int(epsilon * PICO),
        delta=0,
    )
