"""Fitters by name: the built-in ones, and those that installed packages register under an entry point group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Any, Final

from contracts.plug_ins import registered
from privacy.generators.generator import CannotGenerate, Generator


@dataclass(frozen=True)
class FitterRegistry:
    """All fitters of one kind of model.

    Args:
        noun: what they are called, and the key of a product that names one.
        built_in: module and class of each built-in one, by name.
    """

    noun: str
    built_in: Mapping[str, str]

    @property
    def group(self) -> str:
        """The entry point group in which packages register theirs."""
        return f"sudare.{self.noun}s"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all, sorted."""
        return tuple(sorted(self._points()))

    def load(self, name: str) -> Any:
        """Return the fitter of that name; only its own module is loaded.

        Raises:
            CannotGenerate: there is none, with the nearest name, or a package that registers it cannot be loaded.
        """
        points = self._points()
        if name not in points:
            near = get_close_matches(name, points, n=1, cutoff=0.5)
            meant = f"; do you mean {near[0]!r}?" if near else "; do: take one of these, or install its package"
            allowed = ", ".join(sorted(points))
            raise CannotGenerate(f"product.{self.noun}: no {self.noun} {name!r}; allowed: {allowed}{meant}")
        point = points[name]
        try:
            return point.load()()
        except (ImportError, AttributeError) as error:
            raise CannotGenerate(
                f"product.{self.noun}: {name!r} is registered as {point.value!r}, which cannot be loaded "
                f"({type(error).__name__}); do: mend or remove the package that registers it"
            ) from error

    def names_where(self, holds: Callable[[Any], bool]) -> tuple[str, ...]:
        """Return the names of those of which something holds, sorted; of one that cannot be loaded it does not."""

        def fits(name: str) -> bool:
            try:
                return holds(self.load(name))
            except CannotGenerate:
                return False

        return tuple(name for name in self.names if fits(name))

    def _points(self) -> dict[str, EntryPoint]:
        """Return the entry point of each name; a built-in name cannot be taken by a package."""
        found = {point.name: point for point in registered(self.group)}
        return {**found, **{name: EntryPoint(name, place, self.group) for name, place in self.built_in.items()}}


GENERATORS: Final = FitterRegistry(
    "generator",
    {
        "ae": "privacy.generators.p3gm:AutoEncoder",
        "aim": "privacy.generators.aim:Aim",
        "auto": "privacy.generators.auto:Auto",
        "class_pictures": "privacy.generators.class_pictures:ClassPictures",
        "dp_gm": "privacy.generators.dp_gm:ClusteredVae",
        "fixed": "privacy.generators.fixed:Fixed",
        "gaussian_copula": "privacy.generators.gaussian_copula:GaussianCopula",
        "independent": "privacy.generators.independent:Independent",
        "latent_factors": "privacy.generators.latent_factors:LatentFactorGenerator",
        "linked_tables": "privacy.generators.linked_tables:LinkedTablesGenerator",
        "mst": "privacy.generators.mst:MaximumSpanningTree",
        "p3gm": "privacy.generators.p3gm:P3gm",
        "private_evolution": "privacy.generators.private_evolution:PrivateEvolution",
        "privbayes": "privacy.generators.privbayes:PrivBayes",
        "vae": "privacy.generators.vae:Vae",
    },
)
TRAINERS: Final = FitterRegistry(
    "trainer",
    {
        "anonymized_learning": "privacy.classifiers.anonymized_learning:AnonymizedLearning",
        "anonymizing_first": "privacy.classifiers.anonymizing_first:AnonymizingFirst",
        "dp_sgd": "privacy.classifiers.dp_sgd:DpSgd",
        "learning_first": "privacy.classifiers.learning_first:LearningFirst",
    },
)


def names() -> tuple[str, ...]:
    """Return the names of all generators, sorted."""
    return GENERATORS.names


def generator(name: str) -> Generator[Any]:
    """Return the generator of that name; as `FitterRegistry.load`."""
    made: Generator[Any] = GENERATORS.load(name)
    return made
