"""Numbers with intervals from a synthetic version alone: regressions, counts, and any analysis of its copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import Finding, SpecRefused
from sudare.words import call

if TYPE_CHECKING:
    import polars as pl

    from privacy.inference.combining import Combined

UNMEASURED: Final = ("refuse", "model")
Analysis = Callable[["pl.DataFrame"], "float | tuple[float, float]"]
"""Of a table of rows: a number, or a number and its variance as if the rows were a sample."""


def regression(
    folder: Path, formula: str, *, target: str, level: float, missing: Mapping[str, float] | None, unmeasured: str
) -> pl.DataFrame:
    """Regress by least squares; see `Release.regression`."""

    def found() -> pl.DataFrame:
        import polars as pl

        from tasks.inference import NoisyVersion

        _check_unmeasured(unmeasured)
        terms: dict[str, Any] = {"target": target, "level": level, "missing": missing or {}}
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
    if len(files) < 2:
        found, remedy = "a version without copies", "ask for a release with `copies: 20`, or use release.regression"
        raise SpecRefused([Finding(str(folder), "version", found, "a synthetic version with copies", remedy)])

    def found_by(file: Path) -> tuple[float, float | None, int]:
        import polars as pl

        frame = pl.read_parquet(file)
        made = analysis(frame)
        value, variance = made if isinstance(made, tuple) else (made, None)
        return float(value), None if variance is None else float(variance), frame.height

    # What the analysis itself raises is its caller's, and passes as it is: it saw published rows alone.
    (first, _, _), *others = (found_by(file) for file in files)

    def combined_of() -> Combined:
        from privacy.inference.combining import combined

        within = [variance for _, variance, _ in others if variance is not None]
        share = others[0][2] / rows if rows > 0 else 1.0
        values = [value for value, _, _ in others]
        return combined(first, values, within or None, target=target, level=level, rows_ratio=share)

    return call(combined_of)


def _check_unmeasured(written: str) -> None:
    if written not in UNMEASURED:
        raise SpecRefused([Finding("the call", "unmeasured", repr(written), " or ".join(UNMEASURED))])
