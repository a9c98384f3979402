"""From an empty folder: a workspace, a draft of a contract, a spec that waits for its tables, an account.

Each is a command of `sudare` in a process of its own, or a new file that is written from a form.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field

from contracts.errors import Finding
from sudare_web.studio.files import FileRefused, FileText, SpecFolder
from sudare_web.studio.processes import Said, say
from sudare_web.studio.sent_bodies import SentBody
from sudare_web.studio.yaml_text import flow
from tasks.storage.workspace.settings import Workspace

WORKSPACE: Final = "work"
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPEC: Final = """\
release: {release}
contract: {contract}
source: {{path: {table}{delimiter}}}
charge: {{account: {release}, epsilon: 1, delta: 0}}
product:
  kind: tables
  mechanism: laplace
  tables: []
  refine: {{method: simplex}}
publish: {{to: releases/, formats: [parquet, csv]}}
"""


class NewRelease(SentBody):
    """A release that begins: its name, the file that will hold its rows, and what describes their columns."""

    release: str = Field(max_length=64)
    table: str = Field(max_length=200)
    codebook: str = Field(default="", max_length=200)


class WantedAccount(SentBody):
    """An account as the form has it; each is an option of `sudare budget open`."""

    account: str = Field(max_length=200)
    population: str = Field(max_length=200)
    block: str = Field(max_length=60)
    unit: str = Field(max_length=200)
    adjacency: str = Field(max_length=40)
    calculus: str = Field(max_length=20)
    epsilon: str = Field(max_length=40)
    delta: str = Field(default="0", max_length=40)
    source: str = Field(default="", max_length=400)


def make_workspace(folder: SpecFolder) -> Said:
    """Make a workspace beside the specs: `sudare init work`."""
    return say(["init", WORKSPACE], folder.path)


def open_account(folder: SpecFolder, workspace: Workspace | None, terms: WantedAccount) -> Said:
    """Open an account, and bind the source to its people: `sudare budget open`."""
    if workspace is None:
        raise FileRefused([Finding("the page", "workspace", "none yet", "a workspace", "make one first")])
    options = terms.model_dump(exclude={"account"})
    words = [f"--{name}={value}" for name, value in options.items() if value]
    return say(["budget", "open", *words, f"--workspace={workspace.root}", "--", terms.account], folder.path)


def new_release(folder: SpecFolder, wanted: NewRelease) -> Said:
    """Draft a contract from the header of a table and a codebook, and begin a spec; files that are there stay.

    Raises:
        FileRefused: the release has no name that a folder can have, or table or codebook are none of this folder.
    """
    if not _NAME.fullmatch(wanted.release):
        allowed = "lower-case letters and digits, with single hyphens between them"
        raise FileRefused([Finding("the page", "release", repr(wanted.release), allowed)])
    if wanted.table not in folder.tables():
        allowed = f"a table in {folder.path}: .csv, .parquet or .duckdb"
        raise FileRefused([Finding("the page", "table", repr(wanted.table), allowed, "put it there")])
    if wanted.codebook and (wanted.codebook == wanted.table or wanted.codebook not in folder.codebooks()):
        allowed = f"another file in {folder.path} that describes the columns"
        raise FileRefused([Finding("the page", "codebook", repr(wanted.codebook), allowed, "choose one, or none")])
    spec, contract = f"{wanted.release}.yaml", f"{wanted.release}.contract.yaml"
    if folder.file(spec).exists():
        raise FileRefused([Finding(spec, "release", "a spec of that name", "a new name", "open it, or name another")])
    said = Said(True, {})
    if not folder.file(contract).exists():
        book = [f"--codebook={wanted.codebook}"] if wanted.codebook else []
        said = say(["contract", "draft", f"--from={wanted.table}", *book, f"--to={contract}"], folder.path)
    if said.done:
        mark = said.answer.get("delimiter") or ","
        names = {"release": wanted.release, "contract": contract, "table": flow(wanted.table)}
        names["delimiter"] = "" if mark == "," else f", delimiter: {flow(mark)}"
        folder.write(FileText(folder.file(spec), _SPEC.format(**names)))
        return Said(True, {"spec": spec})
    return said
