"""The kinds of domains: those below, and those that installed packages register as `sudare.domains`.

A domain is read as the class of its `kind`. A built-in kind cannot be taken by a package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, SerializeAsAny
from pydantic_core import PydanticCustomError

from contracts.domains.categories import CategoryDomain, MappingDomain
from contracts.domains.domain import DeclaredDomain
from contracts.domains.image import ImageDomain
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain
from contracts.domains.text import TextDomain
from contracts.plug_ins import PlugInAway, find, others
from contracts.reading.scalars import Problem, nearest, refuse, show

GROUP: Final = "sudare.domains"
_BUILT_IN: Final[Mapping[str, type[DeclaredDomain]]] = {
    "integer": IntegerDomain,
    "decimal": DecimalDomain,
    "date": DateDomain,
    "categories": CategoryDomain,
    "mapping": MappingDomain,
    "image": ImageDomain,
    "text": TextDomain,
}


def domain_kinds() -> tuple[str, ...]:
    """Return the names of all kinds, the built-in ones first."""
    return (*_BUILT_IN, *others(GROUP, dict.fromkeys(_BUILT_IN, "")))


def kinds_for(logical_type: str) -> tuple[str, ...]:
    """Return the kinds of domains that a column of a logical type may have; what cannot be loaded is none."""
    return tuple(kind for kind in domain_kinds() if logical_type in domain_model({"kind": kind}).logical_types)


def domain_class(kind: str) -> type[DeclaredDomain]:
    """Return the class of a kind; a package's is loaded here.

    Raises:
        PydanticCustomError: there is no such kind, or the package that registers it cannot be loaded.
    """
    if kind in _BUILT_IN:
        return _BUILT_IN[kind]
    registered = find(GROUP, {}, kind)
    if registered is None:
        names = domain_kinds()
        remedy = nearest(kind, names) or "install the package that registers this kind of domain"
        refuse([Problem(f"kind {show(kind)}", "one of " + ", ".join(names), remedy, ("kind",))])
    try:
        loaded: type[DeclaredDomain] = registered.load(DeclaredDomain)
    except PlugInAway as error:
        refuse([Problem(f"kind {show(kind)}, {error.found}", error.allowed, error.remedy, ("kind",))])
    return loaded


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
    try:
        return domain_class(str(written["kind"]))
    except (PydanticCustomError, LookupError, TypeError):
        return DeclaredDomain
