"""Whether this machine can make a release at all: looked at by `plan`, before a run reads rows and before it charges.

What is missing here would otherwise be found after the grant was opened, and the charge would be lost. In order:

    software   torch for a training, boto3 for an object store, and what an engine asks for
    device     CUDA where the options ask for it
    memory     what the plan foretells against what the machine has
    disk       room below the workspace and the release store
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

from contracts.errors import SpecRefused
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.address_kinds import is_address, read_address
from contracts.release.engine_kinds import engine_kind
from flows.request import Request
from privacy.generators.latent_options import TrainingOptions
from privacy.learning.errors import CannotTrain
from privacy.learning.execution import Execution
from tasks.products.product_kind import Needs, planning_of
from tasks.storage.source_engine import SourceEngine
from tasks.storage.workspace.settings import Workspace

_MEGABYTE: Final = 2**20
_LEAST_DISK: Final = 100
"""Megabytes that must be free for a ledger, a snapshot and a small version."""
_NOTHING: Final = "nothing was charged"


def check_capacity(request: Request, workspace: Workspace | None) -> None:
    """Refuse a release that this machine cannot make. Reads no row, charges nothing.

    Raises:
        SpecRefused: with what is missing, and how to get it.
    """
    wrong = [*_software(request), *_engine(request, workspace), *_memory(request), *_disk(request, workspace)]
    if wrong:
        raise SpecRefused([request.spec.finding(at, problem) for at, problem in wrong])


def _software(request: Request) -> Iterator[tuple[FieldPath, Problem]]:
    """Find libraries that cannot be imported, and a device that is not there."""
    spec = request.spec
    options = _needs(request).options
    if isinstance(options, TrainingOptions):
        try:
            Execution(options.device, options.rows_at_once).chosen_device()
        except CannotTrain as refused:
            at: FieldPath = ("product", "options", "device") if refused.what == "device" else ("product",)
            remedy = "install it: make neural" if refused.what == "torch" else "choose device: cpu"
            yield at, Problem(f"{refused.what} {refused.found}", refused.allowed, f"{remedy}; {_NOTHING}")
    needed: list[tuple[FieldPath, str, str]] = []
    for at, written in ((("source", "path"), spec.written_paths[1]), (("publish", "to"), spec.written_paths[2])):
        package = read_address(written).package if is_address(written) else None
        if package is not None:
            needed.append((at, *package))
    for at, module, extra in needed:
        try:
            import_module(module)
        except ImportError:
            remedy = f'pip install "sudare[{extra}]"; {_NOTHING}'
            yield at, Problem(f"{module} is not installed here", f"an installation with the extra {extra}", remedy)


def _engine(request: Request, workspace: Workspace | None) -> Iterator[tuple[FieldPath, Problem]]:
    """Find what the engine says that it lacks."""
    name = request.spec.source.engine
    if name is not None and (lacks := engine_kind(name, SourceEngine).missing(workspace)) is not None:
        yield ("source", "engine"), replace(lacks, remedy=f"{lacks.remedy}; {_NOTHING}")


def _memory(request: Request) -> Iterator[tuple[FieldPath, Problem]]:
    """Compare what the plan foretells with the machine's memory."""
    needs, have = _needs(request), memory_megabytes()
    wanted, at = needs.megabytes, needs.at
    if wanted > have:
        remedy = f"take fewer cells, a smaller model or batch, or a larger machine; {_NOTHING}"
        yield at, Problem(f"about {wanted:,.0f} MB of memory", f"at most {have:,.0f} MB, which it has", remedy)


def _disk(request: Request, workspace: Workspace | None) -> Iterator[tuple[FieldPath, Problem]]:
    """Find too little room for what is written."""
    if workspace is None:
        return
    wanted = _LEAST_DISK + _needs(request).disk_megabytes
    for folder in dict.fromkeys((workspace.root, request.store(workspace))):
        free = free_megabytes(folder)
        if free < wanted:
            remedy = f"make room below {folder}; {_NOTHING}"
            yield ("publish", "to"), Problem(f"{free:,.0f} MB free", f"at least {wanted:,.0f} MB", remedy)


def _needs(request: Request) -> Needs:
    return planning_of(request.spec.product.kind).needs(request.plan)


def memory_megabytes() -> float:
    """Return the machine's memory [MB of 2^20 bytes]."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MEGABYTE


def free_megabytes(folder: Path) -> float:
    """Return what is free where a folder lies, or will lie [MB of 2^20 bytes]."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(there).free / _MEGABYTE
