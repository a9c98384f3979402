"""Sample: further rows out of a published model, under a condition too. Post-processing: it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, Refused, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.release.product import MOST_ROWS
from contracts.release.synthetic import unusable
from privacy.generators.generator import Model
from privacy.generators.rows import seed_text, synthetic_rows
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.version_records import published_record
from tasks.records.files.synthetic_files import write_pieces
from tasks.records.strict_json import printable
from tasks.storage.manifest import published_around
from tasks.storage.progress import step
from tasks.verification.files.folder import VersionFolder, open_version
from tasks.verification.fitted.model_reader import read_published_model
from tasks.verification.fitted_meaning import SyntheticMeaning

SUFFIXES: Final = (".parquet", ".csv")


def sample(
    folder: Path, *, rows: int, where: Mapping[str, Sequence[str]], seed: PostProcessingSeed, to: Path
) -> None:
    """Write rows that a published model gives under a condition; it checks the model's form, not the version.

    Args:
        folder: the version's folder.
        rows: how many.
        where: the labels that a column may have, by column.
        seed: public; the same version, condition and seed give the same rows.
        to: a Parquet or CSV file that is not there yet.
    Raises:
        SpecRefused: no synthetic version there, an unknown column or label, a condition that no row meets, or a
            target that cannot be written.
    Privacy: reads published files only.
    """
    _check_target(to)
    if not 1 <= rows <= MOST_ROWS:
        raise SpecRefused([Finding("the command", "--rows", str(rows), f"a whole number from 1 to {MOST_ROWS}")])
    published = open_version(folder)
    (record, _), (model, meaning) = published_record(published), published_model(published)
    barred = unusable(meaning.product, "sample", where=str(folder), field="--rows")
    if barred:
        raise SpecRefused(barred)
    pictures = meaning.contract.pictures(meaning.names)
    if pictures and to.suffix == ".csv":
        found = f"a CSV file for {pictures[0]!r}, a column of pictures"
        raise SpecRefused([Finding(str(to), "--to", found, "a file ending in .parquet")])
    codes = {column: _codes(meaning.contract, meaning.names, column, labels) for column, labels in where.items()}
    formulas = record.replay.formulas
    marks = {"sudare_sampled_from": folder.resolve().name, "sudare_seed": seed_text(seed)}
    try:
        with step("sample"):
            drawn = synthetic_rows(model, meaning.contract, seed, rows, codes)
            write_pieces(drawn, [to], marks=marks, formulas=formulas)
    except OSError as error:
        to.unlink(missing_ok=True)
        found = error.strerror or type(error).__name__
        raise SpecRefused([Finding(str(to), "--to", found, "a file that can be written")]) from error
    except NothingPossible as nothing:
        found = f"a condition on {', '.join(where)} that no row meets"
        allowed = "a condition that the declared impossible combinations leave rows for"
        raise SpecRefused([Finding("the command", "--where", found, allowed)]) from nothing


def _check_target(to: Path) -> None:
    """Refuse a file that is there, of another kind, in no folder, or inside a version: a version never changes."""
    allowed, remedy = "a new file ending in .parquet or .csv", ""
    around = published_around(to)
    if to.suffix not in SUFFIXES:
        found = f"the suffix {to.suffix!r}"
    elif to.exists() or to.is_symlink():
        found = "it is there already"
    elif not to.parent.is_dir():
        found, remedy = "a folder that is not there", f"make the folder {to.parent}"
    elif around is not None:
        found, remedy = f"inside the release {around}", "name a file elsewhere: what is published never changes"
    else:
        return
    raise SpecRefused([Finding(str(to), "--to", found, allowed, remedy)])


def published_model(path: Path) -> tuple[Model, SyntheticMeaning]:
    """Read the model of a version, and what it is about.

    Raises:
        SpecRefused: this is no synthetic version, or its record or model cannot be read.
    """
    record, meaning = published_record(path)
    stated = record.replay.model
    files = [read_bytes(path, name) for name in (stated.values, stated.arrays)]
    model, findings = read_published_model(stated, meaning, *files)
    if model is None:
        raise SpecRefused(findings)
    return model, meaning


def read_bytes(path: Path, name: str) -> bytes:
    """Read a file of the model; a name that leads elsewhere is refused."""
    try:
        if name not in ("model/model.json", "model/arrays.parquet") or (path / name).is_symlink():
            raise FileNotFoundError(f"no file {name}")
        return VersionFolder(path, {name: 0}, {}).read(name)
    except OSError as error:
        found = error.strerror or "nothing"
        raise SpecRefused([Finding(printable(name), "the file", found, "the published model")]) from error


def _codes(contract: Contract, names: Sequence[str], column: str, labels: Sequence[str]) -> list[int]:
    if column not in names:
        found = f"the column {column!r}"
        raise Refused([Finding("the command", "--where", found, word_list(names), nearest(column, names))])
    if contract.pictures([column]):
        found = f"a condition on {column!r}, a column of pictures"
        raise Refused([Finding("the command", "--where", found, "columns of single values")])
    known = contract.column(column).labels
    unknown = [label for label in labels if label not in known]
    if unknown:
        found = f"the label {unknown[0]!r} of {column}"
        raise Refused([Finding("the command", "--where", found, word_list(known), nearest(unknown[0], known))])
    return [known.index(label) for label in labels]
