"""A published version in Python: its tables, its record, further synthetic rows, and its check."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import Finding, SpecRefused
from sudare import html, inference
from sudare.record import Record
from sudare.table import Table
from sudare.verification import Verification, verify
from sudare.words import call
from tasks.records.relations import kept_relations

if TYPE_CHECKING:
    import polars as pl

    from privacy.inference.combining import Combined

DATA: Final = "data"
_HEX: Final = "0123456789abcdef"


class Release:
    """One version of a release: the folder that was published, and nothing else.

    Args:
        folder: the version's folder.
        key: the public key that checks it, where the workspace is at hand.
        facts: what the run said of it, as `sudare run --json` has it; empty for one that was opened later.
    """

    def __init__(self, folder: str | Path, key: Path | None = None, facts: Mapping[str, Any] | None = None) -> None:
        self._folder, self._key, self._facts = Path(folder), key, dict(facts or {})
        self._record = call(lambda: Record(self._folder))

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self._record["release"])

    @property
    def version(self) -> int:
        """Number of the version."""
        return int(self._record["version"])

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    @property
    def record(self) -> Record:
        """Its audit record."""
        return self._record

    @property
    def epsilon(self) -> Decimal:
        """ε of the release."""
        return Decimal(self._record["replay"]["charge"]["epsilon"])

    @property
    def repeated(self) -> bool:
        """Whether the run found it published, so that nothing was drawn and nothing charged."""
        return bool(self._facts.get("repeated", True))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the run said of it: cost, account, what is left."""
        return MappingProxyType(self._facts)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Its tables by name; of a synthetic version the rows."""
        kind = str(self._record["replay"]["product"]["kind"])
        made = "synthetic rows" if kind == "synthetic" else "table"
        files = sorted((self._folder / DATA).glob("*.parquet"))
        return MappingProxyType({file.stem: Table(file.stem, file, made) for file in files})

    def sample(
        self, n: int, *, where: Mapping[str, str | Sequence[str]] | None = None, seed: str | None = None
    ) -> pl.DataFrame:
        """Sample further rows from the model of a synthetic version; it costs no privacy.

        Args:
            n: how many rows.
            where: the labels that a column may have, by column; a number has those of its bins, such as `40 to 64`.
            seed: up to 32 hex digits; drawn without it. The same seed gives the same rows.
        Raises:
            SpecRefused: this version has no model, or no row meets the condition.
        Privacy: reads published files only.
        """
        conditions = {
            column: [labels] if isinstance(labels, str) else list(labels) for column, labels in (where or {}).items()
        }

        def sampled() -> pl.DataFrame:
            import polars as pl

            from privacy.marginals.portable import PostProcessingSeed
            from tasks.sample import sample

            with TemporaryDirectory(prefix="sudare-sample-") as folder:
                file = Path(folder) / "rows.parquet"
                sample(self._folder, rows=n, where=conditions, seed=PostProcessingSeed(_seed(seed)), to=file)
                return pl.read_parquet(file)

        return call(sampled)

    @property
    def copies(self) -> tuple[Table, ...]:
        """The copies of its synthetic rows, in order; none where there are none."""
        stated = self._record["replay"].get("copies", ())
        paths = [self._folder / DATA / Path(copy["data"]).name for copy in stated]
        return tuple(Table(path.stem, path, "copy of synthetic rows") for path in paths)

    def regression(
        self,
        formula: str,
        *,
        target: str = "table",
        level: float = 0.95,
        missing: Mapping[str, float] | None = None,
        unmeasured: str = "refuse",
    ) -> pl.DataFrame:
        """Regress by least squares from the noisy marginals that this synthetic version publishes.

        Args:
            formula: `income ~ age + sex[female]`: numbers by their column, in the middles of their bins; labels as
                `column[label]`, 1 or 0. An intercept is always in it.
            target: what the intervals hold: `table`, the coefficients of the confidential rows with every number in
                the middle of its bin; `population`, those of the population that the rows are a sample of, likewise,
                with residuals of equal variance. How far bins move a coefficient is in no interval.
            level: of the intervals.
            missing: the number that stands for a missing value, by column.
            unmeasured: `refuse` coefficients that rest on columns which were not measured together, or give those of
                the `model`, without an interval.
        Returns:
            pl.DataFrame: term, estimate, standard_error, lower, upper; rests_on names unmeasured columns.
        Raises:
            SpecRefused, Refused: no synthetic version, a formula that cannot be read, or no honest interval.
        Privacy: reads published files only.
        """
        terms: dict[str, Any] = {"level": level, "missing": missing, "unmeasured": unmeasured}
        return inference.regression(self._folder, formula, target=target, **terms)

    def marginal(self, columns: Sequence[str], *, level: float = 0.95, unmeasured: str = "refuse") -> pl.DataFrame:
        """Count the cells of columns from all noisy marginals that tell of them.

        Args:
            columns: one to six, measured together.
            level, unmeasured: as of `regression`.
        Returns:
            pl.DataFrame: the labels, count, standard_error, lower, upper. Counts are unbiased, and may be negative.
        Raises:
            SpecRefused, Refused: as of `regression`.
        Privacy: reads published files only.
        """
        return inference.marginal(self._folder, columns, level=level, unmeasured=unmeasured)

    def combine(self, analysis: inference.Analysis, *, target: str = "table", level: float = 0.95) -> Combined:
        """Do the same analysis with the rows and with each copy, and give its result an interval.

        Args:
            analysis: of a Polars frame of rows: `(estimate, variance)`. The variance is the squared standard error of
                the estimate in these rows: var / n of a mean. It says what the sampling of the made-up rows adds.
            target, level: as of `regression`, but for values drawn inside the bins. How far bins move a result is in
                no interval.
        Returns:
            Combined: estimate, standard_error, degrees_of_freedom, lower, upper.
        Raises:
            SpecRefused: a version without copies, or a result that is no pair of numbers.
            Refused: an unknown target or level.
        Privacy: reads published files only.
        """
        stated = self._record["replay"]
        files = [table.file for table in self.copies]
        if files:
            files.insert(0, self._folder / DATA / Path(stated["rows"]["data"]).name)
        rows = float(stated["model"]["rows"]) if files else 0.0
        return inference.over_copies(self._folder, files, analysis, target=target, level=level, rows=rows)

    def verify(self, key: str | Path | None = None, *, deep: bool = False) -> Verification:
        """Check it offline; see `sudare.verify`.

        Args:
            key: the publisher's public key, a file; without it that of the workspace which this came from.
            deep: whether a model is fitted again.
        Raises:
            VerificationFailed: something does not hold.
        """
        chosen = key or self._key
        if chosen is None:
            found = Finding(
                "the call", "key", "none", "the publisher's public key, a file", "verify('publisher.pub')"
            )
            raise SpecRefused([found])
        return verify(self._folder, chosen, deep=deep)

    def _lines(self) -> list[tuple[str, str]]:
        charge, relations = self._record["replay"]["charge"], kept_relations(self._record["replay"])
        standing = {True: "was published already; nothing was drawn or charged", False: "published now"}
        return [
            *([("this run", standing[self.repeated])] if self._facts else []),
            ("cost", f"ε = {charge['epsilon']} at δ = {charge['delta']}, account {charge['account']}"),
            ("tables", ", ".join(self.tables) or "none"),
            *([("relations", str(relations))] if relations else []),
            ("where", str(self._folder)),
        ]

    def __repr__(self) -> str:
        """Say what it cost, and what is in it."""
        title = f"{self.name} v{self.version}"
        return "\n".join([title, *(f"{name}: {words}" for name, words in self._lines())])

    def _repr_html_(self) -> str:
        tables = list(self.tables.values())
        first = tables[0]._repr_html_() if tables else ""
        return html.facts(f"{self.name} v{self.version}", self._lines()) + first


def _seed(written: str | None) -> int:
    if written is None:
        return secrets.randbits(128)
    if not 1 <= len(written) <= 32 or set(written.lower()) - set(_HEX):
        raise SpecRefused([Finding("the call", "seed", repr(written), "up to 32 hex digits")])
    return int(written, 16)
