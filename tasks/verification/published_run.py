"""A run as its version publishes it: what fields of the record are filled from again, where they need no more.

A field of the record is a function of a run. The checker puts what is published in the place of the run: contract,
product and charge, the journal's entries of the run, its accounts. A function that asks for more raises
`Unpublished`; then its field is the publisher's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from contracts.contract.check_terms import checks
from contracts.contract.contract import Contract
from contracts.release.spec import TablesProduct
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.entries import Entry
from privacy.ledger.terms import (
    TERMS,
    AccountState,
    Charge,
    ChargePart,
    ChargeRequest,
    VersionEntry,
    request_from_json,
    terms_from_json,
)
from privacy.refine.total import draws_total
from privacy.table_plans.plan import TablesPlan, plan_product
from tasks.records.facts import reservation
from tasks.records.groups.field import NOT_AVAILABLE, Run
from tasks.records.model.version_statements import ChargeStatement, Proof, RecordTerms
from tasks.records.software import software


class Unpublished(LookupError):
    """The version does not publish what was asked for."""


class Published:
    """An object of which only some attributes are published."""

    def __init__(self, **known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        """Return what is published under a name.

        Raises:
            Unpublished: nothing is.
        """
        known = self.__dict__["_known"]
        if name not in known:
            raise Unpublished(name)
        return known[name]


def published_run(record: RecordTerms, proof: Proof) -> Run:
    """Return a run of which only what the version publishes is known.

    Args:
        record: the record; its replay part was checked against journal and files.
        proof: the journal's entries of the run.
    Privacy: reads published statements only.
    """
    replay = record.replay
    contract = Contract.model_validate(replay.contract)
    entries = tuple(_entry(vars(each.entry)) for each in proof.entries if _of_the_run(each.entry.kind))
    reserved = next(entry.body for entry in reversed(entries) if entry.kind == "charge_reserved")
    published = next(each.entry.body for each in proof.entries if each.entry.kind == "version_published")
    accounts = _accounts(proof, entries, reserved["account"])
    kind, execution = replay.product["kind"], getattr(replay, "execution", None)
    in_tables = kind == "tables" and execution is None
    known: dict[str, Any] = {
        "run_key": reserved["run_key"],
        "spec": _spec(record, kind),
        "contract": contract,
        "charge": _charge(reserved, entries),
        "account": accounts[0],
        "beside": accounts[1:],
        "entries": entries,
        "outcomes": tuple(Published(name=check.name, gate=check.gate) for check in checks(contract)),
        "version": VersionEntry(record.release, record.version, reserved["run_key"], "allocated", None),
        "supersedes": published["supersedes"],
        "started": entries[0].at,
        "finished": entries[-1].at,
        "software": _software(),
        "about": Published(contact=_declared_contact(record)),
        "of_tables": in_tables,
        "execution": execution,
        **({"classifier": None} if kind != "model" else {}),
        **({"synthesis": None} if kind != "synthetic" else {}),
        **(_planned(record, contract, accounts, reserved) if in_tables else {}),
    }
    return cast(Run, Published(facts=Published(**known)))


def _of_the_run(kind: str) -> bool:
    return kind != "account_opened" and not kind.startswith("version_")


def _entry(stated: Mapping[str, Any]) -> Entry:
    return Entry(**{name: stated[name] for name in ("sequence", "previous", "kind", "at", "body")})


def _accounts(proof: Proof, entries: tuple[Entry, ...], named: str) -> tuple[AccountState, ...]:
    """Return the charged accounts as the charge left them, the named one first."""
    openings = [each.entry.body for each in proof.entries if each.entry.kind == "account_opened"]
    opened = {body["name"]: body for body in openings}
    taken = reservation(entries)
    return tuple(
        AccountState(
            terms_from_json({term: opened[name][term] for term in TERMS}),
            opened[name]["cap"],
            taken[name]["after"],
            "open",
        )
        for name in sorted(taken, key=lambda name: (name != named, name))
    )


def _charge(reserved: Mapping[str, Any], entries: tuple[Entry, ...]) -> Charge:
    names = {field.name for field in fields(ChargeRequest)}
    request = request_from_json({"source": "", **{name: reserved[name] for name in names - {"source"}}})
    security = next(entry.body["security"] for entry in entries if entry.kind == "grant_opened")
    parts = tuple(ChargePart(part["account"], part["amount"]) for part in reserved["parts"])
    return Charge(request, parts, "opened", security)


def _spec(record: RecordTerms, kind: str) -> Published:
    replay = record.replay
    product = TablesProduct.model_validate(replay.product) if kind == "tables" else Published(**replay.product)
    return Published(
        release=record.release,
        due=replay.due,
        product=product,
        publish=Published(formulas=replay.formulas),
        **({"tables_product": product} if kind == "tables" else {}),
        **({"synthetic_product": product} if kind == "synthetic" else {}),
    )


def _planned(
    record: RecordTerms, contract: Contract, accounts: tuple[AccountState, ...], reserved: Mapping[str, Any]
) -> dict[str, TablesPlan]:
    """Plan the tables again; a plan whose events are not those that were charged is not the run's."""
    product, charge = TablesProduct.model_validate(record.replay.product), record.replay.charge
    plan = plan_product(
        product,
        contract,
        epsilon=_planned_epsilon(charge),
        delta=Decimal(charge.delta),
        pure_account=any(isinstance(account.terms.calculus, PureCalculus) for account in accounts),
        with_total=draws_total(product, contract),
    )
    same = [event.to_json() for event in plan.events] == list(reserved["events"])
    return {"tables_plan": plan, "plan": plan} if same else {}


def _planned_epsilon(charge: ChargeStatement) -> Decimal:
    planned: Fraction = charge.planned_for
    return Decimal(planned.numerator) / Decimal(planned.denominator)


def _software() -> Published:
    """Tell of the software what the digest of the code, which is that of the code here, decides."""
    here = software()
    return Published(code=here.code, platform=here.platform, audits=here.audits, audited_code=here.audited_code)


def _declared_contact(record: RecordTerms) -> str | None:
    """Return whom people may write to, as the publisher declares it."""
    group = record.groups.get("accountability")
    field = None if group is None else group.fields.get("contact")
    return None if field is None or field.value == NOT_AVAILABLE else str(field.value)
