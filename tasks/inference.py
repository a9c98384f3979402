"""Regressions and marginals of a synthetic version from its published noisy marginals alone, with their intervals.

    1. record, measurements and model are read, each only if its SHA-256 is that of the manifest
    2. sums over cells come of the noisy marginals (`privacy.inference.components`), with exact variances
    3. what no marginal tells comes of the model; then there is no interval, and the result names the columns

No row is read, neither confidential nor synthetic, and nothing is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Final, NoReturn

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding, Refused, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.release.synthetic import unusable
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.arrays import Floats
from privacy.inference.combining import POPULATION, TABLE, check_terms
from privacy.inference.components import Components
from privacy.inference.least_squares import NoiseTooLarge, least_squares, reach
from privacy.marginals.count_noise import variance
from privacy.marginals.estimation import Measured
from privacy.marginals.graph import CellDomain
from tasks.products.synthetic.formula import parse_formula
from tasks.products.version_records import RECORD, published_record
from tasks.records.draws.marginal import MarginalDraw
from tasks.records.model.draw_kinds import draw_checks
from tasks.records.strict_json import printable
from tasks.verification.files.folder import ManifestFiles, open_version
from tasks.verification.fitted.model_reader import read_published_model

_MARGINAL: Final = "marginal"
_MOST_COLUMNS: Final = 6
_MOST_CELLS: Final = 10**6


@dataclass(frozen=True)
class EstimateWithInterval:
    """A number with its interval.

    Args:
        name: of what.
        estimate: the number.
        standard_error: against the target; None where no interval can be given.
        lower, upper: the ends; None where no interval can be given.
        unmeasured: the columns that were not measured together, and in whose place the model stands.
    """

    name: str
    estimate: float
    standard_error: float | None
    lower: float | None
    upper: float | None
    unmeasured: tuple[Clique, ...] = ()


class NoisyVersion:
    """A synthetic version, as far as its noisy marginals tell of sums over rows.

    Args:
        folder: the version's folder.
    Raises:
        SpecRefused: it is no synthetic version, has no noisy marginals, or a model that was accepted by a private
            test; or its files are not those of its manifest.
    """

    def __init__(self, folder: Path) -> None:
        path = open_version(folder)
        files = ManifestFiles(path)
        files.open(RECORD).close()
        record, meaning = published_record(path)
        replay, name = record.replay, printable(meaning.product.generator)
        draws = [draw for draw in replay.draws if isinstance(draw, MarginalDraw)]
        barred = unusable(meaning.product, "interval", where=printable(str(path)), field="version")
        if barred:
            raise SpecRefused(barred)
        if any(draw.bins for draw in draws):
            found = "a version whose bins were joined: its marginals do not have the declared cells"
            self._refuse(path, found, "a version without `bins: private`")
        if not draws:
            self._refuse(path, f"no noisy marginals: {name} measures other things", "a version with noisy marginals")
        measured, heavy = [], False
        for draw in draws:
            event = event_from_json(draw.event)
            if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
                self._refuse(path, f"a marginal with noise of kind {event.kind}", "one that sudare verify holds")
            with files.open(draw.measurements or "") as file:
                noisy, findings = draw_checks(_MARGINAL).read(file.read(), draw, event, meaning, None)
            if noisy is None or findings:
                raise SpecRefused(findings)
            measured.append(Measured(draw.clique, noisy, variance(event)))
            heavy = heavy or isinstance(event, DiscreteLaplace)
        with files.open(replay.model.values) as values, files.open(replay.model.arrays) as arrays:
            model, findings = read_published_model(replay.model, meaning, values.read(), arrays.read())
        if model is None:
            raise SpecRefused(findings)
        total = None if meaning.contract.total is None else meaning.contract.total.value
        self.contract: Contract = meaning.contract
        self.names = meaning.names
        self.heavy_tailed = heavy
        domain = CellDomain.of(meaning.contract, meaning.names)
        self.components = Components(domain, measured, total=total, model=model.marginal)

    @staticmethod
    def _refuse(path: Path, found: str, allowed: str) -> NoReturn:
        raise SpecRefused([Finding(printable(str(path)), "version", found, allowed, "name another version")])

    def regression(
        self, formula: str, *, target: str, level: float, missing: Mapping[str, float], use_model: bool
    ) -> tuple[EstimateWithInterval, ...]:
        """Regress by least squares, the intercept first; see `privacy.inference.least_squares`.

        Args:
            formula: `outcome ~ term + term`; see `formula`.
            target: `table`, the coefficient of the confidential rows; `population`, that of whom they are drawn from.
            level: of the intervals, in (0, 1).
            missing: the number that stands for a missing value, by column.
            use_model: whether coefficients that rest on unmeasured columns are given, without an interval.
        Raises:
            Refused: a formula that cannot be read, noise that hides the terms, or unmeasured columns.
        Privacy: post-processing.
        """
        check_terms(target, level)
        outcome, terms = parse_formula(formula, self.contract, self.names, missing=missing)
        try:
            found = least_squares(self.components, outcome, terms)
        except NoiseTooLarge:
            said = "terms that the noise does not tell apart, or that say the same"
            allowed = "terms whose cells hold more rows than the noise is large"
            remedy = "drop a term of a rare label, or ask the publisher for a larger charge"
            raise Refused([Finding("the call", "formula", said, allowed, remedy)]) from None
        made = []
        for each in found:
            error, ends = each.standard_error(population=target == POPULATION), (None, None)
            if not each.unmeasured:
                ends = each.interval(self._reach(level), population=target == POPULATION)  # type: ignore[assignment]
            made.append(
                EstimateWithInterval(
                    each.name, each.estimate, None if each.unmeasured else error, *ends, each.unmeasured
                )
            )
        _refuse_unmeasured(made, use_model)
        return tuple(made)

    def marginal(
        self, columns: Sequence[str], *, level: float, use_model: bool
    ) -> tuple[Floats, float | None, float]:
        """Return the counts of the cells of columns, their common standard error, and half of the interval's width.

        Args:
            columns: one to six.
            level: of the intervals, in (0, 1).
            use_model: whether counts that rest on unmeasured columns are given, without an interval.
        Raises:
            Refused: unknown columns, too many cells, or columns that were not measured together.
        Privacy: post-processing.
        """
        check_terms(TABLE, level)
        unknown = [name for name in columns if name not in self.names]
        if unknown:
            remedy = nearest(unknown[0], self.names)
            raise Refused([_of_columns(f"the column {unknown[0]!r}", word_list(self.names), remedy)])
        if not columns or len(set(columns)) < len(columns) or len(columns) > _MOST_COLUMNS:
            raise Refused([_of_columns(repr(list(columns)), f"one to {_MOST_COLUMNS} columns, each once", "")])
        domain = self.components.domain
        cells = domain.cells(columns)
        if cells > _MOST_CELLS:
            found = f"{cells:,} cells of {', '.join(columns)}"
            raise Refused([_of_columns(found, f"at most {_MOST_CELLS:,}", "leave out a column")])
        known = domain.canonical(columns)
        values, spread, unmeasured = self.components.table(known)
        _refuse_unmeasured([EstimateWithInterval(" × ".join(columns), 0.0, None, None, None, unmeasured)], use_model)
        values = values.transpose([known.index(name) for name in columns])
        error = None if unmeasured else sqrt(spread)
        return values, error, self._reach(level) * (error or 0.0)

    def _reach(self, level: float) -> float:
        """Return how many standard errors an interval reaches to either side."""
        return reach(level, heavy_tailed=self.heavy_tailed)


def _refuse_unmeasured(made: Sequence[EstimateWithInterval], use_model: bool) -> None:
    """Refuse results that rest on columns which were not measured together, each by its name."""
    findings = []
    for each in made:
        if each.unmeasured and not use_model:
            pairs = ", ".join(" × ".join(columns) for columns in each.unmeasured)
            found = f"{each.name}: it rests on columns that were not measured together: {pairs}"
            remedy = (
                "ask for a release that measures them, or write unmeasured='model' for a value without an interval"
            )
            findings.append(Finding("the call", "columns", found, "columns that were measured together", remedy))
    if findings:
        raise Refused(findings)


def _of_columns(found: str, allowed: str, remedy: str) -> Finding:
    return Finding("the call", "columns", found, allowed, remedy)
