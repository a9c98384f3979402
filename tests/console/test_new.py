"""`sudare new`: a first release by answers, from a pipe and on a terminal; nothing half-done, no row read."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from console.first_release import chosen_columns, chosen_tables, domain_lines
from console.interview import Misunderstood
from contracts.contract.odcs import load_contract
from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import advise
from flows.request import read_request
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Said, Typed

ROWS = "patient,name,age,sex,ward\np1,Anna Rossi,33,F,surgery\n"
ANSWERS = {
    "file": "",
    "release": "",
    "unit": "patient",
    "rows": "4",
    "columns": "age,sex,5",
    "age": "0..99 at 18, 40, 65",
    "sex": "F=female; M=male",
    "ward": "surgery; maternity; emergency",
    "provenance": "",
    "tables": "age x sex, ward",
    "people": "patients",
    "days": "2025",
    "workspace": "",
    "epsilon": "0.5",
    "precise": "",
    "account": "",
    "cap": "2",
    "write": "",
}
Asked = Callable[..., Said]


def answers(**changes: str | None) -> list[str]:
    """The answers in order, with some of them changed, and those that are None left out."""
    return [answer for answer in {**ANSWERS, **changes}.values() if answer is not None]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a CSV file and nothing else."""
    (tmp_path / "visits.csv").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def asked(here: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Asked:
    """Type `sudare new` with answers from a pipe."""

    def ask(lines: list[str], *words: str) -> Said:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return typed("new", *words)

    return ask


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"home"}


@pytest.mark.services
def test_answers_become_contract_spec_account_and_the_next_command(here: Path, asked: Asked, typed: Typed) -> None:
    """What is written is planned, holds without a warning, and ends with what to type; standard output is JSON."""
    said = asked(answers(), "--json")
    assert said.code == 0, said.err
    assert said.json["next"][-1] == "sudare run visits.yaml --workspace work"
    contract = load_contract(here / "visits.contract.yaml")
    assert (contract.unit.column, contract.unit.max_rows_per_unit, contract.adjacency) == ("patient", 4, "add_remove")
    assert contract.left_out == ("name",)
    assert advise(contract, contract_document(here / "visits.contract.yaml")) == ()
    request = read_request(here / "visits.yaml", Workspace.open(here / "work"))
    assert [draw.clique for draw in request.plan.draws] == [("age", "sex"), ("ward",)]  # type: ignore[attr-defined]
    assert typed("plan", "visits.yaml", "--workspace", "work").code == 0
    with closing(Workspace.open(here / "work").open_ledger()) as ledger:
        assert [state.terms.name for state in ledger.accounts()] == ["patients-2025"]
        assert list(ledger.sources()) == [str(here / "visits.csv")]
    assert "may be 62.25 % sure" in said.err
    assert re.search(r"age x sex: 15 cells, each ±\d+ in 95 of 100 draws", said.err)


@pytest.mark.services
def test_the_same_people_have_one_account(here: Path, asked: Asked) -> None:
    """A second release in a workspace asks for neither people nor cap; one that does not fit is refused."""
    assert asked(answers(), "--workspace", "work").code == 0
    known = {"people": None, "days": None, "workspace": None, "account": None, "cap": None}
    refused = asked(answers(release="second", epsilon="3", **known), "--workspace", "work")
    assert (refused.code, "has room for ε = 2" in refused.err) == (2, True)
    again = asked(answers(release="second", **known), "--workspace", "work")
    assert again.code == 0
    assert re.search(r"^account +patients-2025$", again.out, re.MULTILINE)
    other = asked(answers(release="third", unit="row", rows=None, **known), "--workspace", "work")
    assert (other.code, "protects patient under add_remove" in other.err) == (2, True)
    assert not (here / "third.yaml").exists()


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"unit": "patent"}, "write 'patient' instead of 'patent'"),
        ({"rows": "many"}, "a whole number from 1"),
        ({"columns": "age,sex,sex"}, "'sex' twice"),
        ({"age": "0..99"}, "write 0..99 by WIDTH"),
        ({"age": "99..0 by 5"}, "lower bound"),
        ({"sex": "F=x; M=x; ="}, "write a range"),
        ({"tables": "age x age"}, "age"),
        ({"days": "next year"}, "'next year'"),
        ({"epsilon": "0,5"}, "a decimal number above 0 with a point"),
        ({"epsilon": "1, delta: 1"}, "a decimal number above 0 with a point"),
        ({"cap": "0.25"}, "at least 0.5"),
        ({"release": "My Release"}, "my-release"),
        ({"write": "no"}, "nothing was written"),
        ({"write": None}, "no more answers"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else None,
)
def test_a_wrong_answer_from_a_pipe_says_what_is_right_and_nothing_is_written(
    here: Path, asked: Asked, wrong: dict[str, str | None], found: str
) -> None:
    """Exit 2, or 130 where a person takes it back; no file, no workspace."""
    said = asked(answers(**wrong))
    assert said.code in (2, 130)
    assert found in said.err
    assert "nothing was written" in said.err
    assert files(here) == {"visits.csv"}


def test_no_answers_at_all_are_refused(here: Path, asked: Asked) -> None:
    """A job without a terminal does not wait for ever."""
    said = asked([])
    assert (said.code, "answer in a terminal, or give a line for each question" in said.err) == (2, True)


def test_files_that_are_there_are_never_overwritten(here: Path, asked: Asked) -> None:
    """Found out at the name, before anything else is asked."""
    (here / "visits.yaml").write_text("mine")
    said = asked(answers())
    assert (said.code, "visits.yaml is there already" in said.err) == (2, True)
    assert (here / "visits.yaml").read_text() == "mine"
    assert files(here) == {"visits.csv", "visits.yaml"}


@pytest.mark.services
def test_what_the_ledger_refuses_leaves_no_file(here: Path, asked: Asked, typed: Typed) -> None:
    """The account's name is that of another account: contract and spec are taken away again."""
    assert typed("init", "work").code == 0
    terms = ("--unit", "row", "--adjacency", "add_remove", "--calculus", "pure", "--epsilon", "1")
    assert (
        typed("budget", "open", "taken", "--population", "x", "--block", "2025", *terms, "--workspace", "work").code
        == 0
    )
    said = asked(answers(workspace=None, account="taken"), "--workspace", "work")
    assert (said.code, "an account of this name with other terms" in said.err) == (4, True)
    assert files(here) == {"visits.csv", "work"}


@pytest.mark.services
def test_a_copy_that_is_bound_to_other_people_leaves_no_file(here: Path, asked: Asked, typed: Typed) -> None:
    (here / "origin.csv").write_text(ROWS)
    assert typed("init", "work").code == 0
    bind = ("budget", "bind", "origin.csv", "--population", "others", "--block", "2025")
    assert typed(*bind, "--workspace", "work").code == 0
    said = asked(answers(file="visits.csv", workspace=None), "--workspace", "work")
    assert (said.code, f"the bytes of {here / 'origin.csv'}, which is about others" in said.err) == (4, True)
    assert files(here) == {"origin.csv", "visits.csv", "work"}


@pytest.mark.services
def test_a_codebook_answers_what_it_declares(here: Path, asked: Asked) -> None:
    """Values are taken over with their labels; a range without bins is asked for."""
    (here / "book.csv").write_text("column,values\nage,0..99\nsex,F=female; M=male\nward,surgery; maternity\n")
    lines = answers(file=None, columns="", age="0..99 by 10", sex=None, ward=None)
    said = asked(lines, "--from", "visits.csv", "--codebook", "book.csv")
    assert said.code == 0, said.err
    assert "The codebook says 0..99." in said.err
    assert "no entry in book.csv" in said.err
    contract = load_contract(here / "visits.contract.yaml")
    assert [column.name for column in contract.columns] == ["age", "sex", "ward"]


@pytest.mark.services
def test_not_one_byte_behind_the_header_is_read(here: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is a pipe, let in for once: what was not read of it is still in it when the command has ended."""
    monkeypatch.setattr("console.commands.require_regular", lambda *_: None)
    path, poison = here / "pipe.csv", b"p1,Anna Rossi,33,F,surgery\n" * 100
    os.mkfifo(path)
    left: list[bytes] = []

    def feed() -> None:
        with path.open("r+b", buffering=0) as file:
            file.write(b"patient,name,age,sex,ward\n" + poison)
            done.wait(120)
            left.append(os.read(file.fileno(), 65536))

    done = threading.Event()
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        said = asked(answers(file=None), "--from", "pipe.csv")
    finally:
        done.set()
        feeder.join()
    assert said.code == 0, said.err
    assert left == [poison]


@pytest.mark.services
def test_a_person_is_asked_again_and_ctrl_c_leaves_nothing_behind(here: Path) -> None:
    """On a terminal: a wrong answer is explained and asked again, `?` says more, Ctrl-C exits 130."""
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "sudare", "new"]
    ours = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=here, env=ours, start_new_session=True
    ) as process:
        os.close(terminal)
        seen = ""
        for typed_line, shown in (
            ("\n", "What is the release called?"),
            ("\n", "Who is one row about?"),
            ("patent\n", "write 'patient' instead of 'patent'"),
            ("?\n", "What is protected is one person with all their rows."),
            ("patient\n", "How many rows of one person count"),
        ):
            os.write(keyboard, typed_line.encode())
            seen = _read_until(keyboard, shown)
        process.send_signal(signal.SIGINT)
        seen += _read_until(keyboard, "stopped; nothing was written")
        assert process.wait(60) == 130
    os.close(keyboard)
    assert "Traceback" not in seen
    assert files(here) == {"visits.csv"}


def _read_until(keyboard: int, shown: str) -> str:
    """Read what a terminal shows until something stands there; fails after two minutes of silence."""
    seen = b""  # a read may end within a letter
    while shown.encode() not in seen:
        ready, _, _ = select.select([keyboard], [], [], 120)
        assert ready, f"{shown!r} was not shown in {seen!r}"
        seen += os.read(keyboard, 65536)
    return seen.decode(errors="replace")


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("0..99 by 5", ('  age: "0..99 by 5"',)),
        ("north, south", ("  age: [north, south]",)),
        ("01; 2", ('  age: ["01", 2]',)),
        ("no; yes", ('  age: ["no", "yes"]',)),
        ("1=male, 2=female", ("  age: {labels: {1: male, 2: female}}",)),
        ("a=b: c; d={", ('  age: {labels: {a: "b: c", d: "{"}}',)),
    ],
)
def test_a_typed_domain_is_a_line_of_the_contract(answer: str, lines: tuple[str, ...]) -> None:
    """Whatever signs of YAML an answer holds, it is read as the text that was typed."""
    assert domain_lines("age", answer) == lines


def test_columns_and_tables_go_by_name_or_number() -> None:
    """A name wins over a number; signs between columns are x, × and *."""
    names = ["age", "3", "town, country"]
    assert chosen_columns("3, 1", names, ()) == ("3", "age")
    assert chosen_columns("all", names, ("age",)) == ("age",)
    assert chosen_tables("age x 3; 1×2, 1 * 3", names) == (("age", "3"), ("age", "3"), ("age", "3"))
    assert chosen_tables("each", names) == (("age",), ("3",), ("town, country",))
    with pytest.raises(Misunderstood, match="no column '4' to choose"):
        chosen_columns("4", names, ())
