"""The pages of the extensions in the manual's site: hooks of MkDocs, which itself looks into docs/ alone.

Each `extensions/NAME/README.md` becomes the page NAME.md, and the menu lists it. Links between these pages and docs/
are written as paths of the repository, and changed to paths of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[1]
READMES: Final = {path.parent.name: path for path in sorted(ROOT.glob("extensions/*/README.md"))}
_TO_EXTENSION = re.compile(r"\[([^\]]*)\]\(\.\./extensions/(\w+)/README\.md(#[\w-]+)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Add the extensions to the menu."""
    if READMES and config.nav is not None:
        config.nav.append({"Extensions": [f"{name}.md" for name in READMES]})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the extensions."""
    for name, path in READMES.items():
        files.append(File.generated(config, f"{name}.md", abs_src_path=str(path)))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links lead to the pages of the site; the name of an extension that is not there is no link."""
    return _TO_EXTENSION.sub(_link, markdown).replace("](../../docs/", "](")


def _link(found: re.Match[str]) -> str:
    words, name, heading = found.groups(default="")
    return f"[{words}]({name}.md{heading})" if name in READMES else words
