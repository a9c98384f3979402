"""What a verification checks differently by the kind of product: rules 5, 6, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

# named in annotations alone: what reads the files of a kind is loaded with the checks of that kind
if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.errors import Finding
    from tasks.records.model.manifest import Manifest
    from tasks.records.model.version_statements import RecordTerms
    from tasks.storage.progress import Bar
    from tasks.verification.draws.draw_checks import FileForm
    from tasks.verification.files.folder import VersionFolder
    from tasks.verification.inclusion import JournalledRun
    from tasks.verification.outcomes import RuleFindings


class ProductChecks(Protocol):
    """The checks of one version whose record could be read; asked in the order of the methods.

    `statement` is the model of such a record.
    """

    statement: ClassVar[type[RecordTerms]]

    @property
    def record(self) -> RecordTerms:
        """The record."""
        ...

    @property
    def contract(self) -> Contract | None:
        """The contract, once `read` found nothing wrong with contract and product."""
        ...

    @property
    def rules(self) -> Mapping[int, str]:
        """What rules are called that say something else for this kind of product, by number."""
        ...

    @property
    def untold(self) -> tuple[str, ...]:
        """What no check of this version can tell, beside what none of any version can; known after `replay`."""
        ...

    @property
    def untraced(self) -> tuple[str, ...]:
        """What of the product neither events nor published values show: the publisher's word, by its place."""
        ...

    @property
    def draws_complete(self) -> bool:
        """Whether all planned draws must have been made."""
        ...

    @property
    def priced(self) -> bool | None:
        """Whether the losses of the draws can be recomputed; None where the draws cannot be read."""
        ...

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        ...

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that record and manifest speak of the same files."""
        ...

    def check_product(self) -> list[Finding]:
        """Check that what is replayed is what the product asks for."""
        ...

    def check_draws(self, run: JournalledRun | None) -> tuple[list[Finding], list[str]]:
        """Check the draws against journal, charge and contract; return what is skipped too."""
        ...

    def replay(
        self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]
    ) -> tuple[RuleFindings, RuleFindings] | None:
        """Check the measurements, and make again what was made of them; None where the record does not say how."""
        ...

    def forms(self) -> Mapping[str, FileForm]:
        """Say how each Parquet file is written, by its name; known after `replay`."""
        ...

    def reestimate(self, bar: Bar) -> RuleFindings | None:
        """Estimate again what was estimated from the measurements; None where nothing was."""
        ...
