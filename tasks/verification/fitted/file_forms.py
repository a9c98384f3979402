"""How each Parquet file of a version is written, as far as its values do not tell: labels, marks, pieces.

All of it follows from record and contract. `tasks.verification.data_files.rewriting` writes the files again by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from contracts.contract.column import Cells
from contracts.contract.decoding import DecodedForm, Decoder
from contracts.release.tables.levels import levels_of, table_cells
from contracts.release.tables.tables import data_marks, measurement_marks
from privacy.generators.rows import PIECE_ROWS
from tasks.records.model.version_statements import DrawsReplay, Replay, SyntheticReplay
from tasks.verification.draws.draw_checks import FileForm, FittedMeaning
from tasks.verification.fitted_meaning import SyntheticMeaning, by_kind, modifier_checks
from tasks.verification.table_meaning import TOTAL_MEASUREMENTS, Meaning, total_files


def table_forms(replay: Replay, meaning: Meaning) -> dict[str, FileForm]:
    """Return the forms of a version of tables."""
    listed = {draw.key: draw.listed for draw in replay.draws}
    forms = {TOTAL_MEASUREMENTS: FileForm()} if TOTAL_MEASUREMENTS in total_files(replay) else {}
    for table, planned in zip(replay.tables, meaning.tables, strict=True):
        for stated, level in zip(table.levels, levels_of(planned, meaning.contract), strict=True):
            forms[stated.data] = forms[stated.measurements] = FileForm(_labels(level, table.columns))
        labels, sparse = (
            _labels(table_cells(planned, meaning.contract), table.columns),
            listed.get(f"table:{table.name}"),
        )
        forms[table.data] = FileForm(labels, {} if sparse is None else data_marks(sparse.cells))
        marks = {} if sparse is None else measurement_marks(sparse.cells, sparse.threshold)
        forms[table.measurements] = FileForm(labels, marks)
    return forms


def _labels(cells: Cells, columns: Sequence[str]) -> dict[str, Sequence[str]]:
    return {name: cells.column(name).labels for name in columns}


def drawn_forms(replay: DrawsReplay, meaning: FittedMeaning) -> dict[str, FileForm]:
    """Return the forms of what was drawn for a fit."""
    forms: dict[str, FileForm] = {}
    for checks, draws in by_kind(replay):
        forms |= {draw.measurements: checks.form(draw, meaning) for draw in draws if draw.measurements is not None}
        forms |= checks.forms_beside(draws)
    return forms


def synthetic_forms(replay: SyntheticReplay, meaning: SyntheticMeaning) -> dict[str, FileForm]:
    """Return the forms of a synthetic version: what was drawn, its model, its rows."""
    rows = form_of_rows(Decoder(meaning.contract, meaning.names).forms)
    arrays = FileForm({"array": frozenset(replay.model.sha256)}, piece=None)
    forms = {**drawn_forms(replay, meaning), replay.model.arrays: arrays, replay.rows.data: rows}
    for checks in modifier_checks(meaning.product, replay):
        forms |= checks.forms(replay, meaning, rows)
    return forms


def form_of_rows(forms: tuple[DecodedForm, ...]) -> FileForm:
    """Say how a file of rows is written."""
    labels = {
        form.name: [value for value in form.values if value is not None] for form in forms if form.kind == "label"
    }
    return FileForm(labels, piece=PIECE_ROWS)
