"""A plan that follows from its spec alone: nothing is chosen for it, and its noise is that of the spec's epsilon."""

from __future__ import annotations


class SpecPlan:
    """The plan of a product without a generator: what `tasks.products` asks of every plan, and it has none of."""

    @property
    def noise_epsilon(self) -> None:
        """The noise is planned for the spec's own epsilon."""
        return None

    @property
    def options(self) -> None:
        """No product of this kind has any."""
        return None
