"""The studio's page and its pieces out of templates, in the reader's language. Every text is escaped."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from sudare_web.site.rendering import template_environment
from tasks.records.page.language import ENGLISH, language, languages

LANGUAGE_COOKIE: Final = "sudare_lang"
"""The same as the review site's, which stands beside the studio."""
_YEAR_SECONDS: Final = 365 * 24 * 3600
_BAR_WIDTH: Final = 1000


def language_of(request: Request) -> str:
    """Say in which language somebody reads."""
    asked = request.query_params.get("lang") or request.cookies.get(LANGUAGE_COOKIE, "")
    return asked if asked in languages() else ENGLISH


def piece(template: str, code: str, **parts: Any) -> str:
    """Draw a template.

    Args:
        template: its name without the suffix.
        code: the language.
        parts: what it shows.
    """
    lang = language(code)
    drawn: str = (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            t=lang.text,
            say=lang.say,
            lang=code,
            languages=[(each, language(each).name) for each in languages()],
            **parts,
        )
    )
    return drawn.encode("utf-8", "backslashreplace").decode()  # a name on a disk may be no text


def root_of(request: Request) -> str:
    """Return the path that all links of an answer stand below; empty outside the door."""
    return str(request.scope.get("root_path", ""))


def path_below(scope: Scope) -> str:
    """Return the path that was asked for, without the secret one before it."""
    return str(scope["path"]).removeprefix(str(scope.get("root_path", "")))


def page(request: Request, template: str, status: int = HTTPStatus.OK, **parts: Any) -> HTMLResponse:
    """Answer with a whole page, and keep the language that was asked for."""
    code = language_of(request)
    query = {key: value for key, value in request.query_params.items() if key not in ("lang", "token")}
    drawn = piece(template, code, query=query, path=request.url.path, root=root_of(request), **parts)
    answer = HTMLResponse(drawn, status_code=status)
    if request.query_params.get("lang") in languages():
        answer.set_cookie(LANGUAGE_COOKIE, code, max_age=_YEAR_SECONDS, httponly=True, samesite="lax")
    return answer


def word_page(request: Request, matter: str, status: int, *, leads_to: str = "") -> HTMLResponse:
    """Answer with a few words: that somebody is in, or why not.

    Args:
        request: what was asked.
        matter: which words.
        status: HTTP status.
        leads_to: where the page leads by itself.
    """
    return page(request, "words", int(status), matter=matter, leads_to=leads_to)


@cache
def _environment() -> Environment:
    environment = template_environment(Path(__file__).parent / "templates")
    environment.filters |= {
        "thousands": lambda value: "–" if value is None else f"{value:,}",
        "percent": lambda share: f"{share * 100:.1f} %",
        "frozen": frozenset,
        "wide": lambda share: round(max(0.0, min(1.0, share)) * _BAR_WIDTH),
    }
    return environment
