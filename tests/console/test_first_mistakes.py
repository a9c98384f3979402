"""The first mistakes of a newcomer: what they see fits one screen, and ends with what to type or write.

A screen has 24 lines of 100 columns. Each command is typed for real, in one folder with a workspace.
"""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import sudare
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Said, said

LINES, COLUMNS = 24, 100
HEAD = "patient,age,sex,ward\n"
ROWS = "".join(f"p{place},{place % 99},{'FM'[place % 2]},surgery\n" for place in range(50))
CONTRACT = """id: visits
version: 1.0.0
unit: {kind: row, scope: block}
adjacency: add_remove
defaults: {nulls: category, provenance: declared}
left_out: [patient]
columns:
  age: 0..99 by 10
  sex: {F: female, M: male}
  ward: [surgery, maternity]
"""
SPEC = """release: visits
contract: visits.contract.yaml
source: {path: visits.csv}
charge: {account: patients-2025, epsilon: 1, delta: 0}
product:
  kind: tables
  mechanism: laplace
  tables: [[age, sex], [ward]]
publish: {to: releases/, formats: [parquet, csv]}
"""
ACCOUNT = (
    *("budget", "open", "patients-2025", "--population", "patients", "--block", "2025", "--unit", "row"),
    *("--adjacency", "add_remove", "--calculus", "pure", "--epsilon", "2"),
)
AT = ("--workspace", "work")
WIDE = ",".join(f"c{place}" for place in range(5000)) + "\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, before = tmp_path_factory.mktemp("house"), Path.cwd()
    (folder / "visits.csv").write_text(HEAD + ROWS)
    (folder / "visits.contract.yaml").write_text(CONTRACT)
    (folder / "visits.yaml").write_text(SPEC)
    (folder / "wide.csv").write_text(WIDE)
    os.chdir(folder)
    try:
        Workspace.create(folder / "work")
        assert said(*ACCOUNT, "--source", "visits.csv", *AT).code == 0
        assert said("contract", "draft", "--from", "wide.csv", "--to", "wide.contract.yaml").code == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(house: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(house)
    return house


def changed(text: str, old: str, new: str, name: str) -> str:
    assert old in text
    Path(name).write_text(text.replace(old, new))
    return name


def spec(old: str, new: str) -> str:
    return changed(SPEC, old, new, "wrong.yaml")


def contract(old: str, new: str) -> str:
    return changed(CONTRACT, old, new, "wrong.contract.yaml")


def rows(content: str | bytes) -> tuple[str, ...]:
    """Deliver a file, and return the command that looks at it."""
    Path("wrong.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said("budget", "bind", "wrong.csv", "--population", "patients", "--block", "2025", *AT).code == 0
    return ("check", spec("path: visits.csv", "path: wrong.csv"), *AT)


def header(content: str | bytes) -> tuple[str, ...]:
    """Deliver a file, and return the command that drafts a contract from its header."""
    Path("header.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return ("contract", "draft", "--from", "header.csv")


def codebook(content: str) -> tuple[str, ...]:
    Path("book.csv").write_text(content)
    return ("contract", "draft", "--from", "visits.csv", "--codebook", "book.csv", "--to", f"{len(content)}.yaml")


@dataclass(frozen=True)
class Mistake:
    """What was typed, the exit code, and what the last sentence tells to type or write."""

    words: Callable[[], tuple[str, ...]]
    code: int
    told: str


MISTAKES = {
    "a command": Mistake(lambda: ("pln", "visits.yaml"), 2, "write 'plan' instead of 'pln'"),
    "a flag": Mistake(
        lambda: ("plan", "visits.yaml", "--workspce", "work"), 2, "write '--workspace' instead of '--workspce'"
    ),
    "a word of an option": Mistake(
        lambda: tuple("pur" if word == "pure" else word for word in ACCOUNT), 2, "write 'pure' instead of 'pur'"
    ),
    "a key": Mistake(lambda: ("plan", spec("release: visits", "relese: visits")), 2, "write 'release'"),
    "a kind": Mistake(lambda: ("plan", spec("kind: tables", "kind: tabels")), 2, "write 'tables'"),
    "a column": Mistake(lambda: ("plan", spec("[age, sex]", "[agee, sex]")), 2, "write 'age' instead of 'agee'"),
    "a word of the contract": Mistake(
        lambda: ("contract", "lint", contract("add_remove", "add-remove")), 2, "write 'add_remove'"
    ),
    "a word where a mapping stands": Mistake(
        lambda: ("contract", "lint", contract("nulls: category", "nulls: categry")), 2, "write {policy: category}"
    ),
    "a key of a column": Mistake(
        lambda: ("contract", "lint", contract("0..99 by 10", "{rnge: 0..99 by 10}")), 2, "write 'range'"
    ),
    "a range without bins": Mistake(
        lambda: ("contract", "lint", contract("0..99 by 10", "0..99")), 2, "write 0..99 by WIDTH"
    ),
    "a tab": Mistake(lambda: ("plan", spec("  kind", "\tkind")), 2, "indent with spaces"),
    "no such spec": Mistake(lambda: ("plan", "vists.yaml"), 2, "write 'visits.yaml' instead of 'vists.yaml'"),
    "the table for the spec": Mistake(lambda: ("plan", "visits.csv"), 2, "name a YAML file"),
    "the contract for the spec": Mistake(
        lambda: ("plan", "visits.contract.yaml"), 2, "or begin one on a page: sudare studio"
    ),
    "the spec for the contract": Mistake(lambda: ("contract", "lint", "visits.yaml"), 2, "name the contract"),
    "a spreadsheet": Mistake(lambda: ("contract", "draft", "--from", "visits.xlsx"), 2, "save it as CSV"),
    "no such table": Mistake(
        lambda: ("check", spec("path: visits.csv", "path: vists.csv"), *AT), 2, "write 'visits.csv' instead of"
    ),
    "no workspace": Mistake(lambda: ("run", "visits.yaml"), 2, "add --workspace"),
    "another folder": Mistake(
        lambda: ("run", "visits.yaml", "--workspace", "wrok"), 2, "write 'work' instead of 'wrok'"
    ),
    "an account": Mistake(
        lambda: ("run", spec("patients-2025", "patient-2025"), *AT), 4, "write 'patients-2025' instead of"
    ),
    "a table that is bound to nobody": Mistake(
        lambda: ("plan", spec("path: visits.csv", "path: wide.csv"), *AT), 4, "sudare budget bind "
    ),
    "epsilon over the account": Mistake(
        lambda: ("plan", spec("epsilon: 1", "epsilon: 5"), *AT), 4, "write epsilon: 2, or less"
    ),
    "a comma in epsilon": Mistake(
        lambda: ("plan", spec("epsilon: 1,", "epsilon: '0,5',")), 2, "write a dot for the decimals"
    ),
    "a version that is not there": Mistake(
        lambda: ("verify", "work/releases/visits/v1"), 2, "name a version folder, such as releases/adult-tables/v1"
    ),
    "no such release": Mistake(lambda: ("releases", "show", "visits", *AT), 2, "sudare releases list"),
    "a file that is there": Mistake(
        lambda: ("contract", "draft", "--from", "visits.csv", "--to", "visits.yaml"), 2, "--to NEW_FILE"
    ),
    "a codebook that contradicts the file": Mistake(
        lambda: codebook("column,values\nage,99..0\nsexx,F=a; M=b\nward,surgery; surgery=x\npatient,1=a\n"),
        0,
        "if 'sexx' is meant, write 'sex' in ",
    ),
    "a codebook of another file": Mistake(
        lambda: codebook("column,values\nincome,0..99\n"), 2, "name the codebook of this table"
    ),
    "UTF-16": Mistake(lambda: header((HEAD + ROWS).encode("utf-16")), 2, "iconv -f"),
    "Latin-1 in the header": Mistake(lambda: header("größe,age\n1,2\n".encode("latin-1")), 2, "iconv -f"),
    "Latin-1 in a row": Mistake(lambda: rows((HEAD + "p,1,F,ü\n").encode("latin-1")), 3, "iconv -f"),
    "a name twice": Mistake(lambda: header("age,sex,age\n1,2,3\n"), 2, "rename or drop one of the columns"),
    "an empty name": Mistake(lambda: rows("patient,age,sex,ward,\np,1,F,surgery,\n"), 3, "name it where the file"),
    "no header": Mistake(lambda: header("12,F,3\n1,2,3\n"), 2, "put a line with the names of the columns first"),
    "semicolons": Mistake(lambda: rows((HEAD + ROWS).replace(",", ";")), 2, 'write `delimiter: ";"`'),
    "a column too many": Mistake(
        lambda: rows("patient,age,sex,ward,note\np,1,F,surgery,x\n"), 3, "write it under `left_out:`"
    ),
    "5,000 columns": Mistake(lambda: rows(WIDE + ROWS), 3, "put a line with the names of the columns first"),
    "a codebook for 5,000 columns": Mistake(
        lambda: (
            *("contract", "draft", "--from", "wide.csv", "--codebook", codebook("column,values\nc1,0..9\n")[5]),
            *("--to", "drafted.yaml"),
        ),
        0,
        "declare it by hand; what nobody shall read stands under `left_out:`",
    ),
}


def screen(said: Said) -> list[str]:
    """What a person sees, folded at the screen's width; the line with the error's code left out."""
    shown = [line for line in (said.out + said.err).splitlines() if not line.startswith("what it means:")]
    return [line[start : start + COLUMNS] for line in shown for start in range(0, max(1, len(line)), COLUMNS)]


def test_there_are_more_than_twenty():
    """The list is what the claim is about."""
    assert len(MISTAKES) >= 20


@pytest.mark.services
@pytest.mark.parametrize("name", MISTAKES)
def test_a_first_mistake_fits_one_screen_and_ends_with_what_to_write(name: str, here: Path):
    """Exit code, 24 lines of 100 columns, and a last sentence `do:` that says what to type or write."""
    mistake = MISTAKES[name]
    told = said(*mistake.words())
    assert told.code == mistake.code, told
    lines = screen(told)
    assert len(lines) <= LINES - 2, "\n".join(lines)
    seen = told.out + told.err
    last = seen[seen.rindex("do:") :]
    assert mistake.told in last
    assert "found:" not in last
    assert "Traceback" not in seen


@pytest.mark.parametrize(
    "content", ["\ufeff" + HEAD + ROWS, (HEAD + ROWS).replace("\n", "\r\n")], ids=["BOM", "CRLF"]
)
def test_what_spreadsheets_write_is_no_mistake(content: str, here: Path):
    """A byte order mark and line ends of Windows are read as they are meant."""
    told = said(*rows(content))
    assert (told.code, "3 of 3 columns fit in full" in told.out) == (0, True)
    drafted = said(*header(content))
    assert (drafted.code, "\n  age: <declare>" in drafted.out) == (0, True)


@pytest.mark.services
def test_a_list_of_5000_open_places_ends_on_the_screen(here: Path):
    """A terminal gets as many findings as it has lines for; a pipe gets all, alike ones together."""
    command = [sys.executable, "-m", "sudare", "contract", "lint", "wide.contract.yaml"]
    paths = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LINES": str(LINES),
        "COLUMNS": str(COLUMNS),
        "TERM": "dumb",
    }
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env={**os.environ, **paths}) as process:
        os.close(terminal)
        seen = b""
        while piece := _read(keyboard):
            seen += piece
    os.close(keyboard)
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()).replace("\r", "")
    assert process.returncode == 2
    assert len(screen(Said(2, text, ""))) < LINES
    assert re.search(r"and 5,00\d more: mend these first, or add --json, which lists all", text)
    assert "and 4,997 more like these" in said("contract", "lint", "wide.contract.yaml").err


def _read(keyboard: int) -> bytes:
    try:
        return os.read(keyboard, 65536)
    except OSError:  # the other end is closed
        return b""


def test_python_says_what_to_pass_where_no_key_was_found(here: Path):
    """`sudare.verify(folder, None)` is the first line that a reader of a release types."""
    with pytest.raises(sudare.Refused) as refused:
        sudare.verify(here / "work", None)  # type: ignore[arg-type]
    [finding] = refused.value.findings
    assert "sudare.verify(" in finding.remedy
