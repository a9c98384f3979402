"""All that was drawn for a fit, written, stated and described kind by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.message import AND, joined, message
from privacy.accounting.amounts import pico_to_text
from privacy.generators.generator import Fitted
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.model.draw_kinds import draw_form, draw_kinds
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.version_statements import FittedDraw

AnyForm = DrawForm[Any, Any]
Body = Mapping[str, Any]


def forms_of(fitted: Fitted[Any]) -> Iterator[tuple[AnyForm, tuple[Any, ...]]]:
    """Yield the form of each kind that was drawn, with what was drawn of it.

    Raises:
        LookupError: a kind without a published form was drawn.
    """
    kinds = {each.kind for each in fitted.draws}
    for kind in [*(kind for kind in draw_kinds() if kind in kinds), *sorted(kinds - draw_kinds().keys())]:
        yield draw_form(kind), fitted.of_kind(kind)


def write_drawn(
    fitted: Fitted[Any], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write what was drawn for a fit: the files of each kind of draw."""
    return tuple(file for form, drawn in forms_of(fitted) for file in form.write(drawn, facts, folder, marks=marks))


def stated_draws(facts: RunFacts) -> list[dict[str, Any]]:
    """Return all draws of a fit for whoever replays the version, in their order."""
    account, entered = facts.account.terms.name, _entered(facts)
    return [
        {
            "kind": released.kind,
            "key": key,
            "number": entered[key]["number"],
            "coarsening": None,
            "event": entered[key]["event"],
            "cost": entered[key]["costs"][account],
            "sha256": entered[key]["sha256"],
            "measurements": file,
            **form.stated(released, key),
        }
        for form, released, key, file in _each(facts, entered)
    ]


def described_draws(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe all draws of a fit for people, in their order."""
    account, entered = facts.account.terms.name, _entered(facts)
    return [
        {
            "key": key,
            "event": entered[key]["event"],
            "cost": pico_to_text(entered[key]["costs"][account]),
            **form.described(released, key),
        }
        for form, released, key, _ in _each(facts, entered)
    ]


def measured(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe what is published of the draws, in their order, each with its file."""
    return [
        {"key": key, **form.measured(released), "file": file}
        for form, released, key, file in _each(facts, _entered(facts))
        if file is not None
    ]


def noise_mechanism(fitted: Fitted[Any]) -> str:
    """Say how noise is added, and what is chosen privately."""
    forms = list(forms_of(fitted))
    counted = [(form, drawn) for form, drawn in forms if form.noise_on]
    noise = ""
    if counted:
        kinds = sorted({each.event.kind.replace("_", " ") for _, drawn in counted for each in drawn})
        parts = joined([form.noise_on for form, _ in counted], AND)
        named = joined([message(kind) for kind in kinds], AND)
        noise = message("{kinds} noise on {parts}", kinds=named, parts=parts)
    for form, drawn in forms:
        noise = form.mechanism(noise, drawn)
    return noise


def published_draws(draws: Sequence[FittedDraw]) -> tuple[Any, ...]:
    """Return what was drawn, as far as a record states it."""
    kinds = dict.fromkeys(draw.kind for draw in draws)
    return tuple(
        each for kind in kinds for each in draw_form(kind).published([draw for draw in draws if draw.kind == kind])
    )


def _entered(facts: RunFacts) -> dict[str, Body]:
    """Return the journal's entry of each draw, by its key, in their order."""
    bodies = sorted(
        (entry.body for entry in facts.entries if entry.kind == "noise_drawn"), key=lambda body: body["number"]
    )
    return {body["key"]: body for body in bodies}


def _each(facts: RunFacts, entered: Mapping[str, Body]) -> list[tuple[AnyForm, Any, str, str | None]]:
    """Return each draw: its form, what it belongs to, its key and its file."""
    numbers: dict[str, int] = {key: body["number"] for key, body in entered.items()}
    found = [
        (form, released, key, files.get(key))
        for form, drawn in forms_of(facts.fit[1].fitted)
        for files in [form.files(drawn, numbers)]
        for released in drawn
        for key in form.keys(released, tuple(entered))
    ]
    return sorted(found, key=lambda each: numbers[each[2]])


def drawn_files(draws: Sequence[FittedDraw]) -> Iterator[tuple[str, ShownFile]]:
    """Yield the files that draws lead to: key of the draw that each shows, its role, and its form."""
    for draw in draws:
        form = draw_form(draw.kind)
        for name, role in form.beside.items():
            yield name, ("", role, "dense")
        if draw.measurements is not None:
            yield draw.measurements, (draw.key, form.role, "dense")
