"""Forms in which other programs take a version: `publish: {exchange: [sdmx, csvw, registry]}` in a release spec.

Each is registered as `sudare.files` under its name. Its files lie below `exchange/`, and all of them are made from
the record and the data files, so that they tell nothing else and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, WithJsonSchema

from contracts.contract.contract import Contract
from contracts.plug_ins import PlugInAway, absent_extension, find_all, names
from contracts.reading.scalars import Problem, refuse, show, word_list
from contracts.release.product import ProductSpec

EXCHANGE: Final = "exchange/"
"""The folder below a version in which all these files lie."""
GROUP: Final = "sudare.files"


def _no_problems(formats: Sequence[str], product: ProductSpec, contract: Contract) -> Iterable[Problem]:
    return ()


@dataclass(frozen=True)
class ExchangeFiles:
    """The files of one form.

    Args:
        files: yields the path of each with its bytes, piece by piece, from what a record says (a `RecordExplanation`)
            and from what returns the bytes of a data file; public facts only. What it yields follows from these.
        problems: yields what keeps the form from a release: formats of the data files, product and contract.
    """

    files: Callable[[Any, Callable[[str], bytes]], Iterator[tuple[str, Iterator[bytes]]]]
    problems: Callable[[Sequence[str], ProductSpec, Contract], Iterable[Problem]] = _no_problems


def form_files(form: str) -> ExchangeFiles | None:
    """Return how the files of a form are made; None where its extension is not installed.

    Raises:
        PlugInAway: what is registered cannot be loaded.
    """
    registered = find_all(GROUP, form) if absent_extension(GROUP, form) is None else ()
    made: ExchangeFiles | None = registered[0].load(ExchangeFiles) if registered else None
    return made


def known_form(form: str) -> str:
    """Refuse a form that no package and no extension of ours has; one that is not installed here is known."""
    if form not in names(GROUP):
        refuse([Problem(show(form), word_list(names(GROUP)), "name one of them, or install the package that has it")])
    return form


ExchangeForm = Annotated[str, AfterValidator(known_form), WithJsonSchema({"type": "string", "minLength": 1})]


def exchange_problems(
    forms: Sequence[str], formats: Sequence[str], product: ProductSpec, contract: Contract
) -> Iterator[Problem]:
    """Yield what keeps forms of exchange from a release.

    Args:
        forms: those that are asked for.
        formats: of the data files.
        product: which fits the contract.
        contract: its contract.
    """
    for form in forms:
        extension = absent_extension(GROUP, form)
        if extension is not None:
            found = f"{form}, which needs the extension {extension}, which is not installed"
            yield Problem(found, "forms that are installed", f"install Sudare with {extension}, or drop `{form}`")
            continue
        try:
            made = form_files(form)
        except PlugInAway as error:
            yield Problem(f"{form}, {error.found}", error.allowed, error.remedy)
            continue
        yield from () if made is None else made.problems(formats, product, contract)
