"""List all that verification refuses, read from the syntax trees: `python -m tests.fence.findings` writes the file.

In words, ‹...› is what only a run knows. `met` and `rules` were measured once, with the tests of verification:
whether a test met the finding, and under which rules; one that no test met has the rules of its neighbours. What is
refused outside the rules (a folder that is no version, a key that cannot be pinned, two folders compared) has none.
"""

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("findings.json")
ROOMS = ("tasks/verify.py", "tasks/verification/**/*.py", "tasks/products/**/*.py", "tasks/records/**/*.py")
MAKER = re.compile(r"(generator_terms|approvals|published_version|formula|version_records|_intervals)\.py$")
"""Modules that refuse what an operator or a reader asks for; no rule calls them."""
PASSED = {"allowed", "pairs", "own", "field", "found", "source", "of"}
"""Parameters by which a function is given what it refuses; it is listed once for each caller."""
Env = dict[str, list[tuple[ast.expr, Any]]]
Place = tuple[str, ast.FunctionDef, ast.Call]
"""A call: its file, the function around it, and itself."""
Entry = dict[str, Any]


def words(tree: ast.AST, env: Env, depth: int = 0) -> str:
    """Write an expression as a person reads it."""
    match tree:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(words(part, env, depth) for part in parts)
        case ast.FormattedValue(value=inner):
            return words(inner, env, depth)
        case ast.Call(func=ast.Name(id="shown" | "printable" | "str" | "list" | "word_list"), args=[inner]):
            return words(inner, env, depth)
        case ast.IfExp(body=one, orelse=other) | ast.BoolOp(op=ast.Or(), values=[one, other]):
            return " or ".join(dict.fromkeys((words(one, env, depth), words(other, env, depth))))
        case ast.Name(id=name) if depth < 6 and 0 < len(env.get(name, ())) < 6:
            return " or ".join(dict.fromkeys(words(each, there, depth + 1) for each, there in env[name]))
        case ast.Call(func=ast.Name(id=name), args=[_, ast.Name() | ast.JoinedStr() as inner]) if name[0] == "_":
            return f"‹{name[1:]}› {words(inner, env, depth)}"
    return f"‹{ast.unparse(tree)[:80]}›"


def elements(tree: ast.AST, env: Env, depth: int = 0) -> Iterator[tuple[ast.expr, Env]]:
    """Yield the elements of a list, as far as they are written out."""
    match tree:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                yield from elements(part.value, env, depth) if isinstance(part, ast.Starred) else [(part, env)]
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            yield from (*elements(one, env, depth), *elements(other, env, depth))
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one):
            yield one, env
        case ast.Subscript(value=one) | ast.Call(func=ast.Name(id="list" | "sorted" | "tuple"), args=[one]):
            yield from elements(one, env, depth)
        case ast.Name(id=name) if depth < 6:
            for each, there in env.get(name, ()):
                yield from elements(each, there, depth + 1)


def assigned(tree: ast.AST, *, deep: bool) -> Iterator[tuple[str, ast.expr, ast.expr | ast.stmt]]:
    """Yield what is assigned to each name and where, lists that grow among it."""
    for node in ast.walk(tree) if deep else ast.iter_child_nodes(tree):
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from ((name, each, node) for name, each in _bound(target, value))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                yield name, value, node
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value, node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                yield name, ast.List([value]), node


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Tuple(), ast.IfExp(body=one, orelse=other):
            yield from (*_bound(target, one), *_bound(target, other))
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for name, each in zip(names, values, strict=True):
                yield from _bound(name, each)
        case ast.Name(id=name), _:
            yield name, value


def meanings(function: ast.FunctionDef, use: ast.Call) -> dict[str, list[ast.expr]]:
    """Return what names mean where they are used: by the last assignment, or by those of the branches before it."""
    statements = [each for each in ast.walk(function) if isinstance(each, ast.stmt) and use in ast.walk(each)]
    indent = max(each.col_offset for each in statements)
    found, settled = defaultdict[str, list[ast.expr]](list), set[str]()
    before = [each for each in assigned(function, deep=True) if each[2].lineno <= use.lineno]
    for name, value, node in sorted(before, key=lambda each: -each[2].lineno):
        if name not in settled:
            found[name].insert(0, value)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.col_offset <= indent:
            settled.add(name)
    return found


class Source:
    """The files that verification runs: their names, their functions, and the calls by the name that is called."""

    def __init__(self) -> None:
        found = {path for room in ROOMS for path in ROOT.glob(room) if not MAKER.search(path.name)}
        trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(found)}
        self.modules: dict[str, Env] = {path: defaultdict(list) for path in trees}
        self.calls: dict[str, list[Place]] = defaultdict(list)
        for path, tree in trees.items():
            for name, value, _ in assigned(tree, deep=False):
                self.modules[path][name].append((value, self.modules[path]))
        for path, tree in trees.items():
            inside: dict[ast.AST, ast.FunctionDef] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    inside |= dict.fromkeys(ast.walk(node), node)
                if isinstance(node, ast.ImportFrom):
                    there = self.modules.get(f"{node.module}".replace(".", "/") + ".py", {})
                    self.modules[path] |= {each.name: there[each.name] for each in node.names if each.name in there}
            for node, function in inside.items():
                if isinstance(node, ast.Call):
                    self.calls[ast.unparse(node.func).removeprefix("self.")].append((path, function, node))

    def environments(self, place: Place, depth: int = 0) -> Iterator[tuple[Env, list[Place]]]:
        """Yield what names mean at a call, for each caller that says what is refused, and the calls on the way."""
        path, function, _ = place
        parameters = [each for each in (*function.args.args, *function.args.kwonlyargs) if each.arg != "self"]
        passed = [each.arg for each in parameters if each.arg in PASSED and _is_text(each)]
        calls = [each for each in self.calls[function.name] if each[1] is not function]
        if function.name.startswith("_"):
            calls = [each for each in calls if each[0] == path]
        given: list[tuple[Env, list[Place]]] = [] if passed and calls and depth < 4 else [({}, [])]
        for caller in calls if not given else ():
            names = dict(zip([each.arg for each in parameters], caller[2].args, strict=False))
            names |= {each.arg: each.value for each in caller[2].keywords if each.arg}
            for there, places in self.environments(caller, depth + 1):
                given.append(({name: [(names[name], there)] for name in passed if name in names}, places))
        for bound, places in given:
            env: Env = {**self.modules[path], **bound}
            env |= {name: [(each, env) for each in values] for name, values in meanings(*place[1:]).items()}
            for row in _rows(*place[1:], env):
                inner: Env = {}
                for name, values in env.items():
                    inner[name] = [(tree, inner if outer is env else outer) for tree, outer in values]
                inner |= row
                yield inner, [*places, place]

    def listed(self) -> list[Entry]:
        found = [_entry(env, places) for made in self.calls["Finding"] for env, places in self.environments(made)]
        numbers = Counter[str]()
        for each in sorted(found, key=lambda each: each["spots"]):
            numbers[each["id"]] += 1
            each["id"] += f" #{numbers[each['id']]}" if numbers[each["id"]] > 1 else ""
        return sorted(found, key=lambda each: each["spots"])


def _is_text(parameter: ast.arg) -> bool:
    kind = "" if parameter.annotation is None else ast.unparse(parameter.annotation)
    return kind == "str" or "tuple[str" in kind


def _rows(function: ast.FunctionDef, call: ast.Call, env: Env) -> list[Env]:
    """Return what the names of the loops around a call mean, for each row of the lists that they go through."""
    rows: list[Env] = [{}]
    for loop in ast.walk(function):
        around = isinstance(loop, ast.For | ast.GeneratorExp | ast.ListComp) and call in ast.walk(loop)
        for each in [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", []) if around else []:
            if around and isinstance(each.target, ast.Tuple):
                found = [dict(_bound(each.target, part)) for part, _ in elements(each.iter, env)]
                there = [there for _, there in elements(each.iter, env)]
                bound = [{n: [(v, e)] for n, v in row.items()} for row, e in zip(found, there, strict=True) if row]
                rows = [one | other for one, other in product(rows, bound)] if bound else rows
    return rows


def _entry(env: Env, places: list[Place]) -> Entry:
    path, function, _ = places[0]
    call = places[-1][2]
    given = dict(zip(("where", "field", "found", "allowed"), call.args, strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg in ("field", "found", "allowed")}
    told = {name: words(given[name], env) for name in ("where", "field", "found", "allowed")}
    module = re.sub(r"^tasks/(verification/)?|\.py$", "", path)
    slug = re.sub(r"‹[^›]*›", "", told["field"]).strip(" .,:") or f"({function.name})"
    check = (ast.get_docstring(function) or function.name.strip("_").replace("_", " ")).splitlines()[0]
    spots = [(there, each.lineno, each.col_offset) for there, _, each in places]
    return {"id": f"{module}: {slug}", "check": check, **told, "spots": spots}


def main() -> None:
    """Write the file anew; what was measured of a finding stays, and a new one was not measured."""
    measured = {each["id"]: (each["rules"], each["met"]) for each in json.loads(FILE.read_text("utf-8"))}
    entries = Source().listed()
    for each in entries:
        del each["spots"]
        each["rules"], each["met"] = measured.get(each["id"], ([], False))
    lines = (json.dumps(each, ensure_ascii=False) for each in entries)
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
