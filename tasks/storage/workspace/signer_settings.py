"""The table `[signer]` in sudare.toml, as commands change it: other lines of the file stay as they were written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_HEADER: Final = re.compile(r"^\s*\[([A-Za-z0-9_.-]+)\]")


def replace_signer(file: Path, values: Mapping[str, str]) -> None:
    """Write another table `[signer]`, and take `[next_signer]` away; the file appears whole or stays as it is.

    Args:
        file: sudare.toml.
        values: the keys of the new table; without values there is none.
    """
    lines, kept, within = file.read_text(encoding="utf-8").splitlines(keepends=True), [], ""
    for line in lines:
        header = _HEADER.match(line)
        within = header[1] if header else within
        if within not in {"signer", "next_signer"}:
            kept.append(line)
    text = "".join(kept).rstrip("\n") + "\n"
    if values:
        text += "\n[signer]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items())
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _quoted(value: str) -> str:
    """Write a text as TOML does."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
