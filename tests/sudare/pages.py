"""What people copy: the blocks of a page of the manual, and the cells of a notebook, run as a kernel runs them."""

import ast
import asyncio
import json
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python( task)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[tuple[bool, str]]:
    """Return the blocks of Python of a page, each with whether it is one of the tasks."""
    return [(bool(task), text) for task, text in BLOCK.findall(page.read_text(encoding="utf-8"))]


def table_cells(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return cells


def run_cells(sources: list[str]) -> list[str]:
    """Run cells one after another inside an event loop, as a kernel does; return what each shows, in HTML."""

    async def kernel() -> list[str]:
        names: dict[str, Any] = {"__name__": "__main__"}
        return [_shown(source, names) for source in sources]

    return asyncio.run(kernel())


def _shown(source: str, names: dict[str, Any]) -> str:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    drawn = getattr(value, "_repr_html_", None)
    return repr(value) if drawn is None else str(drawn())
