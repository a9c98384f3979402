"""Fit one of our generators to rows of codes through a ledger of its own, and sample as many rows as it saw.

What was made is kept in a folder, so that an interrupted benchmark goes on where it was. An account pays, and the
generator reaches the rows through the grant alone. Noise comes from a seed, so that a run can be repeated; what such
a grant gives cannot be published. The clock runs from the plan to the last sampled row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_free import FREE, NoNoise, registered
from benchmarks._neural_tables import Table
from benchmarks._no_seed import no_seed
from contracts.contract.impossible_cells import Clique
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus, best_order
from privacy.accounting.events import PrivacyEvent
from privacy.generators.calibration import generator
from privacy.generators.generator import Fitted, Generator, GeneratorPlan, SynthesisTask
from privacy.grant.grant import Grant, open_grant
from privacy.learning.layout import PrivateRows
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.counts import PrivateCounts
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark

EPSILON: Final = Fraction(1)
DELTA: Final = Fraction(1, 10**5)
BLOCK: Final = "2024"
SOURCE: Final = "file:benchmark"
HASH: Final = "c" * 64
CONTRACT: Final = "b" * 64
SPEC: Final = "a" * 64
RUN: Final = "run-1"


@dataclass(frozen=True)
class Method:
    """A generator with options.

    Args:
        generator: its name in the registry.
        options: its options.
        bins: of a number, where the table leaves them open; as many as it likes for None.
    """

    generator: str
    options: Mapping[str, Any]
    bins: int | None = None


@dataclass(frozen=True, eq=False)
class Made:
    """Made-up rows.

    Args:
        codes: shape (rows, codes of a row).
        report: seconds, cpu_seconds, notes.
    """

    codes: NDArray[np.uint16]
    report: Mapping[str, Any]


class ArrayRows:
    """Handles on rows that lie in memory; what was counted is remembered.

    Args:
        table: the rows.
    """

    def __init__(self, table: Table) -> None:
        self._layout, self._domain, self._codes = table.layout, table.domain, table.codes()
        self._counted: dict[Clique, NDArray[np.int64]] = {}

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique."""
        return tuple(
            PrivateCounts(clique, self._domain.sizes(clique), HASH, CONTRACT, self._counter(clique))
            for clique in cliques
        )

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on the rows."""
        names = self._layout.names if names is None else names
        codes = self._layout.selected(self._codes, names)
        return PrivateRows(self._layout.select(names), HASH, CONTRACT, lambda: codes)

    def _counter(self, clique: Clique) -> Callable[[], NDArray[np.int64]]:
        def count() -> NDArray[np.int64]:
            if clique not in self._counted:
                sizes = self._domain.sizes(clique)
                columns = [self._codes[:, self._layout.code_place(name)].astype(np.int64) for name in clique]
                cells = np.ravel_multi_index(columns, sizes) if clique else np.zeros(len(self._codes), np.int64)
                counts = np.bincount(cells, minlength=int(np.prod(sizes)))
                self._counted[clique] = counts.reshape(sizes).astype(np.int64)
            return self._counted[clique].copy()

        return count


class Kept:
    """Makes rows, and remembers what was made.

    Args:
        folder: where.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def made(
        self,
        method: Method,
        table: Table,
        part: str,
        *,
        seed: int,
        epsilon: Fraction = EPSILON,
        delta: Fraction = DELTA,
    ) -> Made:
        """Fit a generator to the rows and sample as many.

        Args:
            part: which rows of the named table these are; names what is kept.
        """
        about = json.dumps([dict(method.options), str(epsilon), str(delta), seed, method.bins], sort_keys=True)
        name = f"{table.name}-{part}-{method.generator}-{sha256(about.encode()).hexdigest()[:10]}"
        rows, report = self._folder / f"{name}.npz", self._folder / f"{name}.json"
        if not report.exists():
            print(f"running {name} {dict(method.options)}", flush=True)
            made = fitted_rows(method, table, seed=seed, epsilon=epsilon, delta=delta)
            np.savez_compressed(rows, codes=made.codes)
            report.write_text(json.dumps(dict(made.report)))
        return Made(np.load(rows)["codes"], json.loads(report.read_text()))

    def score(self, made_of: Sequence[Any], measure: Callable[[], Any]) -> Any:
        """Return a score, measured once."""
        written = json.dumps(list(made_of), sort_keys=True, default=str)
        kept = self._folder / f"score-{sha256(written.encode()).hexdigest()[:16]}.json"
        if not kept.exists():
            kept.write_text(json.dumps({"of": json.loads(written), "score": measure()}))
        return json.loads(kept.read_text())["score"]


def fitted_rows(method: Method, table: Table, *, seed: int, epsilon: Fraction, delta: Fraction) -> Made:
    """Plan, charge, fit and sample."""
    begun, before = time.perf_counter(), time.process_time()
    with TemporaryDirectory() as folder:
        release = charged(method, table, Path(folder), seed=seed, epsilon=epsilon, delta=delta)
        free = NoNoise(seed) if method.generator in FREE else None
        fitted = release.fit(ArrayRows(table), grant=free)
        codes = fitted.model.sample(len(table), seed=seed)
    report = {
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - before, 1),
        "notes": list(fitted.notes),
    }
    return Made(codes.astype(np.uint16), report)


@dataclass(frozen=True, eq=False)
class Charged:
    """A release that is planned and paid for.

    Args:
        asked: what the generator is asked.
        options: its options.
        plan: its plan.
        grant: opened.
        made: the generator.
    """

    asked: SynthesisTask
    options: Any
    plan: GeneratorPlan
    grant: Grant
    made: Generator[Any]

    def fit(self, rows: ArrayRows, *, grant: Any = None) -> Fitted:
        """Fit; a second time all draws are replayed. Another grant may stand before this one."""
        return self.made.fit(
            self.asked, self.options, self.plan, rows, grant or self.grant, lambda done, what: None, no_seed
        )


def charged(method: Method, table: Table, folder: Path, *, seed: int, epsilon: Fraction, delta: Fraction) -> Charged:
    """Plan, and charge an account of a ledger in `folder`."""
    made = generator(registered(method.generator))
    options = made.options.model_validate(dict(method.options))
    asked = SynthesisTask(table.domain, {}, "add_remove", 1, epsilon, delta, None, table.layout)
    plan = made.plan(asked, options)
    return Charged(asked, options, plan, opened(folder, plan.events, seed=seed, epsilon=epsilon, delta=delta), made)


def opened(folder: Path, events: Sequence[PrivacyEvent], *, seed: int, epsilon: Fraction, delta: Fraction) -> Grant:
    """Open a ledger and an account that pays, reserve the events, and open the grant."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    calculus = RenyiCalculus(best_order(epsilon, delta))
    paid, room = int(epsilon * PICO), int(delta * ATTO)
    terms = AccountTerms("account", "people", BLOCK, "row", "add_remove", calculus, 2 * paid + PICO, room)
    ledger.open_account(terms)
    ledger.bind_source(SOURCE, "people", time_block(BLOCK))
    ledger.reserve(
        ChargeRequest(
            run_key=RUN,
            account="account",
            source=SOURCE,
            release="benchmark",
            spec_digest=SPEC,
            contract_digest=CONTRACT,
            snapshot_hash=snapshot_mark(HASH, SPEC),
            adjacency="add_remove",
            unit="row",
            scope="block",
            rows_per_unit=1,
            events=tuple(events),
            epsilon=paid,
            delta=room,
        )
    )
    return open_grant(ledger, RUN, seeded=SeededBytes(seed))
