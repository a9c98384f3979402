"""The rows of a public prior: read beside the spec, coded by the contract, counted.

    1. the file is there, a Parquet or CSV file, and the one that the spec pins, if it pins one
    2. it has the columns of the product, or those that the spec says it has; others are not read
    3. it has rows, and all their values are values of the contract
    4. its columns and pairs are counted (`privacy.marginals.public_prior`); its digest goes into the spec

That it is no file which the ledger has bound is asked by whoever has a ledger (`flows.request`). All of it is public,
so messages may name numbers of values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier
from contracts.errors import SpecRefused, SudareError
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.public_prior import FORMATS, PRIOR_FILE, PriorSpec
from contracts.release.spec import ReleaseSpec
from contracts.sql.encoding import encode_select
from contracts.sql.violations import violation_sql
from privacy.marginals.domain import CellDomain
from privacy.marginals.public_prior import PublicPrior, prior_of
from tasks.storage.duckdb_session import attempt, connect, one_file

_MEMORY: Final = "1GB"
_AT: Final = ("product", "prior")
_SHOWN: Final = 12


class _UnfitPrior(Exception):
    """Something is wrong with the prior, at a key of it."""

    def __init__(self, key: str, found: str, allowed: str, remedy: str) -> None:
        self.key, self.problem = key, Problem(found, allowed, remedy)


class PriorInput:
    """The public rows of a prior."""

    def read(self, spec: ReleaseSpec, contract: Contract) -> tuple[ReleaseSpec, PublicPrior]:
        """Read the prior; return the spec with its digests.

        A spec that a version's record tells has the marginals that the version publishes: the file need not be there.

        Raises:
            SpecRefused: the prior cannot be used, with what to do; nothing is charged.
        """
        return _of_version(spec, contract) if spec.path == spec.contract else _of_file(spec, contract)


def _of_version(spec: ReleaseSpec, contract: Contract) -> tuple[ReleaseSpec, PublicPrior]:
    """Return the marginals of the prior that a version publishes, of the digest in its record."""
    from tasks.products.synthetic.prior_checks import prior_of_file  # only what is attacked is read from a version
    from tasks.verification.files.version_folder import read_text_file

    product = spec.synthetic_product
    data, findings = read_text_file(spec.path.parent, PRIOR_FILE)
    if data is not None and product.prior is not None:
        prior, findings = prior_of_file(data, product.prior, product.names(contract), contract)
        if prior is not None:
            return spec, prior
    raise SpecRefused(findings)


def _of_file(spec: ReleaseSpec, contract: Contract) -> tuple[ReleaseSpec, PublicPrior]:
    """Return the spec with the digests of its prior, and the prior's marginals."""
    product = spec.synthetic_product
    assert product.prior is not None
    path = spec.path.parent / product.prior.path
    try:
        sha256, prior = _read(path, product.prior, product.names(contract), contract)
    except _UnfitPrior as error:
        raise SpecRefused([spec.finding((*_AT, error.key), error.problem)]) from None
    digests = {"sha256": sha256, "counts_sha256": digest(prior.to_json())}
    pinned = product.prior.model_copy(update=digests)
    product = product.model_copy(update={"prior": pinned})
    return spec.model_copy(update={"product": product}), prior


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        remedy = "put the file beside the spec, or mend the path"
        raise _UnfitPrior("path", f"{path.name}: {reason}", "a file that can be read", remedy) from None


def _read(path: Path, asked: PriorSpec, names: tuple[str, ...], contract: Contract) -> tuple[str, PublicPrior]:
    """Read a file; return its digest and its marginals."""
    sha256 = _digest(path)
    if asked.sha256 not in (None, sha256):
        remedy = "take the file that was pinned, or write its new digest"
        raise _UnfitPrior("sha256", f"{path.name} with the digest {sha256}", str(asked.sha256), remedy)
    if path.stat().st_size == 0:
        raise _UnfitPrior("path", f"{path.name}, which is empty", "a file with rows", "name another file")
    wanted = tuple(name for name in names if asked.columns is None or name in asked.columns)
    codes = _codes(path, wanted, contract)
    if _digest(path) != sha256:
        raise _UnfitPrior("path", f"{path.name}, which changed while it was read", "a file that stays", "plan again")
    return sha256, prior_of(path.name, CellDomain.of(contract, names), wanted, codes)


def _codes(path: Path, wanted: tuple[str, ...], contract: Contract) -> NDArray[np.int64]:
    """Code the rows by the contract; shape (rows, columns)."""
    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    options = "" if path.suffix == ".parquet" else ", header = true, all_varchar = true"
    relation = f"{reader}({one_file(path)}{options})"

    def unreadable(error: duckdb.Error) -> SudareError | None:
        return None

    with TemporaryDirectory() as folder, connect(None, memory_limit=_MEMORY, spill=Path(folder)) as connection:
        try:
            present = [
                row[0]
                for row in attempt(lambda: connection.execute(f"DESCRIBE FROM {relation}"), unreadable).fetchall()
            ]
            if path.suffix == ".csv":
                _check_heads(path, wanted, connection)
            _check_columns(path, wanted, present)
            (rows,) = attempt(lambda: connection.execute(f"SELECT count(*) FROM {relation}"), unreadable).fetchall()[
                0
            ]
            if rows == 0:
                remedy = "name a file with rows, or drop `prior:`"
                raise _UnfitPrior("path", f"{path.name}, which has no rows", "at least one row", remedy)
            _check_values(path, wanted, contract, relation, connection)
            coded = encode_select(contract, columns_present=present, relation=relation, names=wanted)
            found = attempt(lambda: connection.execute(coded).fetchnumpy(), unreadable)
        except SudareError as error:
            allowed = f"a {path.suffix} file that DuckDB reads"
            remedy = f"write the file again, or give it the ending of what it is: {word_list(FORMATS)}"
            raise _UnfitPrior("path", f"{path.name}: {error}", allowed, remedy) from None
    return np.stack([np.asarray(found[name], dtype=np.int64) for name in wanted], axis=1)


def _check_heads(path: Path, wanted: Sequence[str], connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a column that stands twice in a CSV file's first line: DuckDB gives the second another name."""
    first = f"SELECT * FROM read_csv({one_file(path)}, header = false, all_varchar = true) LIMIT 1"
    heads = [
        str(each).casefold()
        for each in attempt(lambda: connection.execute(first), lambda error: None).fetchone() or ()
    ]
    for name in wanted:
        if heads.count(name.casefold()) > 1:
            remedy = "drop one of them, or rename it"
            raise _UnfitPrior("path", f"{path.name}, with the column {name!r} twice", "each column once", remedy)


def _check_columns(path: Path, wanted: Sequence[str], present: Sequence[str]) -> None:
    have = ", ".join(each for each in wanted if each in present)
    for name in wanted:
        if name not in present:
            said = f"say which it has: `columns: [{have}]`, or add it" if have else "add it, or name another file"
            remedy = nearest(name, present) or said
            raise _UnfitPrior("path", f"{path.name}, without the column {name!r}", word_list(wanted), remedy)


def _check_values(
    path: Path, wanted: Sequence[str], contract: Contract, relation: str, connection: duckdb.DuckDBPyConnection
) -> None:
    """Refuse values that are none of the contract's: a mapped or clipped prior would not be what it says it is.

    All columns are named at once, with their rows. No value is quoted: a file may be declared public by mistake.
    """
    asked: dict[str, list[str]] = {}
    for name in wanted:
        for of, kind, parameters in contract.column(name).domain.checks():
            violated = violation_sql(Check(of, kind, name, parameters, gate=False), contract)
            asked.setdefault(name, []).append(f"COALESCE(TRY({violated}), TRUE)")
    if not asked:
        return
    counted = ", ".join(f"count(*) FILTER (WHERE {' OR '.join(violations)})" for violations in asked.values())
    columns = ", ".join(map(identifier, wanted))
    query = f"SELECT {counted} FROM (SELECT {columns} FROM {relation})"
    found = attempt(lambda: connection.execute(query), lambda error: None).fetchall()[0]
    wrong = [f"{number:,} of {name!r}" for name, number in zip(asked, found, strict=True) if number]
    if wrong:
        shown = ", ".join(wrong[:_SHOWN]) + f" and {len(wrong) - _SHOWN} more columns" * (len(wrong) > _SHOWN)
        what = f"{path.name}: values that are none of the contract's, {shown}"
        remedy = "recode the file by the contract, or leave columns out: `columns: [...]`"
        raise _UnfitPrior("path", what, "values of the contract", remedy)
