"""A workspace in Python: the ledger with its accounts, the release store, and the runs that fill it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from contracts.errors import Finding, SpecRefused
from sudare import html
from sudare.account import Account, bind, bound_name, with_ledger
from sudare.contract import Contract
from sudare.delivery import delivered, is_name, rows_file
from sudare.plan import Plan
from sudare.release import Release
from sudare.spec import Spec, as_written, names_rows, place_of, planned_file, run_file, spec_of
from sudare.words import call
from tasks.storage.manifest import version_folder
from tasks.storage.workspace.environment import switch_telemetry_off
from tasks.storage.workspace.settings import Workspace as Place

if TYPE_CHECKING:
    from flows.outcome import Outcome
    from privacy.ledger.ledger import Ledger

SpecLike = Spec | Mapping[str, Any] | str | Path


class Workspace:
    """A workspace: settings, keys, ledger and releases.

    Args:
        path: its folder, or one below it; `Workspace.init` makes a new one.
    Raises:
        WorkspaceRefused: there is none, or its settings cannot be followed.
    """

    def __init__(self, path: str | Path) -> None:
        switch_telemetry_off()
        self._place = call(lambda: Place.open(Path(path)))

    @classmethod
    def init(cls, path: str | Path) -> Workspace:
        """Make a workspace in a folder, or open the one that is there.

        Raises:
            WorkspaceRefused: the folder cannot be written.
        """

        def made() -> None:
            if not (Path(path) / "sudare.toml").exists():
                place = Place.create(Path(path))
                place.open_ledger().close()

        call(made)
        return cls(path)

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._place.root

    @property
    def public_key(self) -> Path:
        """The file of its public key, for those who verify what it publishes."""
        return self._place.public_key_file

    @property
    def accounts(self) -> tuple[Account, ...]:
        """Its accounts, by name."""
        names = with_ledger(self._place, lambda ledger: [state.terms.name for state in ledger.accounts()])
        return tuple(Account(self._place, name) for name in names)

    def account(self, name: str) -> Account:
        """Return an account.

        Raises:
            LedgerRefusal: there is none of that name; with the names there are.
        """
        with_ledger(self._place, lambda ledger: ledger.account(name))
        return Account(self._place, name)

    def open_account(
        self,
        name: str,
        *,
        population: str,
        block: str | int,
        unit: str,
        adjacency: str,
        calculus: str,
        epsilon: str | int | float | Decimal,
        delta: str | int | float | Decimal = "0",
        selection_delta: str | int | float | Decimal = "0",
        source: str | Path | None = None,
        reopen: bool = False,
    ) -> Account:
        """Open an account; asking again with the same terms changes nothing.

        Args:
            name: its name.
            population: the people whose loss is bounded.
            block: the days that it is about: 1994, 2026-Q1, A..B, or lifetime.
            unit: `row`, or the name of an id column.
            adjacency: `add_remove` or `replace_one`.
            calculus: how losses add up, `pure` or `renyi`.
            epsilon: the cap on ε; after the first charge it never changes.
            delta: the δ at which the cap is stated, above 0 for `renyi`.
            selection_delta: the part of δ that is set aside for selections of keys that nobody declared.
            source: also bind this source; as for `bind`.
            reopen: whether it is opened again under other terms, if nothing was ever charged to it.
        Raises:
            LedgerRefusal: it is open under other terms, or the source is bound to other people; nothing is opened.
            AmountRefused: a number is none that an account can have.
        """
        from console.budget import account_terms
        from contracts.periods.time_blocks import time_block
        from tasks.checkpoints import check_no_copy, check_not_forgotten

        def opened(ledger: Ledger) -> None:
            days, cap, at, aside = time_block(str(block)).text, str(epsilon), str(delta), str(selection_delta)
            terms = account_terms(name, population, days, unit, adjacency, calculus, cap, at, selection_delta=aside)
            sources = () if source is None else (bound_name(self._place, source),)
            check_not_forgotten(ledger, self._place.releases)
            check_no_copy(ledger, population, *sources)
            ledger.open_account(terms, reopen=reopen, sources=sources)

        with_ledger(self._place, opened)
        return Account(self._place, name)

    def bind(self, source: str | Path, *, population: str, block: str | int, by: str | None = None) -> None:
        """Bind a source to the people and the days that its rows are about, for good.

        Args:
            source: the name of rows in memory ("visits"); a file, a folder (`./visits`), or an address.
            population: the people.
            block: the days.
            by: the column that tells a row's day, for releases by period.
        Raises:
            LedgerRefusal: it is bound to others.
        """
        bind(self._place, source, population=population, block=block, by=by)

    def plan(
        self, spec: SpecLike, *, rows: int | None = None, period: str | None = None, aims: Sequence[str] = ()
    ) -> Plan:
        """Say what a release would cost, how far off it would be, and whether the account holds it.

        Args:
            spec: a `Spec`, a dict of its keys, or the path of a YAML file.
            rows: about how many rows there are, if that is public.
            period: which period, for a spec with `period`.
            aims: how exact it shall be, such as "±5% where count >= 1000"; then the plan is one at the least epsilon
                that is enough, whatever the spec's own is.
        Raises:
            SpecRefused: with every finding.
        Privacy: reads no data.
        """
        read = spec_of(spec)

        def planned(file: Path) -> Plan:
            from console.plan import plan_object
            from flows.request import read_request

            request = read_request(file, self._place, period)
            later = not names_rows(read)
            return Plan(plan_object(request, self._place, rows, aims=aims, rows_come_later=later))

        source = None if names_rows(read) else self._rows_file(read, None)
        with planned_file(read, source) as file:
            return call(
                lambda: planned(file), {file: place_of(read), **self._named(source)}, self._how_to_bind(read, source)
            )

    def run(
        self,
        spec: SpecLike,
        source: Any = None,
        *,
        name: str | None = None,
        period: str | None = None,
        supersede: bool = False,
        early: bool = False,
        accept_misfits: bool = False,
        accept_clock: bool = False,
        progress: bool = False,
    ) -> Release:
        """Make one release, as `sudare run` does; the same spec on the same rows is the same run, and costs nothing.

        Args:
            spec: a `Spec`, a dict of its keys, or the path of a YAML file.
            source: rows of Polars, pandas, Arrow or DuckDB; without it the source that the spec names.
            name: the name that the rows are bound by; that of the contract's table without it.
            period: which period, for a spec with `period`.
            supersede: whether other rows, or another spec, make another version of what is published.
            early: whether a period is released that is not over.
            accept_misfits: whether it is released however many rows do not fit the contract.
            accept_clock: whether a clock far ahead of the journal's last entry is right.
            progress: whether a terminal shows the steps.
        Returns:
            Release: the version.
        Raises:
            SudareError: what the command refuses, in the words of Python; a note says how the charge stands.
        Privacy: the plan's events, charged before the first is drawn. The rows lie in the workspace's private folder
            while the run reads them.
        """
        read = spec_of(spec)
        self._check_source(read, source)
        rows = None if source is None else self._rows_file(read, name)
        places, bind = self._named(rows), self._how_to_bind(read, rows)
        with planned_file(read, rows) as draft:
            call(lambda: self._readable(draft, period), {draft: place_of(read), **places}, bind)

        def made() -> Outcome:
            from console.running import RunOptions
            from sudare.conducting import released

            written = run_file(read, rows, self._place.root)
            places[written] = place_of(read)
            with nullcontext() if rows is None else delivered(self._place, rows.stem, source):
                options = RunOptions(
                    written,
                    period,
                    supersede,
                    early=early,
                    accept_clock=accept_clock,
                    accept_misfits=accept_misfits,
                    may_ask=False,
                )
                return released(options, self._place, progress=progress)

        outcome = call(made, places, bind, lambda: self._place.private / "error.private.log")
        return Release(outcome.folder, self.public_key, outcome.to_json())

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every version in the store that was not withdrawn, in the order of the ledger."""
        entries = with_ledger(self._place, lambda ledger: ledger.versions())
        known = [each for each in entries if each.status in ("published", "superseded")]
        folders = [version_folder(self._place.releases, each.release, each.number) for each in known]
        return tuple(Release(folder, self.public_key) for folder in folders if folder.is_dir())

    def release(self, name: str, version: int | None = None) -> Release:
        """Return a version; the newest of a release without its number.

        Raises:
            SpecRefused: there is none; with those there are.
        """
        known = [each for each in self.releases if each.name == name and version in (None, each.version)]
        if not known:
            there = ", ".join(f"{each.name} v{each.version}" for each in self.releases) or "nothing is published yet"
            found = name if version is None else f"{name} v{version}"
            raise SpecRefused([Finding(str(self.path), "release", found, there)])
        return known[-1]

    def close(self) -> None:
        """End the Prefect server that stays between the runs of this process; the next run starts another."""
        from flows.prefect_runs.server import stop_lasting

        stop_lasting(self._place)

    def _readable(self, file: Path, period: str | None) -> None:
        """Refuse a spec that cannot be followed, before anything of it is written into the workspace."""
        from flows.request import read_request

        read_request(file, self._place, period)

    def _check_source(self, spec: Spec, source: Any) -> None:
        """Refuse rows from two places, or from none."""
        if (source is None) == names_rows(spec):
            return
        found = "no rows" if source is None else "rows, and a spec that names a source of its own"
        remedy = "run(spec, source=frame), or source={'path': ...} in the spec"
        raise SpecRefused([Finding(place_of(spec), "source", found, "one of the two", remedy)])

    def _rows_file(self, spec: Spec, name: str | None) -> Path:
        """Return where rows in memory lie while they are released."""
        return call(lambda: rows_file(self._place, name or _table_of(spec)))

    def _named(self, rows: Path | None) -> dict[Path, str]:
        if rows is None:
            return {}
        place = f"source {rows.stem!r}"
        return {rows: place, as_written(rows, self._place.root): place}

    def _how_to_bind(self, spec: Spec, rows: Path | None) -> str:
        """Return the call that binds rows in memory."""
        charge = spec.get("charge")
        account = charge.get("account", "...") if isinstance(charge, Mapping) else "..."
        return "" if rows is None else f"ws.account({str(account)!r}).bind({rows.stem!r})"

    def __repr__(self) -> str:
        """Name it, with its accounts and releases."""
        names = ", ".join(account.name for account in self.accounts) or "none"
        return f"<workspace {self.path}: accounts {names}; {len(self.releases)} versions>"

    def _repr_html_(self) -> str:
        released = ", ".join(f"{each.name} v{each.version}" for each in self.releases) or "nothing yet"
        head = html.facts(f"workspace {self.path}", [("published", released)])
        return head + "".join(account._repr_html_() for account in self.accounts)

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: a workspace holds keys and a ledger, which stay where they are."""
        raise TypeError("a Workspace cannot be pickled: open it again by its path")


def _table_of(spec: Spec) -> str:
    """Return the name of the contract's table, by which rows in memory are bound."""
    if spec.contract is None:
        return "rows"  # the spec is refused, in words, where it is read
    table = Contract.load(spec.contract).table or ""
    if not is_name(table):
        found, remedy = (
            f"the table {table!r} of the contract",
            "name the rows: run(spec, source=frame, name='visits')",
        )
        raise SpecRefused([Finding(place_of(spec), "name", found, "a name of lower-case letters and digits", remedy)])
    return table
