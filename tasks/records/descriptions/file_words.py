"""What the data files of a version are, and what their columns mean: words that every description of them shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contracts.contract.label_columns import label_columns
from tasks.records.draws.draw_form import DrawForm
from tasks.records.explanation import RecordExplanation
from tasks.records.files.residual_file import RESIDUAL_COLUMNS, RESIDUALS_FILE
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.groups.contract_terms import SCOPE_WORDS
from tasks.records.model.draw_kinds import draw_form
from tasks.records.model.record_kinds import COUNT_COLUMNS, RecordPart, record_part
from tasks.records.model.version_statements import recorded_contract
from tasks.records.values import Values

_ROLES = {
    "part": "Some rows of a data file once more.",
    "measurements": "Noisy counts as they were drawn.",
    "statistics": "What was added up in each sum over rows.",
    "rounds": "The noisy sum over sites of each round, as it was drawn.",
    "choices": "Private choices as they were made.",
    "model": "The fitted model, in whole numbers.",
    "weights": "Weights and biases of the classifier, as safetensors.",
    "inputs": "How a row becomes the classifier's input, and what its outputs mean.",
    "card": "The model card.",
}
_ARRAYS = frozenset({"model", "statistics", "rounds"})
_OF_ARRAYS = {"array": "Name of an array.", "value": "Its values in row-major order."}


@dataclass(frozen=True)
class FileWords:
    """What the files of a version are, and their columns.

    Args:
        values: the record's values.
        part: what records say of the kind of product.
        forms: those of the draws, by their keys; none of tables of counts.
        beside: what the columns beside labels mean, by name; none where labels stand alone.
    """

    values: Values
    part: RecordPart
    forms: Mapping[str, DrawForm[Any, Any]]
    beside: Mapping[str, str]

    @classmethod
    def of(cls, explanation: RecordExplanation) -> FileWords:
        """Read which kinds of draws a record states."""
        kind, draws = explanation.values["identity.product_type"], explanation.record["replay"]["draws"]
        forms = {draw["key"]: draw_form(draw["kind"]) for draw in draws if "kind" in draw}
        replay = explanation.record["replay"]
        columns = () if replay.get("labels") is None else recorded_contract(replay["contract"]).columns
        beside = (each for column in columns for each in label_columns(column))
        return cls(explanation.values, record_part(kind), forms, {each.name: each.means for each in beside})

    def summary(self, file: WrittenFile) -> str:
        """Say what a file is."""
        form = self._form(file)
        if file.role == DATA:
            return self.part.words.data
        return _ROLES[file.role] if form is None else form.summary

    def columns(self, file: WrittenFile) -> Mapping[str, str]:
        """Say what the columns of a file mean; those of labels where nothing else is known."""
        form = self._form(file)
        if form is not None:
            return form.columns
        if file.role in _ARRAYS:
            return _OF_ARRAYS
        if file.path == RESIDUALS_FILE:
            return RESIDUAL_COLUMNS
        known = self.part.data_columns(self.values, file.path) if file.role == DATA else COUNT_COLUMNS
        labels = self.beside if file.role == DATA else {}
        return {**labels, **{name: column.means for name, column in known.items()}}

    def rows(self, file: WrittenFile) -> str:
        """Say what the rows are."""
        form = self._form(file)
        if file.role in _ARRAYS or (form is not None and not form.cells):
            return f"{file.rows} rows, one a number."
        if form is not None:
            return f"{file.rows} rows, {form.cells}."
        if file.role == DATA and not self.part.data_columns(self.values, file.path):
            return f"{file.rows} rows."
        if file.form == "dense":
            return f"{file.rows} rows, one a cell of the declared domain."
        if file.role == DATA:
            return f"{file.rows} rows, one a cell above 0; the count of every other cell of the declared domain is 0."
        return (
            f"{file.rows} rows, one a cell whose noisy count reached the threshold; every other cell lies below it."
        )

    def label(self, file: WrittenFile) -> str:
        """Say what a column is of which nothing else is known."""
        return self.part.words.value if file.role == DATA else "Label of the cell."

    def _form(self, file: WrittenFile) -> DrawForm[Any, Any] | None:
        """Return the form of the draw that a file shows, if it has words of its own for its files."""
        form = self.forms.get(file.draw)
        return form if form is not None and file.role == form.role and form.summary else None


def dataset_description(fields: Values) -> str:
    """Say in a paragraph what was published about whom, under which guarantee."""
    delta = "" if fields["guarantee.delta"] == "0" else f" and delta {fields['guarantee.delta']}"
    words = record_part(fields["identity.product_type"]).words
    return (
        f"{words.made} about {fields['identity.title']} with {fields['guarantee.variant']}, "
        f"epsilon {fields['guarantee.epsilon']}{delta}, "
        f"for {fields['unit.unit']} ({fields['unit.adjacency']}), bounded {SCOPE_WORDS[fields['unit.scope']]}. "
        f"{words.remark}"
    )
