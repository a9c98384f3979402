"""Why a server of PostgreSQL cannot be used, told of a connection that was not made.

libpq keeps the SQLSTATE of such an error to itself. Only its text is there, and the server's part of that may be in
another language. So each cause is known by a whole sentence of the server or of libpq, and never by a word, which
could be the name of a database or of a user. What no sentence tells, the connection does: whether the server asked
for a password. Texts go no further: they name hosts and users.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psycopg

Cause = tuple[str, str, str]
"""What was found, what is allowed, and what to do."""

_SECRET: Final = "check PGUSER and PGPASSWORD, ~/.pgpass, or the named `credentials:`"
_CREDENTIALS: Final[Cause] = (
    "a server that refuses these credentials",
    "a user who may connect and read the table",
    _SECRET,
)
_DATABASE: Final[Cause] = ("a server without such a database", "an existing database", "correct `path:`")
_RIGHT: Final[Cause] = (
    "no right to connect to this database",
    "a user who may connect",
    "grant CONNECT on it to the user",
)
_PLAIN: Final[Cause] = (
    "a server that takes encrypted connections only",
    "such a connection",
    "set PGSSLMODE=verify-full",
)
_FULL: Final[Cause] = (
    "a server without room for another connection",
    "a server with a free connection",
    "run again later, or raise its limit of connections",
)
_BUSY: Final[Cause] = ("a server that is starting or stopping", "a running PostgreSQL server", "run again later")
_CERTIFICATE: Final[Cause] = (
    "a server whose certificate cannot be checked, or is not for it",
    "one that holds",
    "let PGSSLROOTCERT name the certificate of its authority, and `path:` the name in its own certificate",
)
_NO_TLS: Final[Cause] = (
    "a server with which no encrypted connection can be made",
    "a server with TLS",
    "let the server speak TLS, or set PGSSLMODE and PGSSLROOTCERT",
)
_AWAY: Final[Cause] = (
    "a server that cannot be reached",
    "a running PostgreSQL server",
    "check host and port, and that the server runs; then run again",
)
_NOT_LET_IN: Final[Cause] = (
    "a server that answers and does not let this user in",
    "a server that takes this user, database and kind of connection",
    "check user, password and database, then the server's log and its pg_hba.conf",
)
_OF_THE_SERVER: Final = (
    (r"no pg_hba\.conf entry for .*, no encryption", _PLAIN),
    (r"(no pg_hba\.conf entry|pg_hba\.conf rejects connection) for .*", _CREDENTIALS),
    (r"(?:\S+ )+authentication failed for user \".*\"", _CREDENTIALS),
    (r"role \".*\" (does not exist|is not permitted to log in)", _CREDENTIALS),
    (r"database \".*\" (does not exist|is not currently accepting connections)", _DATABASE),
    (r"permission denied for database \".*\"", _RIGHT),
    (r"(sorry, too many clients already|remaining connection slots are reserved for .*)", _FULL),
    (r"too many connections for (role|database) \".*\"", _FULL),
    (r"the database system is (starting up|shutting down|in recovery mode|not yet accepting connections)", _BUSY),
)
"""What the server says after its severity, whole."""
_OF_LIBPQ: Final = (
    (r"fe_sendauth: no password supplied", _CREDENTIALS),
    (r"SSL error: .*(certificate|signature).*", _CERTIFICATE),  # OpenSSL's reasons, which name nobody
    (r"SSL error: tlsv1 alert .*|SSL error: sslv3 alert .*", _NO_TLS),
    (r"root certificate file \".*\" does not exist", _CERTIFICATE),
    (r"could not read root certificate file \".*\": .*", _CERTIFICATE),
    (r"server certificate for \".*\"(?: \(and \d+ other names?\))? does not match host name \".*\"", _CERTIFICATE),
    (
        r"certificate could not be obtained: .*|could not determine server certificate signature algorithm",
        _CERTIFICATE,
    ),
    (r"server does not support SSL, but SSL was required", _NO_TLS),
    (r"(SSL error|SSL SYSCALL error): .*", _NO_TLS),
)
"""What libpq says at the end of a line, after where the server is, in lines that are none of the server's."""


def cause_of(error: psycopg.Error) -> Cause:
    """Return why a connection was not made; fixed words, without those of server and libpq."""
    connection = error.pgconn
    needs, used = (False, False) if connection is None else (connection.needs_password, connection.used_password)
    return _cause_of_text(str(error), needs_password=needs, used_password=used)


def _cause_of_text(text: str, *, needs_password: bool, used_password: bool) -> Cause:
    answers: list[str] = []
    others: list[str] = []
    for line in text.splitlines():
        found = re.search(r"(?:^|: )[A-Z]+:  (.*)$", line.strip())
        if found is None:
            others.append(line.strip())
        else:
            answers.append(found[1])
    for answer in answers:
        for sentence, cause in _OF_THE_SERVER:
            if re.fullmatch(sentence, answer):
                return cause
    for sentence, cause in _OF_LIBPQ:
        if any(re.search(f"(?:^|: ){sentence}", line) for line in others):
            return cause
    if needs_password:
        return _CREDENTIALS
    return _NOT_LET_IN if answers or used_password else _AWAY
