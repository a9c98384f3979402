"""The memo for those who approve a release: what, about whom, why this ε, what else was tried, what error to expect.

It is made from spec, contract and plan, in Markdown. No row is read for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from console.products.product_view import ExpectedWidth, product_view
from contracts.reading.scalars import plain_text
from contracts.release.about import About
from contracts.release.spec import LARGEST_EPSILON
from flows.request import Request, planned_request
from privacy.ledger.journal.signing import key_id
from tasks.storage.workspace.settings import Workspace

SIZES: Final = (10, 100, 1_000, 10_000)
"""Classes of the size of a cell, by their lower end [rows]."""
_TIMES: Final = ("0.25", "0.5", "1", "2", "4")
_MOST_LINES: Final = 60
_UNWRITTEN: Final = "Nobody wrote it down. Write `rationale:` under `about:` in the spec."


@dataclass(frozen=True)
class Alternative:
    """What another ε would give: the longest 95 % interval of the counts of any table, as half its length [rows]."""

    epsilon: str
    half_width: float


def alternatives(request: Request, workspace: Workspace | None) -> tuple[Alternative, ...]:
    """Plan the release at a quarter, a half, twice and four times its ε; none where a plan foretells no error."""
    found = []
    for times in _TIMES:
        epsilon = request.spec.charge.epsilon * Decimal(times)
        if epsilon <= LARGEST_EPSILON:
            charge = request.spec.charge.model_copy(update={"epsilon": epsilon})
            asked = request.spec.model_copy(update={"charge": charge})
            widths = _counts(planned_request(asked, request.contract, workspace))
            if widths:
                found.append(Alternative(plain_text(epsilon.normalize()), max(each.of(1) for each in widths)))
    return tuple(found)


def _counts(request: Request) -> list[ExpectedWidth]:
    view = product_view(request.spec.product.kind)
    widths = view.expected_widths(view.plan_object(request.spec, request.plan))
    return [each for each in widths if each.statistic == "count"]


def memo(
    request: Request,
    payload: Mapping[str, Any],
    about: About,
    tried: Sequence[Alternative],
    further: Sequence[str] = (),
) -> str:
    """Write the memo.

    Args:
        request: the release, with its plan.
        payload: its plan as `sudare plan --json` prints it.
        about: what is declared about it.
        tried: other ε.
        further: sections of their own, in Markdown.
    Privacy: reads no data; balances of accounts are as `sudare plan` tells them.
    """
    sections = (
        [f"# {request.spec.release}: memo for those who approve it"],
        _what(request, about),
        _who(request),
        _cost(request, payload, about),
        _errors(request, payload),
        _tried(request, tried),
        *([each] for each in further),
        _unprotected(request),
        _warnings(payload),
        _approvers(request),
    )
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _what(request: Request, about: About) -> list[str]:
    spec, contract = request.spec, request.contract
    lines = ["## What is published", ""]
    lines += _facts(
        ("data", contract.name),
        ("product", spec.product.kind),
        ("purpose", str(contract.description.get("purpose") or "not declared")),
        ("audience", str(about.audience or "not declared")),
        ("curator", str(about.curator or "not declared")),
    )
    return lines


def _who(request: Request) -> list[str]:
    unit = request.contract.unit
    rows = "" if unit.max_rows_per_unit == 1 else f", with at most {unit.max_rows_per_unit} rows each"
    relation = {"add_remove": "adding or removing one", "replace_one": "replacing one"}[request.contract.adjacency]
    return [
        "## Who is protected",
        "",
        *_facts(
            ("privacy unit", f"{unit.column or 'a row'}{rows}"),
            ("neighbours", f"tables that differ by {relation}"),
            ("bounded", "within one time block" if unit.scope == "block" else f"over a {unit.scope}"),
        ),
    ]


def _cost(request: Request, payload: Mapping[str, Any], about: About) -> list[str]:
    account = payload["account"]
    left = f"{account['remaining']} left, this takes {account['cost']}" if account.get("open") else "not opened yet"
    return [
        "## What it costs, and why so much",
        "",
        *_facts(
            ("ε", f"{payload['epsilon']} at δ = {payload['delta']}"),
            ("account", f"{account['name']}: {left}"),
            ("fits", "yes" if account.get("fits", False) else "no, or not known yet"),
        ),
        "",
        str(about.rationale or _UNWRITTEN),
    ]


def _errors(request: Request, payload: Mapping[str, Any]) -> list[str]:
    widths = product_view(payload["kind"]).expected_widths(dict(payload))
    head = ["## What error to expect", ""]
    if not widths:
        return [*head, "How far off rows and models are depends on the data: no plan foretells it."]
    lines = ["| table | statistic | " + " | ".join(f"cells of {size:,} rows" for size in SIZES) + " |"]
    lines += ["|---|---" + "|---:" * len(SIZES) + "|"]
    ordered = sorted(widths, key=lambda each: -each.of(SIZES[0]))
    lines += [f"| {each.table} | {each.statistic} | {' | '.join(_by_size(each))} |" for each in ordered[:_MOST_LINES]]
    rest = len(ordered) - _MOST_LINES
    more = ["", f"{rest:,} more have shorter intervals."] if rest > 0 else []
    return [
        *head,
        "Half of the 95 % interval, before refinement; of counts in rows and in % of the cell.",
        "",
        *lines,
        *more,
    ]


def _by_size(width: ExpectedWidth) -> Iterator[str]:
    for size in SIZES:
        half = width.of(size)
        yield f"±{half:,.4g} ({half / size:.2%})" if width.statistic == "count" else f"±{half:,.4g}"


def _tried(request: Request, tried: Sequence[Alternative]) -> list[str]:
    if not tried:
        return []
    own = plain_text(request.spec.charge.epsilon.normalize())
    lines = ["## What else was tried", "", "| ε | counts within, at the farthest table (95 %) | |", "|---:|---:|---|"]
    return lines + [
        f"| {each.epsilon} | ±{each.half_width:,.4g} | {'this release' if each.epsilon == own else ''} |"
        for each in tried
    ]


def _unprotected(request: Request) -> list[str]:
    total = request.contract.total
    said = (
        f"The number of rows, {total.value}: the contract declares it public."
        if total is not None
        else "No exact number is published."
    )
    return [
        "## What is not protected",
        "",
        said,
        "Whether a gate of the contract stopped an earlier run is entered in the journal.",
    ]


def _warnings(payload: Mapping[str, Any]) -> list[str]:
    found = [f"- {each['rule']}: {each['found']}" for each in payload["warnings"]]
    return ["## Warnings", "", *(found or ["None."])]


def _approvers(request: Request) -> list[str]:
    asked = request.spec.approvals
    if asked is None:
        return [
            "## Who approves",
            "",
            "The spec asks for no approval. Write `approvals:` into it, and make the pack again.",
        ]
    lines = [f"- {each.name}, key {key_id(each.key)}" for each in asked.by]
    return [
        "## Who approves",
        "",
        f"{asked.needed} of these, before anything is charged:",
        "",
        *lines,
        "",
        "To approve: `sudare approve PACK --key FILE`. It signs spec, contract, plan and this memo by their digests.",
        f"Put the file that it writes into `{asked.folder}/` beside the spec.",
    ]


def _facts(*facts: tuple[str, str]) -> list[str]:
    return [f"- **{name}**: {value}" for name, value in facts]
