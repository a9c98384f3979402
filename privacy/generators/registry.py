"""Generators by name: the built-in ones, and those that installed packages register as `sudare.generators`."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from privacy.generators.generator import CannotGenerate, Generator

GROUP: Final = "sudare.generators"
_BUILT_IN: Final = {
    "ae": "privacy.generators.p3gm:AutoEncoder",
    "aim": "privacy.generators.aim:Aim",
    "class_gaussian": "privacy.generators.class_gaussian:ClassGaussian",
    "dp_gm": "privacy.generators.dp_gm:ClusteredVae",
    "fixed": "privacy.generators.fixed:Fixed",
    "independent": "privacy.generators.independent:Independent",
    "mst": "privacy.generators.mst:MaximumSpanningTree",
    "p3gm": "privacy.generators.p3gm:P3gm",
    "privbayes": "privacy.generators.privbayes:PrivBayes",
    "vae": "privacy.generators.vae:Vae",
}


def names() -> tuple[str, ...]:
    """Return the names of all generators, sorted."""
    return tuple(sorted(_known()))


def generator(name: str) -> Generator[Any]:
    """Return the generator of that name; only its own module is loaded.

    Raises:
        CannotGenerate: there is none, with the nearest name, or a package that registers it cannot be loaded.
    """
    known = _known()
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        meant = f"; do you mean {near[0]!r}?" if near else "; do: take one of these, or install its package"
        raise CannotGenerate(f"product.generator: no generator {name!r}; allowed: {', '.join(sorted(known))}{meant}")
    point = known[name]
    try:
        made: Generator[Any] = point.load()()
    except (ImportError, AttributeError) as error:
        raise CannotGenerate(
            f"product.generator: {name!r} is registered as {point.value!r}, which cannot be loaded "
            f"({type(error).__name__}); do: mend or remove the package that registers it"
        ) from error
    return made


def _known() -> dict[str, EntryPoint]:
    """Return the entry point of each name; a built-in name cannot be taken by a package."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {**found, **{name: EntryPoint(name, place, GROUP) for name, place in _BUILT_IN.items()}}
