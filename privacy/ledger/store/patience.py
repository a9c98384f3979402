"""Connections to PostgreSQL that end when the server stops answering: a frozen one keeps its connections open."""

from __future__ import annotations

import logging
from collections.abc import Generator
from time import monotonic
from typing import Any, Final

from psycopg import Connection, OperationalError
from sqlalchemy import Engine, event

_NOTICE_SECONDS: Final = 10.0


def end_frozen(engine: Engine, *, seconds: float) -> None:
    """Let the connections of an engine end when one answer takes longer than `seconds`; after 10, say so."""
    notice = min(_NOTICE_SECONDS, seconds / 2)
    where = engine.url.render_as_string(hide_password=True)

    class PatientConnection(Connection[Any]):
        """Waits for each answer for a limited time."""

        def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
            return super().wait(self._limited(gen), *args, **kwargs)

        def _limited(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """Pass the steps of psycopg on; it resumes them several times a second where nothing comes."""
            began, noticed, ready = monotonic(), False, None
            while True:
                try:
                    wanted = steps.send(ready)
                except StopIteration as end:
                    return end.value
                ready = yield wanted
                waited = monotonic() - began
                if not ready and waited >= seconds:
                    self.close()
                    raise OperationalError(f"no answer for {seconds:g} seconds (ledger.timeout)")
                if not ready and waited >= notice and not noticed:
                    noticed = True
                    text = "the ledger %s has not answered for %g seconds; it is waited for up to %g (ledger.timeout)"
                    logging.getLogger(__name__).warning(text, where, notice, seconds)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        return PatientConnection.connect(*arguments, **options)
