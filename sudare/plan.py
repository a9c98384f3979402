"""A plan: what a release would cost and how far off it would be, without touching data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import StringIO
from typing import Any, Final

from rich.console import Console

from console.products.product_view import product_view
from sudare import html

WIDTH: Final = 110
"""Of what is printed [characters]."""


class Plan(Mapping[str, Any]):
    """What `sudare plan --json` says of a spec, as a mapping, with the parts that are most asked for as attributes.

    Args:
        payload: the JSON object.
    Privacy: made of spec, contract and ledger; no row is read.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = dict(payload)

    @property
    def release(self) -> str:
        """Name of the release."""
        return str(self._payload["release"])

    @property
    def epsilon(self) -> Decimal:
        """ε of the release."""
        return Decimal(self._payload["epsilon"])

    @property
    def delta(self) -> Decimal:
        """δ of the release."""
        return Decimal(self._payload["delta"])

    @property
    def fits(self) -> bool:
        """Whether the account holds it; False where there is no such account yet."""
        return bool(self._payload["account"].get("fits", False))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reviewer would warn of."""
        return tuple(f"{each['rule']}: {each['found']}; {each['remedy']}" for each in self._payload["warnings"])

    def __getitem__(self, key: str) -> Any:
        return self._payload[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._payload)

    def __len__(self) -> int:
        return len(self._payload)

    def __repr__(self) -> str:
        """Say cost, account and warnings in lines."""
        return "\n".join(f"{name}: {words}" for name, words in self._facts()) + "\n\n" + self._draws().rstrip()

    def _repr_html_(self) -> str:
        return html.facts(f"plan of {self.release}", self._facts()) + html.plain(self._draws())

    def _facts(self) -> list[tuple[str, str]]:
        account = self._payload["account"]
        holds = "fits" if self.fits else "does not fit" if account["open"] else "is not open"
        facts = [
            ("release", f"{self.release} ({self._payload['kind']})"),
            ("cost", f"ε = {self.epsilon} at δ = {self.delta}"),
            ("account", f"{account['name']}: it {holds}" if account["open"] else f"{account['name']} {holds}"),
            ("data read", "none"),
        ]
        return facts + [("!", warning) for warning in self.warnings]

    def _draws(self) -> str:
        """Return what is drawn and how far off it will be, as the command prints it."""
        printed = StringIO()
        console = Console(
            file=printed, width=WIDTH, highlight=False, markup=False, force_jupyter=False, force_terminal=False
        )
        product_view(str(self._payload["kind"])).print_draws(console, self._payload)
        return printed.getvalue()
