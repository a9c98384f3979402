"""Does the record tell people what its replay part says? The fields with an exact counterpart, in the groups' order.

The other fields are prose, or facts that only the publisher knows; nothing in a version can confirm them.
"""

from __future__ import annotations

from typing import Any, Final

from contracts.contract.spreadsheet import stated
from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.ledger.entries import is_to_the_hour
from privacy.refine.intervals import told_interval
from tasks.records.model.version_statements import ListedStatement, Manifest, Record, RecordTerms, TableStatement
from tasks.records.sentences import OF_A_PERIOD
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES

EXACT: Final = frozenset(
    {
        *(f"identity.{name}" for name in ("release_id", "version", "due", "supersedes", "reference_period")),
        *("unit.scope", "unit.adjacency", "unit.rows_per_unit", "guarantee.epsilon", "guarantee.delta"),
        *(f"ledger.{name}" for name in ("account", "cap", "before", "charged", "after", "left", "run")),
        *("output.formulas", "integrity.draw_digests", "integrity.spec_digest", "integrity.contract_digest"),
    }
)
"""The fields that `_expected` derives whatever code wrote the record."""
_LISTED: Final = ("cells", "threshold", "listed_noisy", "listed_refined", "absent_interval")
_MISLEADING: Final = "the record tells people something else than what was computed: rely on the replayed value"


def check_told(record: RecordTerms, run: JournalledRun | None, manifest: Manifest, *, where: str) -> list[Finding]:
    """Compare the fields for people with the exact values they stand for.

    Args:
        record: the record.
        run: the run as the journal has it, where it could be read.
        manifest: the manifest; gives the files' digests.
        where: the record's file name.
    """
    findings = []
    for path, expected in _expected(record, run, manifest).items():
        section, _, name = path.partition(".")
        group = record.groups.get(section)
        field = group.fields.get(name) if group is not None else None
        if field is None or field.value != expected:
            found = "nothing" if field is None else _difference(field.value, expected)
            allowed = f"{_difference(expected, field.value if field else None)}, as it was computed"
            findings.append(Finding(where, f"groups.{path}", found, allowed, _MISLEADING))
    if isinstance(record, Record):
        findings += _check_refinement(record, where)
    findings += _check_period(record, run, where)
    findings += _check_times(run)
    return findings + _check_listed_files(record, manifest, where)


def _check_period(record: RecordTerms, run: JournalledRun | None, where: str) -> list[Finding]:
    """Compare the period whose rows people are told were taken with the days that were charged."""
    group = record.groups.get("preprocessing")
    field = group.fields.get("steps") if group is not None else None
    listed = field.value if field is not None and isinstance(field.value, list) else []
    told = [entry.get("what") for entry in listed if isinstance(entry, dict) and entry.get("step") == OF_A_PERIOD]
    if run is None or (run.charge.days is None and not told):
        return []
    days = run.charge.days
    if days is not None and len(told) == 1 and str(told[0]).endswith(f" in {days}"):
        return []
    allowed = "no period: the charge is for all rows" if days is None else f"one step, rows in {shown(days)}"
    return [
        Finding(
            where,
            "groups.preprocessing.steps, rows of one period",
            shown(told[0] if len(told) == 1 else told),
            allowed,
            _MISLEADING,
        )
    ]


def _check_times(run: JournalledRun | None) -> list[Finding]:
    """Check that the proof tells times to the hour alone."""
    finer = [] if run is None else [at for at in run.times if not is_to_the_hour(at)]
    if not finer:
        return []
    found, allowed = f"{len(finer)} time(s) such as {shown(finer[0])}", "times cut to the hour"
    remedy = "how long a step took may tell of the rows: tell the publisher, and do not pass the file on"
    return [Finding("PROOF.json", "times of entries and checkpoint", found, allowed, remedy)]


def _check_refinement(record: Record, where: str) -> list[Finding]:
    """Compare what people are told of each table's refinement with what is replayed."""
    group = record.groups.get("product")
    field = group.fields.get("tables") if group is not None else None
    listed = field.value if field is not None and isinstance(field.value, list) else []
    told = {str(entry.get("table")): entry for entry in listed if isinstance(entry, dict)}
    drawn = {draw.key: draw.listed for draw in record.replay.draws}
    findings = []
    for table in record.replay.tables:
        entry, together = told.get(table.name, {}), table.disagreement is not None
        stated = {name: entry.get(name) for name in ("method", "lambda")} | _errors(entry.get("estimated_rmse"))
        stated |= {"chosen": entry.get("chosen", "none") != "none", "interval": entry.get("interval")}
        stated["disagreement"] = entry.get("disagreement")
        stated["chosen on"], named = entry.get("chosen"), _reference(record)
        expected_on = entry.get("chosen") if table.chosen is None or named in str(entry.get("chosen")) else named
        expected: dict[str, Any] = {"method": table.method, "lambda": table.lambda_ or "none"}
        expected |= _errors(table.estimated_rmse)
        expected |= {"chosen": table.chosen is not None, "interval": told_interval(table.method, consistent=together)}
        expected["disagreement"] = table.disagreement or "none"
        stated |= _list_told(entry.get("form", "dense"), entry.get("listed"))
        expected |= _list_expected(table, drawn.get(f"table:{table.name}"))
        expected["chosen on"] = expected_on
        if stated != expected:
            allowed = f"{_difference(expected, stated)}, as it was computed"
            at = printable(f"groups.product.tables, {table.name}")
            findings.append(Finding(where, at, _difference(stated, expected), allowed, _MISLEADING))
    return findings


def _list_told(form: Any, listed: Any) -> dict[str, Any]:
    """Give what people are told of the form of a table, and of the cells that it lists."""
    told = {f"listed.{name}": listed.get(name) for name in _LISTED} if isinstance(listed, dict) else {}
    return {"form": form, **told}


def _list_expected(table: TableStatement, drawn: ListedStatement | None) -> dict[str, Any]:
    """Give what people must be told of it."""
    if table.listed is None or drawn is None:
        return {"form": "dense"}
    interval = [0, table.listed.absent_upper]
    values = (drawn.cells, drawn.threshold, drawn.rows, table.listed.rows, interval)
    return {"form": "sparse", **{f"listed.{name}": value for name, value in zip(_LISTED, values, strict=True)}}


def _reference(record: Record) -> str:
    """Name the version on which λ was chosen as people are told of it; nothing where there is none."""
    reference = record.replay.reference
    if reference is None:
        return ""
    return f"{reference.release} v{reference.version} (MANIFEST.json {reference.manifest})"


def _errors(stated: Any) -> dict[str, Any]:
    """List estimated errors one by one; of what is none, nothing."""
    return {f"estimated_rmse of {name}": error for name, error in stated.items()} if isinstance(stated, dict) else {}


def _check_listed_files(record: RecordTerms, manifest: Manifest, where: str) -> list[Finding]:
    """Compare the record's list of data files with the manifest."""
    group = record.groups.get("output")
    field = group.fields.get("files") if group is not None else None
    listed = field.value if field is not None and isinstance(field.value, list) else []
    told = {
        str(file.get("path")): {"sha256": file.get("sha256"), "bytes": file.get("bytes")}
        for file in listed
        if isinstance(file, dict)
    }
    about = FIXED_FILES | DESCRIPTIONS
    signed = {name: file.model_dump() for name, file in manifest.files.items() if name not in about}
    return [
        Finding(
            where,
            printable(f"groups.output.files, {name}"),
            _difference(told.get(name, "nothing"), signed.get(name)),
            f"{_difference(signed.get(name, 'nothing'), told.get(name))}, as in the manifest",
            _MISLEADING,
        )
        for name in sorted({*told, *signed})
        if told.get(name) != signed.get(name)
    ]


def _expected(record: RecordTerms, run: JournalledRun | None, manifest: Manifest) -> dict[str, Any]:
    """Give what each checked field must say."""
    replay = record.replay
    expected = {
        "identity.release_id": record.release,
        "identity.version": record.version,
        "unit.scope": _scope(replay.contract),
        "unit.adjacency": replay.adjacency,
        "unit.rows_per_unit": replay.rows_per_unit,
        "guarantee.epsilon": pico_to_text(replay.claim.epsilon),
        "guarantee.delta": atto_to_text(replay.claim.delta),
        "ledger.account": replay.charge.account,
        "ledger.cap": pico_to_text(replay.cap),
        "ledger.before": pico_to_text(replay.before),
        "ledger.charged": pico_to_text(replay.amount),
        "ledger.after": pico_to_text(replay.after),
        "ledger.left": pico_to_text(replay.cap - replay.after),
        "output.formulas": stated(replay.formulas),
        "integrity.draw_digests": {draw.key: draw.sha256 for draw in replay.draws},
        "integrity.spec_digest": replay.spec_digest,
        "integrity.contract_digest": replay.contract_digest,
        "identity.due": replay.due or "none",
    }
    if run is None:
        return expected
    expected |= {"ledger.run": run.charge.run_key, "identity.supersedes": run.published.supersedes or "none"}
    account = run.accounts.get(run.charge.account)
    return expected if account is None else {**expected, "identity.reference_period": account.block}


def _scope(contract: dict[str, Any]) -> Any:
    """Give the scope of the recorded contract's unit; None where it has none, which is a finding of its own."""
    unit = contract.get("unit")
    return unit.get("scope") if isinstance(unit, dict) else None


def _difference(value: Any, other: Any) -> str:
    """Show a value, or of an object the first entry in which it differs from another."""
    if isinstance(value, dict) and isinstance(other, dict):
        for key in sorted({*value, *other}):
            if value.get(key) != other.get(key):
                return f"{printable(key)}: {shown(value.get(key))}"
    return shown(value)
