"""An account in Python: whose loss is bounded, what is left, and which sources are about these people."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from console.accounts import account_object
from contracts.periods.time_blocks import time_block
from contracts.release.source import source_name, written_source_name
from sudare import html
from sudare.delivery import is_name, rows_file
from sudare.words import call
from tasks.storage.workspace.settings import Workspace as Place

if TYPE_CHECKING:
    from privacy.ledger.ledger import Ledger

ResultT = TypeVar("ResultT")


class Account:
    """An account of a workspace; what it says is read from the ledger each time.

    Args:
        place: the workspace.
        name: its name.
    """

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def left(self) -> Decimal:
        """The largest ε that one more release may have, with the noise that fits best; 0 where nothing fits."""
        return max((Decimal(epsilon) for epsilon in self.fits.values() if epsilon is not None), default=Decimal(0))

    @property
    def fits(self) -> dict[str, str | None]:
        """The largest ε of one more release by its noise, `laplace` at δ = 0 and `gaussian` at the account's δ."""
        fits: dict[str, str | None] = self.to_json()["fits"]
        return fits

    @property
    def cap(self) -> Decimal:
        """The ε that the account never exceeds, at its δ."""
        return Decimal(self.to_json()["epsilon"])

    @property
    def releases(self) -> tuple[str, ...]:
        """Names of the releases that it has paid for."""
        return tuple(sorted(each["release"] for each in self.to_json()["releases"]))

    def bind(self, source: str | Path, *, by: str | None = None) -> Account:
        """Bind a source to the people and the days of this account, for good.

        Args:
            source: the name of rows in memory ("visits"), a file or folder, or an address.
            by: the column that tells a row's day, for releases by period.
        Raises:
            LedgerRefusal: the source is bound to others.
        """
        bind(self._place, source, population=self.population, block=self.block, by=by)
        return self

    @property
    def population(self) -> str:
        """The people whose loss is bounded."""
        return str(self.to_json()["population"])

    @property
    def block(self) -> str:
        """The days that it is about."""
        return str(self.to_json()["block"])

    def close(self) -> None:
        """Close it for new charges; what it lost stays written."""
        with_ledger(self._place, lambda ledger: ledger.close_account(self._name))

    def to_json(self) -> dict[str, Any]:
        """Return it as `sudare budget show --json` has it."""

        def read(ledger: Ledger) -> dict[str, Any]:
            state, charges = ledger.account(self._name), ledger.charges(account=self._name)
            return account_object(state, charges, ledger.sources(), ledger.accounts())

        return with_ledger(self._place, read)

    def __repr__(self) -> str:
        """Say what it is, its cap and how much of the budget is used."""
        told = self.to_json()
        people = f"{told['population']}, block {told['block']}, unit {told['unit']}"
        cap = f"cap ε = {told['epsilon']} at δ = {told['delta']}"
        return f"<account {self._name} ({told['status']}): {people}; {cap}; {told['loss']['used']}>"

    def _repr_html_(self) -> str:
        told = self.to_json()
        loss, cap = told["loss"], Decimal(told["loss"]["cap"])
        parts = [float(Decimal(each["spent"]) / cap) for each in told["releases"]] if cap else [1.0]
        taken = [f"{each['release']} ({each['share']})" for each in told["releases"]]
        return html.facts(
            f"account {self._name} ({told['status']})",
            [
                ("spent", html.shares(parts, loss["used"])),
                ("", loss["used"]),
                ("people", f"{told['population']}, block {told['block']}, unit {told['unit']}"),
                ("cap", f"ε = {told['epsilon']} at δ = {told['delta']}"),
                ("released", ", ".join(taken) or "nothing yet"),
            ],
        )

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: an account belongs to its ledger."""
        raise TypeError("an Account cannot be pickled: it belongs to the ledger of its workspace")


def with_ledger(place: Place, action: Callable[[Ledger], ResultT]) -> ResultT:
    """Do something with the ledger of a workspace open.

    Raises:
        SudareError: what the ledger refuses, in the words of Python.
    """

    def done() -> ResultT:
        with closing(place.open_ledger()) as ledger:
            return action(ledger)

    return call(done)


def bind(place: Place, source: str | Path, *, population: str, block: str | int, by: str | None) -> None:
    """Bind a source to the people and the days that its rows are about; arguments as `Workspace.bind`."""

    from tasks.checkpoints import check_no_copy

    def bound(ledger: Ledger) -> None:
        check_no_copy(ledger, population, name := bound_name(place, source))
        ledger.bind_source(name, population, time_block(str(block)), by=by)

    with_ledger(place, bound)


def bound_name(place: Place, source: str | Path) -> str:
    """Return the canonical name of rows in memory, of a file or folder, or of an address."""
    in_memory = isinstance(source, str) and is_name(source)
    return source_name(rows_file(place, str(source))) if in_memory else written_source_name(str(source))
