"""Refusals in the words of Python, and nothing that a library says of a row."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from contracts.errors import Finding, SpecRefused, SudareError
from sudare.words import call

SECRET = "zebra-4711"


def test_places_and_calls_take_the_place_of_files_lines_and_options(tmp_path: Path) -> None:
    file = tmp_path / "by-sex.yaml"

    def refuse() -> None:
        finding = Finding(
            f"{file}:12", "source.path", f"{file}", "one", "add --supersede, or sudare budget open --help"
        )
        raise SpecRefused([finding])

    with pytest.raises(SpecRefused) as refused:
        call(refuse, {file: "Spec('by-sex')"})
    [finding] = refused.value.findings
    assert finding.where == "Spec('by-sex')"
    assert finding.found == "Spec('by-sex')"
    assert finding.remedy == "call run(..., supersede=True), or ws.open_account(...)"
    assert str(refused.value) == str(finding)


def test_a_file_whose_name_only_ends_alike_is_left_as_it_is(tmp_path: Path) -> None:
    def refuse() -> None:
        raise SpecRefused([Finding(f"{tmp_path}/not-by-sex.yaml:3", "a", "b", "c")])

    with pytest.raises(SpecRefused) as refused:
        call(refuse, {tmp_path / "by-sex.yaml": "Spec"})
    assert refused.value.findings[0].where == f"{tmp_path}/not-by-sex.yaml:3"


def test_an_error_of_a_library_is_told_by_its_kind_alone(tmp_path: Path) -> None:
    """Its text and frames go into the private log; nothing that prints a traceback finds them."""
    log = tmp_path / "error.private.log"

    def fail() -> None:
        value = SECRET
        raise ValueError(f"cannot read {value}")

    with pytest.raises(SudareError, match="unexpected ValueError") as refused:
        call(fail, log=lambda: log)
    shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    assert SECRET not in "".join(shown.format())
    assert SECRET in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_an_interruption_passes() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(stop)
