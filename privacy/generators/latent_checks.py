"""What options of latent generators must be beside the columns: those that would do nothing are refused.

They stand apart from the options, which a plan of tables loads too: refusals load what generators share.
"""

from __future__ import annotations

from collections.abc import Mapping

from privacy.generators.generator import CannotGenerate
from privacy.generators.latent_options import LatentOptions, PhasedOptions
from privacy.learning.groups import MOST_GROUPS
from privacy.learning.layout import RowLayout


def check_numbers(
    layout: RowLayout, label: str | None, written: Mapping[str, str], *, pictures: bool = False
) -> None:
    """Refuse options of numbers where no column holds any: they would do nothing.

    Args:
        layout: of the columns.
        label: is none of them.
        written: options and what is written of them, but for those that stand as they do without being written.
        pictures: whether pictures are numbers too.
    Raises:
        CannotGenerate: with the first such option.
    """
    kinds = ("number", "array") if pictures else ("number",)
    others = [each for each in layout.columns if each.name != label]
    if not written or any(each.kind in kinds for each in others):
        return
    option, value = next(iter(written.items()))
    wanted = "of numbers, days or pictures" if pictures else "of numbers or days in bins"
    names = ", ".join(each.name for each in others)
    raise CannotGenerate(
        f"options.{option}: {value}, and no column {wanted} among {names}; allowed: beside at least one such column; "
        f"do: leave {option} out, or add such a column to columns"
    )


def check_loss(layout: RowLayout, options: LatentOptions) -> None:
    """Refuse a loss of numbers where no column holds numbers or pixels.

    Raises:
        CannotGenerate: with what to do.
    """
    written = {} if options.number_loss == "cross_entropy" else {"number_loss": options.number_loss}
    check_numbers(layout, options.label, written, pictures=True)


def check_phased(layout: RowLayout, options: PhasedOptions) -> None:
    """Refuse options that would do nothing, and more components than there may be.

    Raises:
        CannotGenerate: with what to do.
    """
    written = {} if options.numbers == "auto" else {"numbers": options.numbers}
    check_numbers(layout, options.label, written)
    check_loss(layout, options)
    _check_components(layout, options)
    if options.labels != "auto" and options.label is None:
        raise CannotGenerate(
            f"options.labels: {options.labels}, and no label; allowed: beside label; do: write label, or leave "
            "labels out"
        )


def _check_components(layout: RowLayout, options: PhasedOptions) -> None:
    """Refuse more components than a mixture holds."""
    treated, components = options.mixture_of(layout)
    owner = options.label if treated == "components" else None
    cells = 1 if owner is None else int(layout.column(owner).table.shape[0])
    if cells * components > MOST_GROUPS:
        raise CannotGenerate(
            f"options.components: {components} for each of the {cells:,} cells of {owner!r}; allowed: "
            f"{MOST_GROUPS:,} of all labels, {MOST_GROUPS // cells} of each; do: write fewer"
        )
