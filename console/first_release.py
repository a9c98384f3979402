"""A first release as its answers have it: the contract and the spec that they become, and how answers are read.

Tables of counts under the Laplace mechanism with delta = 0; one unit more or less (`add_remove`). No row is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from console.interview import Misunderstood
from contracts.drafting.short_text import column_lines
from contracts.drafting.sketch import ColumnSketch
from contracts.drafting.yaml_words import comments, wrapped, yaml_code, yaml_text
from contracts.reading.scalars import nearest, word_list

ALL, EACH, ROW, DECLARED = "all", "each", "row", "declared"
_BETWEEN_COLUMNS = re.compile(r"\s+x\s+|\s*[×*]\s*")
_WIDTH = 6


@dataclass(frozen=True)
class FirstRelease:
    """What a person answered.

    Args:
        release: name of the release; its files are named after it.
        table: name of the table.
        path: where the rows are, as typed.
        inner: which table of a database, or None.
        delimiter: between the fields of a CSV, where it is no comma.
        unit: the column whose values say whose row it is; None where every row is a person.
        rows_per_unit: how many rows of one person count.
        block: the days that the rows are about.
        population: the people.
        columns: the lines of the contract for each column that is counted.
        left_out: the columns that nobody reads.
        provenance: where values and ranges come from: `declared`, or a public document.
        tables: the columns of each table.
        account: the account that pays.
        epsilon: of the release, as typed.
    """

    release: str
    table: str
    path: str
    inner: str | None = None
    delimiter: str | None = None
    unit: str | None = None
    rows_per_unit: int = 1
    block: str = "lifetime"
    population: str = ""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    provenance: str = DECLARED
    tables: tuple[tuple[str, ...], ...] = ()
    account: str = ""
    epsilon: str = ""

    @property
    def contract_file(self) -> str:
        """Name of the contract's file."""
        return f"{self.release}.contract.yaml"

    @property
    def spec_file(self) -> str:
        """Name of the spec's file."""
        return f"{self.release}.yaml"


def contract_text(first: FirstRelease) -> str:
    """Write the contract in the short form; nothing is open in it."""
    scope = "lifetime" if first.block == "lifetime" else "block"
    unit = f"{{kind: row, scope: {scope}}}"
    if first.unit is not None:
        unit = (
            f"{{kind: id, scope: {scope}, column: {yaml_text(first.unit)}, max_rows_per_unit: {first.rows_per_unit}}}"
        )
    stated = DECLARED if first.provenance == DECLARED else f"{{public: {yaml_text(first.provenance)}}}"
    lines = [
        *comments(["Written by `sudare new`. No row was read. All keys: docs/contracts.md."]),
        f"id: {yaml_text(first.release)}",
        "version: 1.0.0",
        f"table: {yaml_text(first.table)}",
        f"unit: {unit}",
        "adjacency: add_remove",
        f"defaults: {{nulls: category, provenance: {stated}}}",
    ]
    if first.left_out:
        lines += wrapped("left_out: [", [yaml_text(name) for name in first.left_out], "]", indent=2)
    lines += ["columns:", *(line for column in first.columns.values() for line in column)]
    return "\n".join(lines) + "\n"


def spec_text(first: FirstRelease, *, folder: Path | None = None) -> str:
    """Write the spec.

    Args:
        folder: that a relative path of the rows counts from, where the spec lies elsewhere; None where it lies there.
    """
    path = first.path if folder is None else str((folder / first.path).absolute())
    source = [f"path: {yaml_text(path)}"]
    source += [f"table: {yaml_text(first.inner)}"] if first.inner else []
    source += [f"delimiter: {yaml_text(first.delimiter)}"] if first.delimiter else []
    lines = [
        *comments(["Written by `sudare new`. All keys: docs/tables.md."]),
        f"release: {yaml_text(first.release)}",
        f"contract: {yaml_text(first.contract_file)}",
        f"source: {{{', '.join(source)}}}",
        f"charge: {{account: {yaml_text(first.account)}, epsilon: {first.epsilon}, delta: 0}}",
        "product:",
        "  kind: tables",
        "  mechanism: laplace",
        "  tables:",
    ]
    for table in first.tables:
        lines += wrapped("    - [", [yaml_text(name) for name in table], "]", indent=_WIDTH)
    lines += ["  refine: {method: simplex}", "publish: {to: releases/, formats: [parquet, csv]}"]
    return "\n".join(lines) + "\n"


def domain_lines(name: str, answer: str, description: str | None = None) -> tuple[str, ...]:
    """Write the line of a column out of what a person types.

    Args:
        answer: `0..99 by 5`, `0..99 at 18, 40`, `north; south`, `1=male; 2=female`. Whether a range is one is for
            the reader of contracts to say.
        description: what the column holds, in words.
    """
    key, opening, parts, closing = _short_form(answer)
    said = [f"description: {yaml_text(description)}"] if description else []
    head = f"  {yaml_text(name)}: "
    if not said and key != "labels":
        return tuple(wrapped(head + opening, parts, closing, indent=_WIDTH))
    parts[-1] += closing
    return tuple(wrapped(f"{head}{{{key}: {opening}", [*parts, *said], "}", indent=_WIDTH))


def _short_form(answer: str) -> tuple[str, str, list[str], str]:
    if ".." in answer and "=" not in answer and ";" not in answer:
        return "range", "", [yaml_text(answer)], ""
    written = [part.strip() for part in answer.split(";" if ";" in answer else ",") if part.strip()]
    pairs = [part.partition("=") for part in written]
    if not written or any(not code.strip() or (sign and not label.strip()) for code, sign, label in pairs):
        raise Misunderstood("write a range (0..99 by 5), values (north; south) or codes (1=male; 2=female)")
    if not any(sign for _, sign, _ in pairs):
        return "values", "[", [yaml_code(code) for code in written], "]"
    labels = [f"{yaml_code(code.strip())}: {yaml_text(label.strip() or code.strip())}" for code, _, label in pairs]
    return "labels", "{", labels, "}"


def known_lines(column: ColumnSketch) -> tuple[str, ...] | None:
    """Return the lines of a column that a codebook declares wholly; None where a person has to say something."""
    if not (column.values or column.labels or (column.bounds and column.width)):
        return None
    return tuple(column_lines(column))


def chosen_columns(
    answer: str, names: Sequence[str], usual: Iterable[str], places: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns that are meant: by name or by place, or `all` for the usual ones.

    Args:
        names: columns that there are to choose.
        usual: those of them that `all` means.
        places: all columns of the file, whose numbers may be typed; `names` without it.
    Raises:
        Misunderstood: one of them is no column, or stands there twice, or there is none.
    """
    if answer == ALL and ALL not in names:
        chosen = tuple(usual)
    else:
        chosen = tuple(column_of(part.strip(), names, places) for part in re.split("[,;]", answer) if part.strip())
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        raise Misunderstood(f"{twice!r} twice: name each column once")
    if not chosen:
        raise Misunderstood("name at least one column; those that look like ids or texts are not meant by all")
    return chosen


def column_of(word: str, names: Sequence[str], places: Sequence[str] = ()) -> str:
    """Return the column of a name, or of a place in the file counted from 1; arguments as of `chosen_columns`."""
    numbered = places or names
    place = int(word) if word.isascii() and word.isdigit() and len(word) < 9 else 0
    name = numbered[place - 1] if word not in names and 0 < place <= len(numbered) else word
    if name not in names:
        allowed = nearest(name, names) or f"{word_list(names)}, or its number"
        raise Misunderstood(f"no column {name!r} to choose here: {allowed}")
    return name


def chosen_tables(answer: str, names: Sequence[str], places: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the tables that are meant: columns joined by x, tables apart by `;` or `,`; `each` for one a column."""
    if answer == EACH and EACH not in names:
        return tuple((name,) for name in names)
    return tuple(_of_table(part.strip(), names, places) for part in re.split("[,;]", answer) if part.strip())


def _of_table(written: str, names: Sequence[str], places: Sequence[str]) -> tuple[str, ...]:
    words = [written] if written in names else _BETWEEN_COLUMNS.split(written)
    return tuple(column_of(word.strip(), names, places) for word in words)
