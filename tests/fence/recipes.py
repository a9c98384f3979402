"""List the changes of published versions that verification refuses: `python -m tests.fence.recipes` writes the file.

Each recipe has the fact that it falsifies, the world that it is applied to, and sets of rules: it is refused under
all rules of one of them. Parametrised tests apply the recipes of the same dicts.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from benchmarks.mutations import KINDS
from tests.tasks.verification.forgeries import FORGERIES

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("recipes.json")
PARTS = ("record", "journal", "manifest", "files")


def listed() -> list[dict[str, Any]]:
    """Every recipe: mutations by a stranger, forgeries by a publisher, and those of the tests of one kind."""
    strangers = [
        {"name": kind, "fact": fact, "by": "a stranger", "world": "guild", "rules": [sorted(each) for each in rules]}
        for kind, (fact, rules) in KINDS.items()
    ]
    forged = [_recipe(fact, each, each.of) for fact, each in FORGERIES.items()]
    for path in sorted((ROOT / "tests" / "tasks").rglob("test_*.py")):
        if "Forgery(" in path.read_text("utf-8"):
            name = path.relative_to(ROOT).with_suffix("").as_posix()
            for called, value in vars(importlib.import_module(name.replace("/", "."))).items():
                if isinstance(value, dict) and value is not FORGERIES:
                    own = [pair for pair in value.items() if type(pair[1]).__name__ == "Forgery"]
                    world = f"{name.removeprefix('tests/tasks/')}, {called}"
                    forged += [_recipe(fact, each, world) for fact, each in own]
    return strangers + forged


def _recipe(fact: str, forgery: Any, world: str) -> dict[str, Any]:
    plain = type(forgery)(rules=set())
    changed = [part for part in PARTS if getattr(forgery, part, None) is not getattr(plain, part, None)]
    recipe = {"name": fact, "fact": fact, "by": "the publisher", "world": world, "rules": [sorted(forgery.rules)]}
    return {**recipe, "changes": changed, "says": forgery.says}


if __name__ == "__main__":
    lines = (json.dumps(each, ensure_ascii=False) for each in listed())
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
