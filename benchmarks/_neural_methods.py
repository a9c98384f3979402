"""Which generators the neural benchmark runs, with which options; those that are not registered are left out, aloud.

Options are the generators' defaults, but for what must be declared: the label, and about how many rows there are.
No number was chosen by a score on rows that are reported. Those of `class_pictures` (its shares, dimensions,
frequencies, clip, shrinkage and deformations) were chosen on MNIST's training pictures, 50,000 to learn from and
the other 10,000 to score; its test pictures were read once, at the end. How many components a label has was chosen
on the same 50,000 and 10,000 at epsilon 10, and the test pictures were read once more, at that epsilon. That numbers
are stretched (`scale: measured`) was wanted because ESR scored badly with wide bounds; by how much was settled on
made-up waves with bursts (autoregressive, in 0.5 to 20 % of their range), made-up heavy-tailed tables, Bank Marketing
and the American Community Survey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks._neural_fit import Method
from benchmarks._neural_free import FREE, VARIANTS, registered
from benchmarks.results import Setting
from privacy.generators.calibration import generator, names
from privacy.generators.latent import PhasedOptions
from privacy.learning.layout import RowLayout

FEW_BINS: Final = 16
NEURAL: Final = ("p3gm", "ae", "vae", "dp_gm")
MARGINAL: Final = ("aim", "mst", "privbayes")
GENERATORS: Final = ("class_pictures", *NEURAL, *VARIANTS, *MARGINAL, *FREE)
MOST_COLUMNS: Final = {"aim": 40, "privbayes": 40, "mst": 100}
"""Beyond these a fit takes from half an hour to hours."""


def methods(table: str, label: str, columns: int, rows: int, asked: Sequence[str] | None) -> list[Method]:
    """Return the methods for a table.

    Args:
        table: its name.
        label: the column that is predicted.
        columns: values of a row; of a picture each pixel is one.
        rows: that the generator sees; rounded to thousands it counts as declared.
        asked: generators that are wanted; all of them without it.
    """
    found = []
    for name in asked or GENERATORS:
        if registered(name) not in names():
            print(f"{table}: {name} is left out: no generator of that name is registered")
        elif columns > MOST_COLUMNS.get(name, columns):
            print(f"{table}: {name} is left out: {columns} columns are too many for it")
        else:
            found.append(_method(name, label, max(1000, round(rows, -3))))
    return found


def variant(method: Method, layout: RowLayout) -> dict[str, Setting]:
    """Say which of P3GM's variants a number is of; nothing of other generators."""
    options = generator(registered(method.generator)).options.model_validate(dict(method.options))
    if not isinstance(options, PhasedOptions):
        return {}
    labels, components = options.mixture_of(layout)
    of = "in all" if labels == "joined" else "of each label"
    return {"variant": f"labels: {labels}, {components} components {of}, number_loss: {options.number_loss}"}


def _method(name: str, label: str, rows: int) -> Method:
    """Give a generator those options that it has."""
    wanted: dict[str, Any] = {"label": label, "rows_about": rows}
    known = generator(registered(name)).options.model_fields
    options = {option: value for option, value in wanted.items() if option in known}
    options |= VARIANTS[name][1] if name in VARIANTS else {}
    return Method(name, options, FEW_BINS if name in MARGINAL else None)
