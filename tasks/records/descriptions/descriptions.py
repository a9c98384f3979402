"""Croissant 1.1 metadata (JSON-LD) for the data files, so that dataset tools find and load them.

Source: MLCommons, Croissant Format Specification 1.1 (release candidate of 2025-12-10), which has `isArray` and
`arrayShape` in the place of 1.0's `repeated`. License and address are left out, for no part of a run knows them. The
creator is the curator whom the publisher declares, and is left out where nobody is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts.contract.labels import label_columns
from privacy.accounting.amounts import power_text
from privacy.accounting.posterior import PRIORS
from tasks.records.descriptions.key_columns import KeyColumns, key_columns
from tasks.records.draws.marginal import DrawForm
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.files.write import RESIDUAL_COLUMNS, RESIDUALS_FILE
from tasks.records.groups.terms import SCOPE_WORDS
from tasks.records.model.draw_kinds import draw_form
from tasks.records.model.record_kinds import COUNT_COLUMNS, RecordPart, record_part
from tasks.records.model.version_statements import recorded_contract
from tasks.records.page import first_screen as words
from tasks.records.page.language import ENGLISH, other_pages
from tasks.records.page.page import budget_bar, budget_shares
from tasks.records.page.style import style
from tasks.records.public_text import plain, public_field, says_anything, sentence
from tasks.records.record import RecordExplanation
from tasks.records.relations import kept_relations
from tasks.records.values import Values

# --- What the data files of a version are, and what their columns mean.


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


CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "annotation": "cr:annotation",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "sdVersion": "cr:sdVersion",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_ADDRESS = re.compile(r"[A-Za-z0-9._/-]+")
_FORMATS = {".parquet": "application/x-parquet", ".csv": "text/csv", ".json": "application/json"}
_FORMATS |= {".safetensors": "application/octet-stream", ".md": "text/markdown"}
_TYPES = {
    "string": "sc:Text",
    "uint8": "sc:Integer",
    "int32": "sc:Integer",
    "int64": "sc:Integer",
    "double": "sc:Float",
    "float": "sc:Float",
    "bool": "sc:Boolean",
    "date": "sc:Date",
}


def croissant(explanation: RecordExplanation) -> dict[str, Any]:
    """Describe the data files of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        dict: JSON-LD; paths are relative to the version's folder.
    """
    fields, record, files = explanation.values, explanation.record, explanation.files
    curator, words = sentence(fields, "accountability.curator"), FileWords.of(explanation)
    tables = [
        (number, file) for number, file in enumerate(files) if file.path.endswith(".parquet") and file.role != "part"
    ]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": f"{record['release']}-v{record['version']}",
        "alternateName": fields["identity.title"],
        "description": dataset_description(fields),
        **({"creator": {"@type": "sc:Organization", "name": curator}} if curator else {}),
        "version": f"{record['version']}.0.0",
        "datePublished": fields["identity.measured_hour"][:10],
        "isLiveDataset": False,
        "distribution": [_file(file, number, words) for number, file in enumerate(files)],
        "recordSet": [
            _records(file, number, words, key_columns(record["replay"], file.path.removesuffix(".parquet")))
            for number, file in tables
        ],
    }


def _id(name: str, otherwise: str) -> str:
    """Name a part by itself where that is an address without escapes, and by its number where it is not."""
    return name if _ADDRESS.fullmatch(name) else otherwise


def _file(file: WrittenFile, number: int, words: FileWords) -> dict[str, Any]:
    path = PurePosixPath(file.path)
    return {
        "@type": "cr:FileObject",
        "@id": _id(file.path, f"file-{number}"),
        "name": path.name,
        "description": words.summary(file),
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": _FORMATS[path.suffix],
        "sha256": file.sha256,
    }


def _records(file: WrittenFile, number: int, words: FileWords, keys: KeyColumns) -> dict[str, Any]:
    name, meanings = file.path.removesuffix(".parquet"), words.columns(file)
    otherwise = words.label(file)
    records, source = _id(name, f"records-{number}"), _id(file.path, f"file-{number}")
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": name,
        "description": words.rows(file),
        **({} if keys.primary is None else {"key": {"@id": _of_records(records, keys.primary, file)}}),
        "field": [
            {
                **_field(
                    _of_records(records, column, file),
                    source,
                    (column, kind),
                    keys.meaning(column) or meanings.get(column, otherwise),
                ),
                **_reference(keys, column),
            }
            for column, kind in file.columns
        ],
    }


def _of_records(records: str, column: str, file: WrittenFile) -> str:
    """Name a field: by its column, or by its place where that is no address."""
    place = [name for name, _ in file.columns].index(column)
    return _id(f"{records}/{column}", f"{records}/column-{place}")


def _reference(keys: KeyColumns, column: str) -> dict[str, Any]:
    """Say of which field of another record set a field holds the values: the key is the first column there."""
    if keys.foreign is None or keys.foreign[0] != column:
        return {}
    _, path, key = keys.foreign
    return {"references": {"field": {"@id": _id(f"{path}/{key}", f"{path}/column-0")}}}


def _field(name: str, source: str, typed: tuple[str, str], means: str) -> dict[str, Any]:
    column, kind = typed
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": column,
        "description": means,
        "dataType": _TYPES[kind.partition("[")[0]],
        **({"isArray": True, "arrayShape": kind.partition("[")[2][:-1]} if kind.endswith("]") else {}),
        "source": {"fileObject": {"@id": source}, "extract": {"column": column}},
    }


# --- label.html.


FOLDER: Final = Path(__file__).parent
MOST_LINES: Final = 6
LONGEST: Final = 150


def label_html(explanation: RecordExplanation) -> bytes:
    """Render the label of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        bytes: HTML in UTF-8, self-contained, without script; every text is escaped.
    Privacy: reads the public record only.
    """
    values, record = explanation.values, explanation.record
    shares = budget_shares(values)
    page: str = _template().render(
        record=record,
        v=values,
        product=record_part(values["identity.product_type"]).words.label,
        relations=kept_relations(record["replay"]),
        epsilon=words.brief(values["guarantee.epsilon"], up=True),
        rounded=Decimal(words.brief(values["guarantee.epsilon"], up=True)) != Decimal(values["guarantee.epsilon"]),
        subject=words.subject(values),
        protected=words.protected(values),
        learned=_learned(values),
        largest=words.largest_attribute(values),
        used=words.used(values),
        budget=budget_bar(shares),
        shares=shares,
        unprotected=_unprotected(values),
        more=max(0, len(_word_list(values)) - MOST_LINES),
        people=_people(values),
        mechanism=_short(sentence(values, "noise.mechanism")),
        sampler=_short("; ".join(map(plain, values["noise.samplers"]))),
        others=other_pages(ENGLISH),
        style=style(FOLDER / "label.css"),
    )
    return page.encode()


def _learned(values: dict[str, Any]) -> list[tuple[str, list[words.Belief]]]:
    """Return what the record says of beliefs, drawn: of one unit, then of one column of a unit in the table."""
    largest, whole = (
        words.largest_attribute(values),
        {"epsilon": values["guarantee.epsilon"], "delta": values["guarantee.delta"]},
    )
    column = "any column" if largest.column is None else _short(largest.column)
    return [
        (words.question(values), _beliefs({**values["guarantee.largest_posterior"], **whole})),
        (f"{column} of somebody known to be in it", _beliefs(values["guarantee.largest_attribute"])),
    ]


def _beliefs(stated: dict[str, Any]) -> list[words.Belief]:
    drawn = words.beliefs(stated["epsilon"], stated["delta"], priors=PRIORS)
    return [replace(belief, most=stated["at_most"][belief.before]) for belief in drawn]


def _word_list(values: dict[str, Any]) -> list[Any]:
    quantities = public_field(values, "unprotected.quantities")
    return quantities if isinstance(quantities, list) else [quantities] if says_anything(quantities) else []


def _unprotected(values: dict[str, Any]) -> list[str]:
    return [_short(plain(quantity)) for quantity in _word_list(values)[:MOST_LINES]]


def _people(values: dict[str, Any]) -> list[tuple[str, str]]:
    """List who answers for the release, as far as it is declared."""
    asked = (
        ("Curator", "accountability.curator"),
        ("Contact", "accountability.contact"),
        ("Legal basis", "accountability.legal_basis"),
    )
    return [(name, _short(text)) for name, path in asked if (text := sentence(values, path))]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 2].rstrip() + " …"


@cache
def _template() -> Any:
    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["power"] = power_text
    return environment.get_template("label.html.j2")
