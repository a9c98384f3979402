"""`sudare explain`: a spec, a published version or an error, in plain words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from console.main import require_publisher
from console.output import AsJson, answer, error_pages, spelled_code
from contracts.errors import Finding, SourceUnreadable
from contracts.reading.scalars import nearest, spelled
from privacy.accounting.amounts import percent_text
from privacy.accounting.posterior import PRIORS, largest_posterior, odds_bound
from tasks.records.groups.field import NOT_AVAILABLE
from tasks.records.model.record_kinds import record_part, stated_kind
from tasks.records.record import RecordExplanation, published_explanation
from tasks.storage.manifest import digests_in

if TYPE_CHECKING:
    from flows.request import Request

What = Annotated[str, typer.Argument(metavar="WHAT", help="A release spec, the folder of a version, or a code.")]
_HALF = "50 %"
_SHOWN = 6


def explain(what: What, as_json: AsJson = False) -> None:
    """Say in plain words what a spec would publish, what a version tells, or what an error means. Reads no rows.

    Examples:

        sudare explain examples/adult/tables.yaml

        sudare explain releases/adult-tables/v1

        sudare explain budget-exceeded
    """
    paragraphs = list(_paragraphs(what))

    def people(console: Console) -> None:
        for place, paragraph in enumerate(paragraphs):
            console.print(paragraph if place == 0 else f"\n{paragraph}")

    answer({"paragraphs": paragraphs}, people, as_json=as_json)


def _paragraphs(what: str) -> Iterator[str]:
    """Find out what is meant: a file or folder that is there, else a code."""
    path = Path(what)
    if path.is_dir() or path.name == "record.json":
        yield from _of_version(_explanation(path if path.is_dir() else path.parent))
    elif path.is_file():
        yield from _of_spec(_request(path), what)
    else:
        yield from _of_code(what)


def _of_code(what: str) -> Iterator[str]:
    pages, code = error_pages(), spelled_code(what)
    if code not in pages:
        allowed = "a release spec, the folder of a version, or the code that is printed below an error"
        remedy = nearest(code, list(pages)) or f"codes are {', '.join(sorted(pages))}"
        raise SourceUnreadable([Finding("sudare explain", "WHAT", repr(what), allowed, remedy)])
    yield from (code, pages[code])


def _request(path: Path) -> Request:
    """Read a spec with its contract, which needs the publisher's packages; versions and codes do not."""
    require_publisher()
    from flows.request import read_request

    return read_request(path, None, None)


def _of_spec(request: Request, written: str) -> Iterator[str]:
    """Say what would be published, of whom, at what price, and what noise would not cover."""
    spec, contract = request.spec, request.contract
    charge, unit = spec.charge, contract.unit
    names = ", ".join(spec.product.names(contract))
    yield f"{spec.release}: {record_part(spec.product.kind).words.made} about {contract.table}. It tells of {names}."
    whose = "one row" if unit.column is None else f"one {unit.column}, with at most {unit.max_rows_per_unit:,} rows"
    about = "whether it is in the table" if contract.adjacency == "add_remove" else "what the table says of it"
    yield f"Protected is {whose}: {about}."
    delta = f" and δ = {spelled(charge.delta)}" if charge.delta else ""
    factor = odds_bound(int(charge.epsilon * 10**12), int(charge.delta * 10**18))
    told = f"Who was half sure of it before may be {largest_posterior(PRIORS[-1], factor)} sure afterwards, at most."
    yield f"It may cost ε = {spelled(charge.epsilon)}{delta} of the account {charge.account}. {told}"
    if contract.total is not None:
        yield f"Not protected: the number of rows, {contract.total.value:,}, which the contract declares public."
    if contract.gates:
        yield f"Not protected: whether these hold, which the contract names as gates: {', '.join(contract.gates)}."
    yield f"Next: sudare plan {written}, which shows how far off it would be and reads no data either."


def _of_version(told: RecordExplanation) -> Iterator[str]:
    """Say what a record says on its first screen."""
    values = told.values
    made, people = record_part(str(stated_kind(told.record))).words.made, values["source.population"]
    yield f"{told.title}: {made} about {people}, {values['identity.reference_period']}."
    yield "This is what the version says of itself. Nothing of it was checked here: `sudare verify` does that."
    about = "whether it is in the data" if values["unit.adjacency"] == "add_remove" else "what the data say of it"
    yield f"Protected is {values['unit.unit']}: {about}. {values['unit.group_privacy']}"
    yield _price(values)
    stated = values["unprotected.quantities"]
    open_facts = stated if isinstance(stated, list | tuple) else [str(stated)]
    more = f"\n  and {len(open_facts) - _SHOWN} more, in record.html" if len(open_facts) > _SHOWN else ""
    listed = "".join(f"\n  {each}" for each in open_facts[:_SHOWN])
    yield f"Noise does not cover:{listed}{more}"
    intervals = values.get("product.intervals", NOT_AVAILABLE)
    if intervals != NOT_AVAILABLE:
        yield f"How far off: {intervals}"
    yield f"Check it: {values['integrity.verify_command']}"


def _price(values: Any) -> str:
    """Say what a version cost, what that lets somebody believe, and what is left."""
    delta = "" if values["guarantee.delta"] == "0" else f", δ = {values['guarantee.delta']}"
    half = values["guarantee.largest_posterior"]["at_most"][_HALF]
    belief = f"Who was half sure of it before may be {half} sure afterwards, at most."
    charged, cap, rest = (Decimal(values[f"ledger.{name}"]) for name in ("charged", "cap", "left"))
    taken, free = percent_text(charged, cap, up=True), percent_text(rest, cap, up=False)
    left = f"It took {taken} of the cap of the account {values['ledger.account']}; {free} was left."
    return f"ε = {values['guarantee.epsilon']}{delta}. {belief} {left}"


def _check_digest(folder: Path) -> None:
    """Refuse a record that was edited, as far as the manifest tells; signatures and the journal are for `verify`."""
    stated = digests_in((folder / "MANIFEST.json").read_bytes())["record.json"]
    if stated != hashlib.sha256((folder / "record.json").read_bytes()).hexdigest():
        found = "another file than the manifest of the version names"
        remedy = "fetch the version again; sudare verify says what is wrong with this one"
        raise SourceUnreadable([Finding(str(folder), "record.json", found, "the file that was published", remedy)])


def _explanation(folder: Path) -> RecordExplanation:
    """Explain the record of a version's folder, whose files are those of its manifest."""
    try:
        _check_digest(folder)
        return published_explanation(lambda name: (folder / name).read_bytes())
    except (OSError, ValueError, LookupError) as error:
        found = f"no readable record ({type(error).__name__})"
        allowed = "the folder of a published version, with record.json, PROOF.json and MANIFEST.json"
        remedy = "name such a folder: releases/NAME/v1"
        raise SourceUnreadable([Finding(str(folder), "record", found, allowed, remedy)]) from error
