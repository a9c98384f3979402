"""The address of Iceberg tables in AWS Glue's Data Catalog.

iceberg+glue://REGION/ACCOUNT                       Amazon's, of an account (its 12 digits)
iceberg+glue+https://HOST[:PORT]/REGION/ACCOUNT     another service; iceberg+glue+http on this machine
...?snapshot=ID, ...?at=INSTANT                     an earlier state of the table
...&store=s3+https://HOST[:PORT]                    where s3:// of the catalogue is not Amazon's

The account is named, since credentials would decide it otherwise, and one address would be two tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import parse_qsl

from contracts.reading.scalars import Problem, refuse
from contracts.release.address import shown
from contracts.release.catalogue_address import OF_A_TABLE, TableCatalogue, state_asked
from contracts.release.s3_address import store_endpoint

_PLACE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9]+)/([0-9]{12})/?")


@dataclass(frozen=True)
class GlueAddress(TableCatalogue):
    """Glue's Data Catalog of one account in one region.

    Args:
        region: where it is, as Amazon calls it.
        account: whose it is, 12 digits.
        service: scheme, host and port of a service that is not Amazon's; None for Amazon's.
    """

    kind: ClassVar[str] = "iceberg-glue"
    options: ClassVar[frozenset[str]] = OF_A_TABLE

    region: str
    account: str
    service: str | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> GlueAddress:
        """Read the address of a catalogue and, behind a `?`, which state of its table is meant."""
        place, _, options = rest.partition("?")
        inner, service = scheme.removeprefix("iceberg+glue").removeprefix("+"), None
        if inner:
            authority, _, place = place.partition("/")
            service = store_endpoint("iceberg+glue", inner, authority, written)
        found = _PLACE.fullmatch(place)
        if found is None:
            remedy = "write the region and the account whose catalogue it is"
            refuse(
                [Problem(shown(written), f"{scheme}://.../REGION/ACCOUNT, such as eu-west-1/123456789012", remedy)]
            )
        return cls(found[1], found[2], service, **state_asked(dict(parse_qsl(options, keep_blank_values=True))))

    @property
    def canonical(self) -> str:
        """The address without the version that is meant."""
        start = "iceberg+glue://" if self.service is None else f"iceberg+glue+{self.service}/"
        store = "" if self.endpoint is None else f"?store=s3+{self.endpoint}"
        return f"{start}{self.region}/{self.account}{store}"

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with DATABASE.TABLE: a database of Glue has no other in it, nor capital letters."""
        if table.count(".") > 1:
            return [Problem("a name of three parts", "DATABASE.TABLE", "name one table of the catalogue", ("table",))]
        if table != table.lower():
            # Glue folds names: in other letters a table would have a second name, and could be bound twice.
            remedy = "write it as the catalogue keeps it"
            return [Problem("capital letters", "a name in lower case, as all of Glue's", remedy, ("table",))]
        return super().table_problems(table)
