"""Numbers with intervals from a synthetic version alone: regressions, counts, and any analysis of its copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from contracts.errors import Finding, SpecRefused
from sudare.words import call

if TYPE_CHECKING:
    import polars as pl

    from privacy.inference.combining import Combined

_LONGEST_SHOWN: Final = 60
UNMEASURED: Final = ("refuse", "model")
Analysis = Callable[["pl.DataFrame"], "tuple[float, float]"]
"""Of a table of rows: an estimate, and its squared standard error in these rows as if they were a sample."""
_PAIR: Final = "(estimate, variance), the variance being the squared standard error of the estimate in these rows"
_LARGEST_RESULT: Final = 1e100
"""Of an estimate or variance: its square is still a number."""
_LARGEST_MISSING: Final = 1e15
"""Of what stands for a missing value: the numbers of a contract have 15 digits at most."""


def regression(
    folder: Path, formula: str, *, target: str, level: float, missing: Mapping[str, float] | None, unmeasured: str
) -> pl.DataFrame:
    """Regress by least squares; see `Release.regression`."""
    if not isinstance(formula, str):
        _refuse("formula", _shown(formula), "a text such as 'income ~ age + sex[female]'")
    level, stand_ins = _level(level), _stand_ins(missing)

    def found() -> pl.DataFrame:
        import polars as pl

        from tasks.inference import NoisyVersion

        _check_unmeasured(unmeasured)
        terms: dict[str, Any] = {"target": target, "level": level, "missing": stand_ins}
        made = NoisyVersion(folder).regression(formula, **terms, use_model=unmeasured == "model")
        return pl.DataFrame(
            {
                "term": [each.name for each in made],
                "estimate": [each.estimate for each in made],
                "standard_error": pl.Series([each.standard_error for each in made], dtype=pl.Float64),
                "lower": pl.Series([each.lower for each in made], dtype=pl.Float64),
                "upper": pl.Series([each.upper for each in made], dtype=pl.Float64),
                "rests_on": [", ".join(" × ".join(pair) for pair in each.unmeasured) for each in made],
            }
        )

    return call(found)


def marginal(folder: Path, columns: Sequence[str], *, level: float, unmeasured: str) -> pl.DataFrame:
    """Count cells; see `Release.marginal`."""
    columns, level = _columns(columns), _level(level)

    def found() -> pl.DataFrame:
        import numpy as np
        import polars as pl

        from tasks.inference import NoisyVersion

        _check_unmeasured(unmeasured)
        version = NoisyVersion(folder)
        terms: dict[str, Any] = {"level": level, "use_model": unmeasured == "model"}
        values, error, width = version.marginal(columns, **terms)
        labels = np.meshgrid(
            *(np.array(version.contract.column(name).labels, dtype=object) for name in columns), indexing="ij"
        )
        counts = values.ravel()
        known = error is not None
        return pl.DataFrame(
            {
                **{name: cells.ravel().tolist() for name, cells in zip(columns, labels, strict=True)},
                "count": counts,
                "standard_error": pl.Series([error] * counts.size, dtype=pl.Float64),
                "lower": pl.Series(counts - width if known else [None] * counts.size, dtype=pl.Float64),
                "upper": pl.Series(counts + width if known else [None] * counts.size, dtype=pl.Float64),
            }
        )

    return call(found)


def over_copies(
    folder: Path, files: Sequence[Path], analysis: Analysis, *, target: str, level: float, rows: float
) -> Combined:
    """Combine one analysis of the rows and of each copy; see `Release.combine`.

    Args:
        folder: the version's folder, for who is refused.
        files: the rows, then the copies.
        analysis: what is done with each.
        target, level: as of `Release.combine`.
        rows: public or estimated number of rows of the confidential table.
    """
    level = _level(level)
    if not callable(analysis):
        remedy = (
            "write a function of the rows, such as lambda rows: (rows['age'].mean(), rows['age'].var() / len(rows))"
        )
        _refuse("analysis", _shown(analysis), "a function that takes a Polars frame of rows", remedy)
    if len(files) < 2:
        found, remedy = "a version without copies", "ask for a release with `copies: 20`, or use release.regression"
        raise SpecRefused([Finding(str(folder), "version", found, "a synthetic version with copies", remedy)])

    def found_by(file: Path) -> tuple[float, float, int]:
        import polars as pl

        frame = pl.read_parquet(file)
        made = analysis(frame)
        return *_pair(made), frame.height

    # What the analysis itself raises is its caller's, and passes as it is: it saw published rows alone.
    (first, _, _), *others = (found_by(file) for file in files)

    def combined_of() -> Combined:
        from privacy.inference.combining import combined

        values, within = [value for value, _, _ in others], [variance for _, variance, _ in others]
        share = others[0][2] / rows if rows > 0 else 1.0
        return combined(first, values, within, target=target, level=level, rows_ratio=share)

    return call(combined_of)


def _level(written: object) -> float:
    """Return the level of an interval as a number; its range is for the privacy layer to check."""
    if not _is_number(written):
        _refuse("level", _shown(written), "a number above 0 and below 1, such as 0.95")
    return float(written)  # type: ignore[arg-type]


def _stand_ins(missing: object) -> dict[str, float]:
    """Return what stands for missing values, by column, as numbers."""
    if missing is None:
        return {}
    if not isinstance(missing, Mapping) or not all(isinstance(name, str) for name in missing):
        remedy = "name the column: missing={'age': 0}"
        _refuse("missing", _shown(missing), "a number for each column, by its name", remedy)
    for name, number in missing.items():
        if not _is_number(number) or not _is_within(number, _LARGEST_MISSING):
            allowed = f"a number from -{_LARGEST_MISSING:g} to {_LARGEST_MISSING:g}"
            remedy = f"write a number, without quotes: missing={{{name!r}: 0}}"
            _refuse("missing", f"{_shown(number)} for {name!r}", allowed, remedy)
    return {name: float(number) for name, number in missing.items()}


def _columns(written: object) -> list[str]:
    """Return the columns of a table as a list of names."""
    if isinstance(written, str):
        _refuse("columns", f"the text {written!r}", "a list of columns", f"write [{written!r}]")
    if not isinstance(written, Sequence) or not all(isinstance(name, str) for name in written):
        _refuse("columns", _shown(written), "a list of columns, each a text", "write ['sex', 'income'], for example")
    return list(written)


def _shown(written: object) -> str:
    """Return what was written, as far as a message has room for it."""
    text = repr(written)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… (of type {type(written).__name__})"


def _pair(made: object) -> tuple[float, float]:
    """Return what an analysis gave as an estimate and a variance.

    A number alone is refused: the rows of each copy are sampled, and only its variance says how much of the result
    is their sampling. Values are not named, only what they are.
    """
    if _is_number(made):
        _refuse("analysis", "a number without its variance", _PAIR, "give var / n of a mean, for example")
    if not isinstance(made, tuple) or len(made) != 2:
        size = f" of {len(made)}" if isinstance(made, tuple | list) else ""
        _refuse("analysis", f"a result of type {type(made).__name__}{size}", _PAIR, "return two numbers in brackets")
    for name, number in zip(("an estimate", "a variance"), made, strict=True):
        remedy = "return a number that the rows and every copy have"
        if not _is_number(number):
            _refuse("analysis", f"{name} of type {type(number).__name__}", _PAIR, remedy)
        if not _is_within(number, _LARGEST_RESULT):
            allowed = f"numbers from -{_LARGEST_RESULT:g} to {_LARGEST_RESULT:g}"
            _refuse("analysis", f"{name} that is infinite, no number, or too large", allowed, remedy)
    if made[1] < 0:
        _refuse("analysis", "a variance below 0", _PAIR, "give var / n of a mean, for example")
    return float(made[0]), float(made[1])


def _is_number(written: object) -> bool:
    # To Python a truth value is a whole number. Here it is a slip.
    return isinstance(written, Real | Decimal) and not isinstance(written, bool)


def _is_within(number: Any, largest: float) -> bool:
    """Say whether a number is finite and at most so large, whatever its type."""
    try:
        return isfinite(float(number)) and abs(float(number)) <= largest
    except (OverflowError, ValueError):
        return False


def _refuse(field: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    raise SpecRefused([Finding("the call", field, found, allowed, remedy)])


def _check_unmeasured(written: str) -> None:
    if written not in UNMEASURED:
        raise SpecRefused([Finding("the call", "unmeasured", repr(written), " or ".join(UNMEASURED))])
