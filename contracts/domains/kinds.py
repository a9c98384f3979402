"""The kinds of domains: those below, and those that installed packages register as `sudare.domains`.

A domain is read as the class of its `kind`. A built-in kind cannot be taken by a package.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, SerializeAsAny

from contracts.domains.dates import DateDomain
from contracts.domains.domain import DeclaredDomain
from contracts.domains.image import ImageDomain
from contracts.domains.listed import CategoryDomain, MappingDomain
from contracts.domains.numbers import DecimalDomain, IntegerDomain
from contracts.reading.scalars import Problem, nearest, refuse, show

GROUP: Final = "sudare.domains"
_BUILT_IN: Final[Mapping[str, type[DeclaredDomain]]] = {
    "integer": IntegerDomain,
    "decimal": DecimalDomain,
    "date": DateDomain,
    "categories": CategoryDomain,
    "mapping": MappingDomain,
    "image": ImageDomain,
}


def domain_kinds() -> tuple[str, ...]:
    """Return the names of all kinds, the built-in ones first."""
    return (*_BUILT_IN, *sorted({point.name for point in entry_points(group=GROUP)} - set(_BUILT_IN)))


def kinds_for(logical_type: str) -> tuple[str, ...]:
    """Return the kinds of domains that a column of a logical type may have."""
    return tuple(kind for kind in domain_kinds() if logical_type in domain_class(kind).logical_types)


def domain_class(kind: str) -> type[DeclaredDomain]:
    """Return the class of a kind; a package's is loaded here.

    Raises:
        PydanticCustomError: there is no such kind, or the package that registers it cannot be loaded.
    """
    if kind in _BUILT_IN:
        return _BUILT_IN[kind]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in points:
        names = domain_kinds()
        remedy = nearest(kind, names) or "install the package that registers this kind of domain"
        refuse([Problem(f"kind {show(kind)}", "one of " + ", ".join(names), remedy, ("kind",))])
    try:
        found = points[kind].load()
    except (ImportError, AttributeError) as error:
        remedy = "mend or remove the package that registers it"
        what = f"kind {show(kind)}, registered as {points[kind].value!r} ({type(error).__name__})"
        refuse([Problem(what, "a class that can be loaded", remedy, ("kind",))])
    if not (isinstance(found, type) and issubclass(found, DeclaredDomain)):
        remedy = "mend or remove the package that registers it"
        refuse([Problem(f"kind {show(kind)}, registered as {points[kind].value!r}", "a domain", remedy, ("kind",))])
    return found


def read_domain(written: object) -> object:
    """Read a domain as the class of its kind; what is one already stays what it is."""
    if not isinstance(written, Mapping):
        return written
    if "kind" not in written:
        refuse([Problem("no `kind`", "a `kind:` that says what this is", "add `kind:`")])
    return domain_class(str(written["kind"])).model_validate(written)


Domain = Annotated[SerializeAsAny[DeclaredDomain], BeforeValidator(read_domain)]


def domain_model(written: Any) -> type[DeclaredDomain]:
    """Return the class by whose keys a domain is explained: that of its kind, else the base."""
    kind = written.get("kind") if isinstance(written, dict) else None
    known = isinstance(kind, str) and kind in domain_kinds()
    return domain_class(str(kind)) if known else DeclaredDomain
