"""The command line as a whole: light to start, helpful, and honest about errors in words, JSON and exit codes."""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from console import output as errors
from console.main import COMMANDS, GROUP, GROUPS, DeferredCommand, root_command, summary_of
from contracts.errors import (
    ContractRefused,
    Finding,
    GateBroken,
    SourceUnreadable,
    SpecRefused,
    StoreRefuses,
    SudareError,
)
from contracts.plug_ins import OF_EXTENSIONS, RegisteredName, core
from privacy.ledger.entries import BudgetExceeded, LedgerConflict, LedgerRefusal
from sudare import entrance
from tasks.storage.sinks.version_copy import VersionBroken
from tasks.storage.workspace.run_folder import RunBusy
from tests.console.conftest import COMMAND, Place, Typed
from tests.worlds.packages import installed

HEAVY = ("prefect", "great_expectations", "torch", "polars", "duckdb", "pandas", "pyarrow", "scipy")
# A spec loads the models of all kinds of products.
MOST_FOR_HELP, MOST_FOR_A_PLAN = 25, 259
PLACES = core(GROUP)
FINDING = Finding("a.yaml:3", "release", "'A B'", "lower-case letters", "rename it")


def command(name: str) -> TyperCommand:
    return DeferredCommand(name, RegisteredName(EntryPoint(name, PLACES[name], GROUP))).command


def _commands() -> Iterator[tuple[str, ...]]:
    def walk(command: TyperGroup | object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not isinstance(command, TyperGroup):
            yield words
            return
        for name in command.list_commands(None):
            if (name if not words else f"{words[0]}.{name}") not in OF_EXTENSIONS[GROUP]:
                yield from walk(command.get_command(None, name), (*words, name))

    yield from walk(root_command(), ())


def modules_after(*words: str) -> tuple[int, set[str]]:
    """Run a command in a fresh process; return its exit code and the modules it has loaded."""
    script = (
        "import sys; from console.main import execute; code = execute(sys.argv[1:]); "
        "sys.stderr.write('\\n'.join(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    return done.returncode, set(done.stderr.splitlines())


def _own(modules: set[str]) -> set[str]:
    """Return the modules that are ours: each costs a millisecond or two, so their number bounds a command's start."""
    return {name for name in modules if name.partition(".")[0] in entrance.PACKAGES}


@pytest.mark.services
@pytest.mark.parametrize(
    ("words", "most", "other"),
    [(["--help"], MOST_FOR_HELP, {"pydantic"}), (["verify", "--help"], 45, set()), (["run", "--help"], 35, set())],
)
def test_help_loads_nothing_heavy(words: list[str], most: int, other: set[str]):
    """`sudare --help` answers at once; what checks or makes a version is loaded once its arguments are read."""
    code, modules = modules_after(*words)
    assert code == 0
    assert "console.main" in modules
    assert not modules.intersection((*HEAVY, "sqlalchemy", "numpy", *other))
    assert len(_own(modules)) <= most


@pytest.mark.services
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("budget", "--help")], ids=" ".join)
def test_help_imports_no_command(words: tuple[str, ...]):
    """The list of commands stands in one module; a command is imported when it is called."""
    code, modules = modules_after(*words)
    assert code == 0
    assert not modules.intersection({place.partition(":")[0] for place in PLACES.values()} - {"console.main"})


def test_every_command_of_help_has_an_entry_point():
    inner = {f"{group}.{name}" for group, (_, names) in GROUPS.items() for name in names}
    assert set(PLACES) == {*COMMANDS, *inner}


@pytest.mark.parametrize("name", PLACES)
def test_the_line_of_help_of_a_command_is_the_first_paragraph_of_its_docstring(name: str):
    """It is read from the source, so that help need not import the command."""
    said = inspect.cleandoc(command(name).help or "")
    assert summary_of(PLACES[name]) == " ".join(said.split("\n\n")[0].split())


@pytest.mark.parametrize("name", PLACES)
def test_no_word_of_a_help_text_is_taken_for_markup(name: str):
    """What stands in brackets would be a style, and not be shown."""
    texts = [command(name).help, *(getattr(option, "help", None) for option in command(name).params)]
    assert [text for text in texts if text and Text.from_markup(text).plain != text] == []


def test_a_place_without_a_docstring_is_named():
    with pytest.raises(LookupError, match=r"console\.plan:no_such_function has no docstring"):
        summary_of("console.plan:no_such_function")


@pytest.mark.services
def test_a_look_at_the_budget_loads_nothing_heavy(place: Place):
    """`sudare budget show` needs the ledger's database and no more."""
    code, modules = modules_after("budget", "show", "--workspace", str(place.workspace.root))
    assert code == 0
    assert "sqlalchemy" in modules
    assert not modules.intersection(HEAVY)


@pytest.mark.services
def test_a_plan_loads_nothing_heavy(place: Place):
    """`sudare plan` computes with numpy and asks the ledger; it loads no engine and no orchestrator."""
    plan = ("plan", str(place.adult / "tables.yaml"), "--workspace", str(place.workspace.root))
    code, modules = modules_after(*plan)
    assert code == 0
    assert not modules.intersection(HEAVY)
    assert len(_own(modules)) <= MOST_FOR_A_PLAN


def test_help_says_where_to_start_in_order_and_version_is_told(typed: Typed):
    """Contract, account, spec, plan, run; `--version` is one line."""
    said = typed("--help").out
    steps = [
        "contract draft",
        "budget open",
        "a release spec",
        "sudare plan",
        "sudare check",
        "sudare run SPEC, then",
    ]
    places = [said.rindex(step) for step in steps]
    assert places == sorted(places)
    told = typed("--version")
    assert told.code == 0
    assert re.fullmatch(r"sudare \S+\n", told.out)


@pytest.mark.services
@pytest.mark.parametrize("name", entrance.PACKAGES)
def test_a_strangers_package_before_ours_is_told_in_a_line(name: str, tmp_path: Path):
    """Exit 1 and one line that names the folder; no traceback. A folder that is no package is in nobody's way."""
    command = [sys.executable, "-c", "from sudare.entrance import main; main()", "--version"]
    ours = str(entrance.HOME)
    where = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ours}"}
    (tmp_path / name).mkdir()
    assert subprocess.run(command, env=where, cwd=tmp_path.parent, capture_output=True, check=False).returncode == 0
    (tmp_path / name / "__init__.py").touch()
    said = subprocess.run(command, env=where, cwd=tmp_path.parent, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.count("\n") == 1
    assert str(tmp_path / name) in said.stderr
    assert "PYTHONPATH" in said.stderr


@pytest.mark.parametrize("words", sorted(_commands()), ids=" ".join)
def test_every_command_has_help_with_an_example_and_speaks_json(words: tuple[str, ...], typed: Typed):
    """`--help` exits 0, shows how the command is typed, and every command knows `--json`."""
    said = typed(*words, "--help")
    assert said.code == 0
    assert f"sudare {' '.join(words)}" in said.out.split("Examples:")[1]
    assert "--json" in said.out


def test_the_commands_are_those_of_the_manual():
    """The list changes only on purpose."""
    assert [" ".join(words) for words in sorted(_commands())] == [
        "approve",
        "budget backup",
        "budget bind",
        "budget clock",
        "budget close",
        "budget history",
        "budget open",
        "budget restore",
        "budget return",
        "budget show",
        "check",
        "contract diff",
        "contract draft",
        "contract history",
        "contract lint",
        "contract list",
        "contract register",
        "deploy",
        "doctor",
        "evaluate",
        "explain",
        "federation key",
        "federation plan",
        "federation run",
        "federation site",
        "init",
        "interval",
        "keys encrypt",
        "keys new",
        "keys pin",
        "keys recovery",
        "keys reprove",
        "keys revoke",
        "keys rotate",
        "keys show",
        "metrics",
        "plan",
        "prune",
        "publish",
        "releases diff",
        "releases gaps",
        "releases journal",
        "releases list",
        "releases refresh",
        "releases show",
        "releases withdraw",
        "run",
        "sample",
        "verify",
        "watch",
        "work",
    ]


def test_a_command_of_a_package_is_listed_after_the_core_s_and_called(typed: Typed, place: Place, tmp_path: Path):
    """Under its own name alone; what cannot be loaded is listed, and refused when it is called."""
    points = "[sudare.commands]\nholes = console.gaps:gaps\nbroken = no_such_module:x\nplan = console.gaps:gaps\n"
    with installed(tmp_path / "site", "prefix_domain", points):
        listed = typed("--help").out
        assert listed.index("federation") < listed.index("broken") < listed.index(" holes ")
        assert summary_of("console.gaps:gaps").split(".")[0][:30] in listed
        assert "sudare holes" in typed("holes", "--help").out
        assert "SPEC" in typed("plan", "--help").out
        refused = typed("broken")
    assert refused.code == 1
    assert "'no_such_module:x' (ModuleNotFoundError)" in refused.err
    assert typed("holes").code == 2


@pytest.mark.parametrize(("name", "extension"), sorted(OF_EXTENSIONS[GROUP].items()))
def test_a_command_of_a_deleted_extension_is_refused_by_the_extension_s_name(
    name: str, extension: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """Exit 2; help does not list it. Nothing else is missed."""
    monkeypatch.setitem(sys.modules, extension, None)
    *group, command = name.split(".")
    said = typed(*group, command)
    said.assert_ended(2, f"'{command}', which needs the extension {extension}, which is not installed")
    assert typed(*group, command, "--json").json["error"]["kind"] == "UsageRefused"
    listed = typed(*group, "--help")
    assert listed.code == 0
    assert f"│ {command} " not in listed.out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecRefused([FINDING]), 2),
        (ContractRefused([FINDING]), 2),
        (SourceUnreadable([FINDING]), 2),
        (GateBroken([FINDING]), 3),
        (LedgerRefusal([FINDING]), 4),
        (BudgetExceeded("a", 2, 1, [FINDING]), 4),
        (VersionBroken([FINDING]), 5),
        (StoreRefuses([FINDING]), 2),
        (LedgerConflict("a race"), 1),
        (RunBusy([FINDING]), 1),
        (errors.UsageRefused("sudare run", "No such option: --label"), 2),
        (errors.Interrupted("stopped"), 130),
        (SudareError("something"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_its_exit_code_its_words_and_its_json(
    error: SudareError, code: int, capsys: pytest.CaptureFixture[str]
):
    """Words go to standard error, JSON to standard output, and the code is the same."""
    assert errors.present(error, as_json=False) == code
    words = capsys.readouterr()
    assert words.out == ""
    told = [part for finding in errors.findings_of(error) for part in vars(finding).values()]
    assert all(part in words.err for part in told or (str(error),))
    assert errors.present(error, as_json=True) == code
    answer = capsys.readouterr()
    assert answer.err == ""
    inner = json.loads(answer.out)["error"]
    assert (inner["kind"], inner["exit_code"]) == (type(error).__name__, code)
    assert inner["findings"] == [vars(finding) for finding in errors.findings_of(error)]


def test_findings_in_a_row_that_share_what_to_do_have_it_said_once(capsys: pytest.CaptureFixture[str]):
    """Each keeps its place, what was found and what is allowed; another remedy between them is said in its turn."""
    remedies = ("ask the publisher", "ask the publisher", "write it", "ask the publisher")
    findings = [Finding(f"{place}.json", "x", "y", "z", remedy) for place, remedy in enumerate(remedies)]
    errors.present(SpecRefused(findings), as_json=False)
    words = capsys.readouterr().err
    assert all(f"{place}.json: x\n    found:   y\n    allowed: z\n" in words for place in range(4))
    done = [line.removeprefix("    do:      ") for line in words.splitlines() if line.startswith("    do:")]
    assert done == ["for these 2: ask the publisher", "write it", "ask the publisher"]


def test_markup_in_an_error_is_shown_and_not_followed(capsys: pytest.CaptureFixture[str]):
    """A file name in square brackets is a file name."""
    errors.present(SpecRefused([Finding("[red]a.yaml", "x", "[/]", "[bold]")]), as_json=False)
    told = capsys.readouterr().err
    assert "[red]a.yaml" in told
    assert "[bold]" in told


@pytest.mark.parametrize("words", [("budget", "shw"), ("plan",), ("run", "a", "b"), ("plan", "--no-such", "a")])
def test_a_command_line_that_cannot_be_understood_exits_2(words: tuple[str, ...], typed: Typed):
    """In words and as JSON."""
    typed(*words).assert_ended(2, "--help")
    assert typed(*words, "--json").json["error"]["kind"] == "UsageRefused"


def test_an_unexpected_error_is_one_line_and_its_text_goes_to_the_private_log(
    place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """What a library says may quote a row: the terminal gets the type and the place of the log."""
    monkeypatch.chdir(place.workspace.root)

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a row says 4711")

    monkeypatch.setattr("contracts.contract.odcs.load_contract", fail)
    said = typed("contract", "lint", "a.yaml")
    assert said.code == 1
    assert "4711" not in said.err + said.out
    assert "this is a bug" in said.err
    [line] = said.err.splitlines()
    log = place.workspace.private / "error.private.log"
    assert "ValueError" in line
    assert str(log) in line
    assert "4711" in log.read_text()


def test_ctrl_c_outside_a_run_exits_130(monkeypatch: pytest.MonkeyPatch, typed: Typed):
    """A command that is stopped says so, in words and as JSON."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("contracts.contract.odcs.load_contract", stop)
    typed("contract", "lint", "a.yaml").assert_ended(130, "interrupted")
    assert typed("contract", "lint", "a.yaml", "--json").json["error"]["exit_code"] == 130


@pytest.mark.services
def test_the_command_is_installed_under_its_name():
    """`main` is what the `sudare` script calls; its exit code is the process's."""
    done = subprocess.run([*COMMAND, "budget", "shw"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "sudare budget --help" in done.stderr


def test_lint_lists_columns_or_all_that_is_wrong(typed: Typed, place: Place, tmp_path: Path):
    """A contract that holds is shown with its cells; one that does not, with every finding and its line."""
    file = place.adult / "adult.odcs.yaml"
    said = typed("contract", "lint", str(file), "--json")
    assert said.code == 0
    assert [column["name"] for column in said.json["columns"]][:2] == ["age", "workclass"]
    assert "it holds" in typed("contract", "lint", str(file)).out
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        file.read_text().replace("bounds: [17, 90]", "bounds: [17, .inf]").replace("kind: row", "knd: row")
    )
    said = typed("contract", "lint", str(broken), "--json")
    assert said.code == 2
    assert len(said.json["error"]["findings"]) >= 2
    assert all("broken.yaml:" in finding["where"] for finding in said.json["error"]["findings"])


@pytest.mark.parametrize("path", ["pipe.csv", "/dev/zero"])
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "v1", "--key"),
        ("verify", "v1", "--page"),
        ("keys", "pin"),
        ("keys", "pin", "key.pub", "--recovery"),
        ("contract", "draft", "--from"),
        ("contract", "draft", "--codebook"),
        ("budget", "history", "--verify", "--proof"),
        ("budget", "bind", "--population", "p", "--block", "2025"),
        ("run",),
    ],
    ids=" ".join,
)
def test_a_pipe_or_a_device_in_a_command_line_is_refused_and_not_waited_for(
    words: tuple[str, ...], path: str, typed: Typed, shared: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nothing writes into the pipe: a command that opened it would wait for ever."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.csv")
    said = typed(*words, path, at=shared.workspace if words[0] in ("budget", "run") else None)
    assert (said.code, f"no regular file: {path}" in said.err) == (2, True), said


@pytest.mark.parametrize("words", [(), ("contract",), ("budget",)])
def test_a_group_alone_shows_its_help_and_exits_2(words: tuple[str, ...], typed: Typed):
    """A command that is left out is no error to be told of."""
    said = typed(*words)
    assert said.code == 2
    assert "Commands" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("run", "spec.yaml", "--label", "x"), "No such option: --label"),
        (("budget", "open", "people"), "Missing option '--population'"),
        (("budget", "opne"), "No such command 'opne'"),
        (("plan", "spec.yaml", "--rows", "0"), "Invalid value for '--rows': Input should be greater"),
        (("budget", "open", "people", "--adjacency", "any"), "Invalid value for '--adjacency': 'any' is not one of"),
    ],
)
def test_a_command_line_that_cannot_be_understood_names_what_was_found_and_what_to_type(
    typed: Typed, words: tuple[str, ...], found: str
):
    """In the pattern of every other error, for the very command that was typed."""
    said = typed(*words)
    lines = said.err.splitlines()
    assert (said.code, lines[0].endswith(": command line")) == (2, True)
    assert lines[1].strip().startswith(f"found:   {found}")
    assert lines[3].strip().startswith("do:")
    assert lines[3].endswith(f"see {lines[0].removesuffix(': command line')} --help")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "rows_about: 48000",
            "rows_about: 48000, hidden: 200000",
            ("hidden", "'200000'", "a list", "write [200000]"),
        ),
        ("48000", "48000, batch: 60000", ("batch", "60000", "48000", "a smaller batch")),
        ("48000", "48000, batch: 9000", ("batch", "9000", "8192 rows", "write batch: 8192")),
        ("epsilon: 1.0", "epsilon: 0.001", ("epsilon", "0.001", "noise multiplier", "an epsilon of at least")),
    ],
)
def test_an_option_of_a_training_that_does_not_fit_is_named_with_what_to_write(
    place: Place, typed: Typed, old: str, new: str, said: tuple[str, ...]
):
    """At its own line, with what was found, what is allowed and what to do."""
    spec = place.adult / "other.yaml"
    spec.write_text((place.adult / "model.yaml").read_text().replace(old, new))
    told = typed("plan", str(spec), at=place.workspace)
    where, found, allowed, remedy = told.err.splitlines()[:4]
    field, *parts = said
    assert told.code == 2
    assert where.endswith(f".{field}")
    assert [part in line for part, line in zip(parts, (found, allowed, remedy), strict=True)] == [True] * 3
    assert remedy.strip().startswith("do:")
