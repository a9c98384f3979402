"""A version of counts by place, for those who use it and do not check it: each file only as the manifest has it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.product import SpineProduct
from privacy.accounting.events import event_from_json
from privacy.marginals.count_noise import variance
from privacy.table_plans.spine_plan import SpinePlan, plan_spine, with_variances
from tasks.products.spine.spine_meaning import read_spine
from tasks.products.version_records import RECORD, kind_of, understood
from tasks.records.spine.spine_fields import SpineRecord
from tasks.records.spine.spine_files import TOTAL, read_trees, with_invariants
from tasks.records.strict_json import printable
from tasks.verification.files.folder import ManifestFiles

KIND: Final = "spine"
UNREADABLE: Final = (OSError, ValueError, LookupError, pa.ArrowException)


@dataclass(frozen=True, eq=False)
class SpineVersion:
    """What a version of counts by place is about.

    Args:
        files: of the version.
        record: its record.
        contract, product, plan, tree: of the version; the plan with the variances that its draws had.
    """

    files: ManifestFiles
    record: SpineRecord
    contract: Contract
    product: SpineProduct
    plan: SpinePlan
    tree: PlaceTree


def spine_version(folder: Path) -> SpineVersion:
    """Read a version of counts by place, but for its counts.

    Args:
        folder: the version's folder, links resolved.
    Raises:
        SpecRefused: it is no such version, or its files are not those of its record.
    """
    files = ManifestFiles(folder)
    files.open(RECORD).close()
    if (kind := kind_of(folder)) not in (None, KIND):
        found, remedy = f"a version of kind {printable(str(kind))}", "name a version of kind spine (counts by place)"
        allowed = "counts by place: sudare interval is for no other kind"
        raise SpecRefused([Finding(printable(str(folder)), "version", found, allowed, remedy)])
    record, meaning = understood(
        folder,
        SpineRecord,
        lambda found: read_spine(found.replay, where=RECORD),
        found="no record of counts by place that can be read",
        remedy="name the folder of a version of kind spine; sudare verify says what is wrong with it",
    )
    replay, product, contract = record.replay, meaning.product, meaning.contract
    labels = contract.column(product.spine.column).labels
    try:
        tree = read_trees(lambda name: _table(files, name), product, labels)
        tree = with_invariants(tree, product, contract, lambda name, _: column_of(files, name, TOTAL))
        if tree.sha256 != product.spine.sha256:
            raise ValueError("other places than those of the record")
        charge = {"epsilon": Decimal(replay.charge.epsilon), "delta": Decimal(replay.charge.delta)}
        plan = plan_spine(product, contract, sizes=replay.sizes, tree=tree, **charge)
        spreads = [variance(event_from_json(draw.event)) for draw in replay.draws]  # type: ignore[arg-type]
        plan = with_variances(plan, spreads)
    except UNREADABLE as error:
        raise unreadable(str(folder), str(error)) from None
    return SpineVersion(files, record, contract, product, plan, tree)


def column_of(files: ManifestFiles, name: str, column: str) -> NDArray[np.int64]:
    """Return a column of whole numbers of a file."""
    with files.open(name) as file:
        values = pq.read_table(file, columns=[column]).column(0)
    return np.asarray(pc.cast(values, pa.int64()).to_numpy())


def _table(files: ManifestFiles, name: str) -> pa.Table:
    with files.open(name) as file:
        return pq.read_table(file)


def unreadable(where: str, found: str) -> SpecRefused:
    """Refuse what cannot be read although it is the file that the manifest states."""
    remedy = "see what is wrong with this version: sudare verify VERSION_DIR"
    text = printable((found.splitlines() or ["nothing that can be read"])[0])
    return SpecRefused([Finding(printable(where), "version", text, "files as published", remedy)])
