"""`/metrics` of the site: the numbers of `sudare metrics`, for holders of a token and nobody else."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from contracts.errors import SpecRefused
from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from sudare_web.site.asking import Site
from sudare_web.site.tokens import Tokens
from tests.console.conftest import Typed
from tests.extensions.sudare_web.site.conftest import Shown

Scraped = Callable[[str | None], tuple[int, str]]


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[Path, str]:
    file, token = tmp_path / "scrapers.txt", "3f" * 32
    file.touch(mode=0o600)
    file.write_text(f"# who may read them\nprometheus {hashlib.sha256(token.encode()).hexdigest()}\n")
    return file, token


@pytest.fixture
def scraped(shown: Shown, tokens: tuple[Path, str]) -> Iterator[Scraped]:
    site = make_site(shown.workspace, scrapers=Tokens(tokens[0]))
    client = TestClient(make_app(site), base_url="http://localhost", follow_redirects=False)

    def ask(authorization: str | None) -> tuple[int, str]:
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = client.get("/metrics", headers=headers)
        return answer.status_code, answer.text

    yield ask
    site.view.close()


def steady(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("sudare_written")]


def test_a_token_reads_what_the_command_prints(
    shown: Shown, scraped: Scraped, tokens: tuple[Path, str], typed: Typed
):
    code, text = scraped(f"Bearer {tokens[1]}")
    assert code == 200
    assert steady(text) == steady(typed("metrics", at=shown.workspace).out)
    assert 'sudare_versions{status="withdrawn"} 1' in text
    assert "secret" not in text


def test_without_its_token_nobody_reads_them(scraped: Scraped, tokens: tuple[Path, str]):
    """Neither nobody's token, nor another scheme, nor the file's hash; nor a token whose line is gone."""
    file, token = tokens
    kept = file.read_text().split()[-1]
    for authorization in (None, "", "Bearer", "Bearer wrong", f"Basic {token}", f"Bearer {kept}"):
        assert scraped(authorization) == (401, "a token is needed\n")
    assert scraped(f"bearer {token}")[0] == 200
    file.write_text("")
    assert scraped(f"Bearer {token}")[0] == 401


def test_without_a_file_of_tokens_there_is_no_such_address(client: TestClient, tokens: tuple[Path, str]):
    assert client.get("/metrics", headers={"Authorization": f"Bearer {tokens[1]}"}).status_code == 404


def test_a_ledger_that_is_not_there_is_said_without_a_word_of_where(site: Site, tokens: tuple[Path, str]):
    away = replace(site.workspace, ledger_url="postgresql://nobody@127.0.0.1:9/none")
    broken = replace(site, workspace=away, scrapers=Tokens(tokens[0]))
    client = TestClient(make_app(broken), base_url="http://localhost")
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {tokens[1]}"})
    assert (answer.status_code, answer.text) == (503, "the ledger cannot be read\n")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(tokens: tuple[Path, str], mode: int):
    tokens[0].chmod(mode)
    with pytest.raises(SpecRefused, match=r"chmod 600"):
        Tokens(tokens[0])


@pytest.mark.parametrize("line", ["mika", "mika 1234", f"mika {'g' * 64}", f"../x {'a' * 64}"])
def test_a_line_of_another_form_is_named(tokens: tuple[Path, str], line: str):
    tokens[0].write_text(f"# who may read them\n{line}\n")
    with pytest.raises(SpecRefused, match=r"scrapers.txt:2"):
        Tokens(tokens[0])


def test_a_file_that_is_not_there_is_refused_before_anything_is_served(shown: Shown, typed: Typed):
    typed("serve", "--metrics-tokens", "missing.txt", at=shown.workspace).assert_ended(2, "allowed:")
