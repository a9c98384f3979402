"""A page of a version of counts by place: one picks places and labels, and reads their count with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from contracts.errors import Finding, SpecRefused
from sudare_web.site.answering import PageRoutes, PlaceInPath, ReleaseInPath
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.version import folder_of, head_of
from tasks.products.spine.spine_intervals import PublishedSpine, published_spine

PATH: Final = "/releases/{release}/v{number}/sums"
KIND: Final = "spine"
MOST_CELLS: Final = 4_000_000
"""Cells of all smallest places together up to which the page computes; beyond, it names the command."""
MOST_CHOICES: Final = 300
"""Places of a level that a list offers; those of larger levels are typed."""
PickQuery = Annotated[list[str] | None, Query(max_length=50)]
ConditionsQuery = Annotated[str, Query(max_length=2000, pattern=r"^[^\x00-\x1f]*$")]


def add_place_sums(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    """Give the page its address, and the same as JSON below /api."""

    @app.get(PATH)
    @app.get(f"/api{PATH}")
    def sums(
        request: Request,
        release: ReleaseInPath,
        number: PlaceInPath,
        pick: PickQuery = None,
        where: ConditionsQuery = "",
    ) -> Response:
        return answering.page(request, lambda _: sums_page(site, release, number, pick or (), where))


def sums_page(site: Site, release: str, number: int, picked: Sequence[str], where: str) -> Page:
    """Show what may be picked, and the sum of what was.

    Args:
        site, release, number: as of every page of a version.
        picked: conditions of one label each; those of one name are joined.
        where: conditions as they are typed for `sudare interval`.
    """
    folder = folder_of(site, release, number)
    replay = (site.folders.record(folder) or {}).get("replay") or {}
    if (replay.get("product") or {}).get("kind") != KIND or not folder.is_readable:
        raise NotThere
    asked = conditions_of(picked, where)
    told: dict[str, Any] = {"where": asked, "picked": list(picked), "typed": where.strip()}
    told |= {"command": None, "sum": None, "refused": None}
    largest = max((_cells(draw) for draw in replay["draws"]), default=0)
    if largest > MOST_CELLS:
        told |= {"command": f'sudare interval {folder.path.parent.name}/{folder.path.name} --where "{asked}"'}
        return Page("place_sums", {**head_of(site, folder), **told, "choices": []})
    try:
        version = _version(str(folder.path), str(folder.entry.manifest))
    except SpecRefused as refusal:
        told["refused"] = [_words(finding) for finding in refusal.findings]
        return Page("place_sums", {**head_of(site, folder), **told, "choices": []})
    try:
        told["sum"] = asdict(version.interval(asked))
    except SpecRefused as refusal:
        told["refused"] = [_words(finding) for finding in refusal.findings]
    return Page("place_sums", {**head_of(site, folder), **told, "choices": choices_of(version)})


def conditions_of(picked: Sequence[str], where: str) -> str:
    """Join what was picked, labels of one name by |, and what was typed."""
    labels: dict[str, list[str]] = {}
    for each in picked:
        name, equals, label = each.partition("=")
        if equals and label:
            labels.setdefault(name, []).append(label)
    conditions = [f"{name}={'|'.join(chosen)}" for name, chosen in labels.items()]
    return " and ".join([*conditions, *([where.strip()] if where.strip() else [])])


def choices_of(version: PublishedSpine) -> list[dict[str, Any]]:
    """List levels and columns with the labels that a list offers; none where there are too many."""
    tree, contract = version.tree, version.contract
    found = [
        {"name": level, "labels": tree.names[place].to_pylist() if size <= MOST_CHOICES else [], "number": size}
        for place, (level, size) in enumerate(zip(tree.levels, tree.sizes, strict=True))
    ]
    columns = [(name, contract.column(name).labels) for name in version.plan.columns]
    found += [
        {"name": name, "labels": list(labels) if len(labels) <= MOST_CHOICES else [], "number": len(labels)}
        for name, labels in columns
    ]
    return found


@lru_cache(maxsize=2)
def _version(path: str, manifest: str) -> PublishedSpine:
    return published_spine(Path(path).resolve())


def _cells(draw: dict[str, Any]) -> int:
    cells = 1
    for size in draw.get("shape") or ():
        cells *= int(size)
    return cells


def _words(finding: Finding) -> dict[str, str]:
    """Tell a refusal; of a file its name too."""
    found = finding.found if finding.field != "the file" else f"{finding.where}: {finding.found}"
    return {"found": found, "allowed": finding.allowed, "remedy": finding.remedy}
