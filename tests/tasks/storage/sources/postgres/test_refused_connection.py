"""Why a server cannot be used is known by whole sentences, whatever databases and users are named."""

from __future__ import annotations

import psycopg
import pytest

from tasks.storage.sources.postgres.refused_connection import _cause_of_text, cause_of
from tests.tasks.storage.postgres_server import PostgresServer

AT = 'connection failed: connection to server at "role.certificate.example" (10.0.0.1), port 5432 failed: '
TEXTS = {
    f'{AT}FATAL:  database "role" does not exist': "a server without such a database",
    f'{AT}FATAL:  role "database" does not exist': "a server that refuses these credentials",
    f'{AT}FATAL:  permission denied for database "SSL"\nDETAIL:  User does not have CONNECT privilege.': (
        "no right to connect to this database"
    ),
    f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "a", database "b", no encryption': (
        "a server that takes encrypted connections only"
    ),
    f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "a", database "b", SSL encryption': (
        "a server that refuses these credentials"
    ),
    f"{AT}FATAL:  sorry, too many clients already": "a server without room for another connection",
    f"{AT}FATAL:  the database system is starting up": "a server that is starting or stopping",
    f"{AT}SSL error: certificate verify failed": "a server whose certificate cannot be checked, or is not for it",
    f"{AT}SSL error: bad signature": "a server whose certificate cannot be checked, or is not for it",
    f'{AT}server certificate for "a" (and 1 other name) does not match host name "b"': (
        "a server whose certificate cannot be checked, or is not for it"
    ),
    f"{AT}server does not support SSL, but SSL was required": (
        "a server with which no encrypted connection can be made"
    ),
    f"{AT}Connection refused\n\tIs the server running on that host?": "a server that cannot be reached",
    f'{AT}FATAL:  Datenbank "role" existiert nicht': "a server that answers and does not let this user in",
    f'{AT}FATAL:  database "a: SSL error: certificate verify failed" is odd': (
        "a server that answers and does not let this user in"
    ),
    f'{AT}FATAL:  a cause of the next version, and no role "x" does not exist': (
        "a server that answers and does not let this user in"
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_cause_is_told_by_a_whole_sentence(text: str) -> None:
    """Hosts, users and databases are named by the words of other causes."""
    assert _cause_of_text(text, needs_password=False, used_password=False)[0] == TEXTS[text]


def test_a_server_that_speaks_another_language_is_told_by_what_it_asked_for() -> None:
    told = f'{AT}致命的エラー:  ロール"role"は存在しません'
    for needs, used, found in (
        (True, False, "a server that refuses these credentials"),
        (False, True, "a server that answers and does not let this user in"),
    ):
        assert _cause_of_text(told, needs_password=needs, used_password=used)[0] == found


def test_a_server_is_told_apart_from_one_whose_names_are_the_words_of_messages(postgres: PostgresServer) -> None:
    """A database `role`, users `certificate` and `SSL`, at a real server."""
    database = postgres.database("CREATE ROLE certificate LOGIN", 'CREATE ROLE "SSL" NOLOGIN')
    postgres.run("postgres", f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    try:
        for user, name, found in (
            ("certificate", "role", "a server without such a database"),
            ("certificate", database, "no right to connect to this database"),
            ("SSL", "postgres", "a server that refuses these credentials"),
            ("no such database", "postgres", "a server that refuses these credentials"),
        ):
            with pytest.raises(psycopg.OperationalError) as raised:
                postgres.connect(name, user=user)
            assert cause_of(raised.value)[0] == found
    finally:
        postgres.run("postgres", "DROP ROLE certificate", 'DROP ROLE "SSL"')
