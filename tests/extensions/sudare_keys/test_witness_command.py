"""`sudare witness` as the command line has it."""

from __future__ import annotations

from rich.text import Text

from console.main import root_command
from sudare_keys import witness
from tests.console.conftest import said


def test_the_command_is_registered_and_listed_with_its_line_of_help() -> None:
    root = root_command()
    with root.make_context("sudare", ["--help"], resilient_parsing=True) as context:
        assert "witness" in root.list_commands(context)
        command = root.get_command(context, "witness")
    assert (
        command.short_help == "Serve a witness: cosign each checkpoint of these journals that extends the one before."
    )


def test_its_help_has_an_example_and_json_and_no_markup() -> None:
    told = said("witness", "--help")
    assert told.code == 0
    assert "sudare witness" in told.out.split("Examples:")[1]
    assert "--json" in told.out
    text = witness.witness.__doc__ or ""
    assert Text.from_markup(text).plain == text
