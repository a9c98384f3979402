"""`sudare serve` and `sudare studio` are listed and explained as every command, and imported when they are called.

What keeps the studio from starting, and how it ends, is here too; of the site `site/test_serve.py` tells that.
"""

import inspect
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from rich.text import Text

from console.main import GROUP, DeferredCommand, summary_of
from contracts.plug_ins import RegisteredName, registered
from tests.console.conftest import COMMAND, Place, Typed
from tests.console.test_main import modules_after

PLACES = {each.name: each for each in registered(GROUP) if each.module.startswith("sudare_web.")}


def test_there_are_two():
    assert sorted(PLACES) == ["serve", "studio"]


@pytest.mark.parametrize("name", PLACES)
def test_a_command_has_help_with_an_example_and_speaks_json(name: str, typed: Typed):
    said = typed(name, "--help")
    assert said.code == 0
    assert f"sudare {name}" in said.out.split("Examples:")[1]
    assert "--json" in said.out


@pytest.mark.parametrize("name", PLACES)
def test_its_line_of_help_is_the_first_paragraph_of_its_docstring_and_no_word_is_markup(name: str):
    command = DeferredCommand(name, RegisteredName(PLACES[name])).command
    said = inspect.cleandoc(command.help or "")
    assert summary_of(PLACES[name].value) == " ".join(said.split("\n\n")[0].split())
    texts = [command.help, *(getattr(option, "help", None) for option in command.params)]
    assert [text for text in texts if text and Text.from_markup(text).plain != text] == []


def test_a_command_that_is_misspelled_is_meant(typed: Typed):
    assert "serve" in typed("srve").err.split("do:")[1]


@pytest.mark.services
def test_the_list_of_commands_imports_none_of_it():
    code, modules = modules_after("--help")
    assert code == 0
    assert [name for name in modules if name.startswith("sudare_web.") and name not in PACKAGES] == []


PACKAGES = ("sudare_web.studio",)
"""Packages of modules, whose source is a docstring."""


@pytest.mark.services
def test_the_studio_answers_loopback_until_a_signal_and_ends_with_0(tmp_path: Path):
    """In an empty folder, without a workspace: the address is of 127.0.0.1, and its token lets one reader in."""
    words = [*COMMAND, "studio", "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline()
        payload = json.loads(told)
        assert payload["url"].startswith("http://127.0.0.1:")
        assert payload["workspace"] is None
        with urllib.request.urlopen(payload["url"], timeout=60) as answer:
            assert answer.status == 200
        try:
            urllib.request.urlopen(payload["url"], timeout=60)
            again = 200
        except urllib.error.HTTPError as refused:
            again = refused.code
        assert again == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.services
def test_a_port_that_is_taken_is_named(shared: Place, typed: Typed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = typed("studio", str(shared.adult / "tables.yaml"), "--port", str(port), at=shared.workspace)
    assert said.code == 1
    assert f"127.0.0.1:{port}" in said.err
    assert "--port PORT" in said.err


def test_a_spec_that_is_not_there_is_named(shared: Place, typed: Typed):
    typed("studio", str(shared.adult / "nothing.yaml"), at=shared.workspace).assert_ended(2, "nothing.yaml")


def test_a_workspace_that_is_none_is_refused(typed: Typed, tmp_path: Path):
    typed("studio", "--workspace", str(tmp_path)).assert_ended(2, "sudare init")
