"""Copies of the rows: their number, seeds and files are those that follow, and each comes out of its own model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from contracts.release.copies import copy_path, rows_of_copy
from privacy.generators.copied_model import CopiedModel, copies_of
from privacy.generators.generator import Model
from privacy.generators.rows import copy_seed, seed_text
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.synthetic.row_replay import row_table
from tasks.records.model.version_statements import (
    ModelStatement,
    SyntheticRecord,
    SyntheticReplay,
    SyntheticRowsStatement,
)
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.fitted.model_reader import OTHER_MODEL
from tasks.verification.fitted.modifier_checks import CompareModels, ModelModifierChecks, RowTable
from tasks.verification.fitted_meaning import AS_SAID, SyntheticMeaning
from tasks.verification.record_identity import differences


class CopiesChecks(ModelModifierChecks):
    """The checks of copies."""

    def files(self, replay: SyntheticReplay) -> set[str]:
        """Return the file of each copy."""
        return {copy.data for copy in replay.copies}

    def forms(self, replay: SyntheticReplay, meaning: SyntheticMeaning, rows: FileForm) -> dict[str, FileForm]:
        """Return the form of the rows for each copy."""
        return dict.fromkeys(self.files(replay), rows)

    def check_record(self, record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
        """Check that the copies are stated that the product asks for."""
        stated = [each.model_dump(mode="json", by_alias=True) for each in record.replay.copies]
        wanted = _copies(record.replay.rows, meaning.product.copies or 0)
        return list(differences([("replay.copies", stated, wanted)], where=where, allowed=AS_SAID))

    def check_model(self, model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
        """Check that the model has as many copies as the product says."""
        found, copies = len(copies_of(model)), meaning.product.copies or 0
        if found == copies:
            return []
        return [Finding(stated.values, "copies", str(found), f"{copies}, as the product says", OTHER_MODEL)]

    def compare(
        self, published: CopiedModel, again: CopiedModel, drawn: Sequence[Clique], compare: CompareModels
    ) -> list[Finding]:
        """Compare the first models, then those of each copy."""
        findings = compare(published.first, again.first, drawn)
        for number, pair in enumerate(zip(published.copies, again.copies, strict=True), 1):
            wrong = compare(*pair, drawn)
            findings += [replace(each, field=f"copy {number}, {each.field}") for each in wrong]
        return findings

    def tables(
        self, tables: tuple[RowTable, ...], model: Model, replay: SyntheticReplay, meaning: SyntheticMeaning
    ) -> tuple[RowTable, ...]:
        """Add the table of each copy, which has no CSV copy."""
        made = zip(copies_of(model), replay.copies, strict=True)
        return (*tables, *(row_table(each, stated, meaning, in_all_formats=False) for each, stated in made))


def _copies(rows: SyntheticRowsStatement, copies: int) -> list[dict[str, object]]:
    """Return what must be stated of the copies of rows: their seeds are derived, so that none can be chosen."""
    seed = PostProcessingSeed(int(rows.seed, 16))
    return [
        {
            "number": rows_of_copy(rows.number, copies),
            "from": rows.from_,
            "seed": seed_text(copy_seed(seed, number)),
            "data": copy_path(rows.data, number),
        }
        for number in range(1, copies + 1)
    ]
