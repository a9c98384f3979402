"""Sixty seeded changes of the source, and which of them the tests find (tests/fence/source_changes.json).

A change is of one of five kinds: a sign, a factor, a bound, a missing term, an inverted test. A place is named by its
file, its function and its statement, not by its line. Each change is made in a clone of the last commit. The tests of
the mirrored folder see it first, and end at the first failure. What they do not find, `make test` sees: one run
of it notes which cases come to each of those statements, and each change is shown to these; others cannot see it.

python -m benchmarks.source_changes [--draw] [--whole]
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
STORED: Final = ROOT / "tests" / "fence" / "source_changes.json"
ROOMS: Final = ("privacy/accounting", "privacy/noise", "privacy/grant", "privacy/ledger", "tasks/verification")
OF_EACH_ROOM: Final = 12
SEED: Final = 42
LONGEST: Final = 1_800  # seconds; a change that hangs the tests is found
AT_ONCE: Final = 2
PURE: Final = "not services and not spark and not long"
SWAPPED: Final[dict[type, type[Any]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One change of the source.

    Args:
        file: below the root.
        function: its name, within its classes.
        statement: in which it is, as Python writes it, without what stands below it.
        kind: sign, factor, bound, term or test.
        place: which one of its kind in the file, from 0, when it was drawn.
        found_by: the folder or the case that finds it, or "nothing"; None where nobody has tried yet.
    """

    file: str
    function: str
    statement: str
    kind: str
    place: int
    found_by: str | None = None


def edits(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the changes of one node: what kind, and what makes it."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not any(
            isinstance(each, ast.JoinedStr) for each in ast.walk(node)
        ):
            yield "sign", lambda: setattr(node, "op", SWAPPED[type(node.op)]())
            yield "term", lambda: setattr(node, "right", ast.Constant(0))
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv()):
            yield "factor", lambda: setattr(node, "right", ast.BinOp(node.right, ast.Mult(), ast.Constant(2)))
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op, *_]):
            yield "bound", lambda: node.ops.__setitem__(0, SWAPPED[type(op)]())
        case ast.If() | ast.IfExp() if "TYPE_CHECKING" not in ast.unparse(node.test):
            yield "test", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))


def changes(file: str, tree: ast.Module) -> Iterator[tuple[Change, Callable[[], None]]]:
    """Yield every change of a file inside a function, in the order of its syntax tree."""
    places: dict[str, int] = {}

    def walk(node: ast.AST, function: str, statement: str) -> Iterator[tuple[Change, Callable[[], None]]]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
        elif isinstance(node, ast.stmt):
            statement = ast.unparse(node).partition("\n")[0]
        if statement:
            for kind, make in edits(node):
                place = places[kind] = places.get(kind, -1) + 1
                yield Change(file, function, statement, kind, place), make
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, ast.AST):
                        yield from walk(each, function, statement if function else "")

    yield from walk(tree, "", "")


def drawn() -> list[Change]:
    """Draw as many changes of each room."""
    random, taken = Random(SEED), []
    for room in ROOMS:
        files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / room).rglob("*.py"))
        every = [change for file in files for change, _ in changes(file, ast.parse((ROOT / file).read_text()))]
        taken += random.sample(every, OF_EACH_ROOM)
    return taken


def changed_source(change: Change) -> str:
    """Return the source of the file with the change; the place is found again by what names it."""
    tree = copy.deepcopy(ast.parse((ROOT / change.file).read_text()))
    alike = [
        (each.place, make)
        for each, make in changes(change.file, tree)
        if (each.function, each.statement, each.kind) == (change.function, change.statement, change.kind)
    ]
    if not alike:
        raise LookupError(f"{change.file}, {change.function}: the statement is gone; draw another one")
    min(alike, key=lambda each: abs(each[0] - change.place))[1]()
    return ast.unparse(ast.fix_missing_locations(tree))


@contextmanager
def clone() -> Iterator[Path]:
    """A clone of the last commit."""
    with TemporaryDirectory(prefix="source-change-") as folder:
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), f"{folder}/tree"], check=True)
        yield Path(folder) / "tree"


def tested(tree: Path, words: Sequence[str | Path], **own: str) -> tuple[int, str]:
    """Run pure tests in a tree; return how they ended, and what they said. One that hangs has failed."""
    environment = {**os.environ, **own, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'extensions'}"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-m", PURE, *words]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return 1, "FAILED a case that does not end"
    said = done.stdout.decode()
    if done.returncode not in (0, 1):
        raise RuntimeError(said[-2000:])
    return done.returncode, said


def tried(change: Change) -> Change:
    """Show a change to the tests of the mirrored folder."""
    room = Path("tests", Path(change.file).parent)
    while not (ROOT / room).is_dir():
        room = room.parent
    with clone() as tree:
        (tree / change.file).write_text(changed_source(change))
        return replace(change, found_by=room.as_posix() if tested(tree, ["-x", room])[0] else None)


NOTE: Final = """
import os
seen = set()
def came(number):
    case = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if (number, case) not in seen:
        seen.add((number, case))
        with open(os.path.join(os.environ["REACHED"], str(number)), "a") as out:
            out.write(case + chr(10))
"""


def noting(source: str, change: Change, number: int) -> str:
    """Return a source that notes, which cases come to the statement of a change."""
    note = ast.parse(f"__import__('note_of_cases').came({number})").body

    def walk(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
        for _, value in ast.iter_fields(node):
            for each in list(value) if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    walk(each, function)
                alike = isinstance(each, ast.stmt) and ast.unparse(each).partition("\n")[0] == change.statement
                if alike and function == change.function and isinstance(value, list):
                    value[value.index(each) : value.index(each)] = note

    tree = ast.parse(source)
    walk(tree, "")
    return ast.unparse(ast.fix_missing_locations(tree))


def reaching(waiting: dict[int, Change]) -> dict[int, list[str]]:
    """Run all pure tests once; return which cases come to the statement of each change."""
    with clone() as tree, TemporaryDirectory(prefix="reached-") as folder:
        for number, change in waiting.items():
            path = tree / change.file
            path.write_text(noting(path.read_text(), change, number))
        (tree / "note_of_cases.py").write_text(NOTE)
        tested(tree, ["--numprocesses", str(AT_ONCE), "--dist", "loadfile", "tests"], REACHED=folder)
        found = {number: Path(folder, str(number)) for number in waiting}
        return {
            number: sorted({*path.read_text().split("\n")} - {""}) if path.exists() else []
            for number, path in found.items()
        }


def shown(change: Change, cases: list[str]) -> Change:
    """Show a change to those cases, which pass without it."""
    with clone() as tree:
        (tree / "reached.txt").write_text("\n".join(cases))
        (tree / change.file).write_text(changed_source(change))
        code, said = tested(tree, ["-x", "@reached.txt"]) if cases else (0, "")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    return replace(change, found_by=failed[1] if code and failed else "nothing")


def main() -> None:
    """Draw, or read the stored changes; try those that nothing has found yet; store what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw anew, and forget what was stored")
    parser.add_argument("--whole", action="store_true", help="show what was not found to all pure tests")
    asked = parser.parse_args()
    stored = drawn() if asked.draw else [Change(**each) for each in json.loads(STORED.read_text())]
    unfound = {number: each for number, each in enumerate(stored) if not each.found_by}
    cases = reaching(unfound) if asked.whole else {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = {
            number: pool.submit(shown, each, cases[number]) if asked.whole else pool.submit(tried, each)
            for number, each in unfound.items()
        }
        for number, future in waiting.items():
            stored[number] = future.result()
            print(stored[number].found_by or "not found", "|", stored[number], flush=True)
            STORED.write_text(json.dumps([asdict(each) for each in stored], indent=1, ensure_ascii=False) + "\n")
    print(f"found: {sum(each.found_by not in (None, 'nothing') for each in stored)} of {len(stored)}")


if __name__ == "__main__":
    main()
