"""`sudare plan SPEC --surrogate FILE`: errors on a public stand-in. Reads no confidential row."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console

from console.output import table, workspace_at
from contracts.errors import Finding, SpecRefused
from flows.evaluation.surrogate import SIZES, class_name, surrogate_errors
from flows.request import Request, planned_request


def told_of_surrogate(
    request: Request, file: Path | None, because: str | None, folder: Path | None, *, epsilon: Decimal
) -> dict[str, Any]:
    """Make releases of a stand-in; refusals as of `surrogate_errors`.

    Args:
        request: the release.
        file: the stand-in.
        because: why it is public.
        folder: the workspace that was named; it keeps the snapshot of the stand-in while it is needed.
        epsilon: of the releases.
    Returns:
        dict: JSON values.
    """
    if file is None:
        found, allowed = "no --surrogate beside it", "both, or none"
        raise SpecRefused([Finding("the command", "--public-because", found, allowed, "add --surrogate FILE")])
    workspace = workspace_at(folder)
    charge = request.spec.charge.model_copy(update={"epsilon": epsilon})
    asked = planned_request(request.spec.model_copy(update={"charge": charge}), request.contract, workspace)
    return surrogate_errors(asked, file, because=because, workspace=workspace).to_json()


def print_surrogate(console: Console, told: dict[str, Any]) -> None:
    """Print the errors by table and class of size."""
    console.print()
    console.print(f"off by, after refinement, in {told['releases']} releases of {told['file']} ({told['because']}):")
    headings = [class_name(least) for least in SIZES]
    console.print(table(("table", *headings), _lines(told), numbers=tuple(headings)))


def _lines(told: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a line for each table: its name, and the error in each class of size."""
    lines = []
    for name in dict.fromkeys(each["table"] for each in told["errors"]):
        found = {each["least"]: each for each in told["errors"] if each["table"] == name}
        lines.append((name, *(f"±{found[least]['rmse']:,.3g}" if least in found else "" for least in SIZES)))
    return lines
