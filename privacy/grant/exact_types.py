"""What a grant lets in: copies of frozen values in which every part has exactly the type that its class declares.

A subclass could bring methods of its own to where exact counts are, and so could a function that a caller puts into
an object's own dictionary, past its frozen class. So a query is walked part by part, by the declared types of its
fields, and made again from parts that nobody else holds: constructing a part checks it again, and nothing that was
changed behind it, or cached in it, comes along. What the walk does not know is refused. (Code in this process can
always go round the public interface; docs/derivations.md, section 9.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.release.tables.tables import MinimumFrequency
from privacy.federation.rounds import SiteAnswers
from privacy.learning.layout import PrivateRows
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.cell_values import PrivateCellValues
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.marginals.key_units import PrivateKeyRows, PrivateKeys

HANDLES: Final = frozenset(
    {
        PrivateCounts,
        SparseCounts,
        PrivateCellSums,
        PrivateCellValues,
        PrivateKeys,
        PrivateKeyRows,
        PrivateRows,
        SiteAnswers,
    }
)
"""Only their functions, which a grant alone calls, are taken as they are."""
_NAMES: Final = {"Clique": Clique, **{each.__name__: each for each in (*HANDLES, MinimumFrequency)}}
"""What the fields of a query are declared by in modules that import it for their types alone."""
SCALARS: Final = frozenset({Fraction, Decimal, int, float, str, bool, NoneType})
"""What has no parts."""


def rebuilt(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return a copy of a value in which each part has exactly the type that is declared.

    Args:
        name: of the value, for messages.
        value: what a caller gave.
        allowed: what it may be: classes, `tuple[...]`, arrays, literals; no subclass of them.
    Raises:
        ValueError: a value, or a part of it, of another type, or one that keeps more than its fields.
    """
    kind = type(value)
    declared = [each for each in allowed if _class_of(each) is kind]
    if not declared:
        kinds = dict.fromkeys(_class_of(each).__name__ for each in allowed if _class_of(each) is not NoneType)
        raise ValueError(f"{name} must be {' or '.join(kinds) or 'None'} itself, not {kind.__name__}")
    if kind is tuple:
        return _rebuilt_tuple(name, value, declared[0])
    if kind is np.ndarray:
        return _rebuilt_array(name, value, declared)
    if kind in SCALARS:
        _check_literal(name, value, declared)
        return value
    if kind is MinimumFrequency:
        return _rebuilt_rule(name, value)
    return _rebuilt_value(name, value)


def _rebuilt_value(name: str, value: Any) -> Any:
    """Make a frozen dataclass again from its parts."""
    kind = type(value)
    if not is_dataclass(value) or not kind.__dataclass_params__.frozen:
        raise ValueError(f"{name}: {kind.__name__} is not a frozen value")
    _check_own(name, value)
    parts = {}
    for part, declared in _declared(cast(Hashable, kind)).items():
        own = getattr(value, part)
        opaque = kind in HANDLES and _class_of(declared[0]) is Callable
        parts[part] = own if opaque else rebuilt(f"{name}.{part}", own, declared)
    return kind(**parts)


def _rebuilt_tuple(name: str, value: tuple[Any, ...], declared: Any) -> tuple[Any, ...]:
    parts = get_args(declared)
    if parts[-1:] == (Ellipsis,):
        parts = parts[:1] * len(value)
    if len(parts) != len(value):
        raise ValueError(f"{name} must have {len(parts)} parts, not {len(value)}")
    paired = enumerate(zip(value, parts, strict=True))
    return tuple(rebuilt(f"{name}[{place}]", each, _alternatives(part)) for place, (each, part) in paired)


def _rebuilt_array(name: str, value: NDArray[Any], declared: list[Any]) -> NDArray[Any]:
    """Copy an array of declared numbers; one of objects could bring code of its own."""
    dtypes = [get_args(get_args(each)[1])[0] for each in declared]
    wanted = [get_origin(each) or each for each in dtypes]
    if not any(np.issubdtype(value.dtype, each) for each in wanted) or value.dtype.hasobject:
        kinds = " or ".join(each.__name__ for each in wanted)
        raise ValueError(f"{name} must hold {kinds}, not {value.dtype}")
    copy = np.array(value, order="C")
    copy.flags.writeable = False
    return copy


def _check_literal(name: str, value: Any, declared: list[Any]) -> None:
    """Refuse a text that is none of those that are declared, where they are."""
    if all(get_origin(each) is Literal for each in declared):
        values = [value for each in declared for value in get_args(each)]
        if value not in values:
            raise ValueError(f"{name} must be {' or '.join(map(str, values))}, not {value}")


def _rebuilt_rule(name: str, rule: MinimumFrequency) -> MinimumFrequency:
    """Make a minimum-frequency rule again from plain numbers: a model can be constructed past its own checks."""
    stated = {each: getattr(rule, each) for each in MinimumFrequency.model_fields}
    for each, value in stated.items():
        if type(value) not in (int, str, Decimal, NoneType):
            raise ValueError(f"{name}.{each} must be a plain number, not {type(value).__name__}")
    return MinimumFrequency.model_validate(
        {each: str(value) if isinstance(value, Decimal) else value for each, value in stated.items()}
    )


def _check_own(name: str, value: Any) -> None:
    """Refuse an entry of an object's own dictionary that is neither a field nor what a cached property has left."""
    known = _fields(cast(Hashable, type(value)))
    for entry in getattr(value, "__dict__", {}):
        if entry not in known and not isinstance(getattr(type(value), entry, None), cached_property):
            raise ValueError(f"{name} must keep its fields alone, and not {entry!r} besides")


@cache
def _fields(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


@cache
def _declared(kind: Any) -> Mapping[str, tuple[Any, ...]]:
    """Return what each field of a class may be; those that the class fills in itself are left out."""
    try:
        hints = get_type_hints(kind)
    except NameError:  # a module of ours that imports some of these for their types alone
        hints = get_type_hints(kind, localns=_NAMES)
    return {each.name: _alternatives(hints[each.name]) for each in fields(kind) if each.init}


@cache
def _alternatives(declared: Any) -> tuple[Any, ...]:
    """Return the types that a declaration allows."""
    if get_origin(declared) in (Union, UnionType):
        return tuple(each for part in get_args(declared) for each in _alternatives(part))
    return (declared,)


@cache
def _class_of(declared: Any) -> Any:
    """Return the class that a value of a declared type has."""
    if get_origin(declared) is Literal:
        return type(get_args(declared)[0])
    return get_origin(declared) or declared
