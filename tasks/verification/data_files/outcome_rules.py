"""Rules 8 and 9: do the published values follow from what was drawn, and are the files written as they must be?"""

from __future__ import annotations

from tasks.records.model.manifest import Manifest
from tasks.verification.data_files.parquet_footer import check_footers, check_parts
from tasks.verification.data_files.rewriting import check_shapes, check_written
from tasks.verification.files.folder import VersionFolder
from tasks.verification.outcomes import RuleFindings
from tasks.verification.product_checks import ProductChecks


def check_outcome(
    product: ProductChecks | None,
    folder: VersionFolder,
    manifest: Manifest | None,
    sound: frozenset[str],
    *,
    passed: bool,
    where: str,
) -> tuple[RuleFindings, RuleFindings]:
    """Replay the product; where nothing is wrong with it, look at how its files are written.

    Args:
        product: the record's checks; None where it cannot be read.
        folder: the version's files.
        manifest: None unless it is signed.
        sound: the files whose checksum is that of the manifest.
        passed: whether rules 5 to 7 hold.
        where: the record's file name.
    Returns:
        tuple: of each of the two rules what is wrong, and what could not be checked.
    """
    if manifest is None:
        why = ["the tables: without a signed manifest they are not opened"]
        return ([], why), ([], why)
    made = None if product is None else product.replay(folder, manifest, sound)
    if product is None or made is None:
        why = ["the tables: no readable and consistent record of how they were made"]
        return ([], why), ([], why)
    measured, again = made
    if measured[0] or again[0]:
        return made
    again = check_parts(folder, manifest, sound, again)
    exact = {name for name, form in product.forms().items() if form.exact}
    again[0].extend(check_footers(folder, manifest, sound - exact))
    if not again[0] and passed:
        again[0].extend(check_written(folder, manifest, sound, product))
        again[0].extend(check_shapes(folder, manifest, sound, product.record, where=where))
    return measured, again
