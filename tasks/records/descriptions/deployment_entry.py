"""deployment.yaml: the version as an entry of the OpenDP deployments registry, tiers 1 to 3.

The form is that of schemas/deployments-schema.yaml in opendp/deployments-registry-data at commit
aebc41b9e4ca5d2d5355c18fa6ee02e752fcb0d5: `url_slug`, `status` and `tier` at the top, `deployment` below with the
groups that are written here, and no other key. What the record has no source for is left out. The first lines name
what the schema requires of it, and what to declare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import yaml

from contracts.message import Message
from tasks.records.model.record_kinds import record_part
from tasks.records.page.first_screen import further, loss_unit, subject
from tasks.records.public_text import bullets, plain, public_field, says_anything, sentence
from tasks.records.record import RecordExplanation
from tasks.records.values import Values

SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy")
_USES = "a purpose in the contract's description, or audience: or permitted_uses:"
REQUIRED: Final = {
    "product.name": "a name in the contract",
    "product.data_curators": "curator: who publishes",
    "product.description": "population: in the contract",
    "product.intended_use": _USES,
    "product.data_product_type": "product: in the spec",
    "product.data_product_region": "region: where the people are, or whose law holds",
    "product.publication_date": "nothing: the run knows it",
}
TIERS: Final = {
    2: ("dp_flavor.name", "privacy_loss.privacy_unit", "model.model_name"),
    3: ("model.actors", "implementation.pre_processing_eda_hyperparameter_tuning", "implementation.justification"),
}
_WIDTH: Final = 110
_MOST_DRAWS: Final = 12


def deployment_yaml(explanation: RecordExplanation) -> bytes:
    """Write the registry entry of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        bytes: YAML in UTF-8; what is missing of the registry's required fields stands in comments on top.
    Privacy: reads the public record only.
    """
    entry = deployment(explanation)
    return entry_yaml(explanation, entry, {path: REQUIRED[path] for path in missing_fields(entry["deployment"])})


def entry_yaml(explanation: RecordExplanation, entry: dict[str, Any], missing: Mapping[str, str]) -> bytes:
    """Write an entry of the registry as YAML, with what nobody declared in comments on top.

    Args:
        explanation: gives the title.
        entry: the entry.
        missing: what to declare for each required field that is not there.
    """
    head = [f"# Written by Sudare from record.json of {explanation.title}; verify checks it."]
    if missing:
        head.append("# The registry requires what nobody declared. Write in about: of the spec, or in [publisher] of")
        head.append("# sudare.toml, and the next version has it:")
        head += [f"#   {path}: {remedy}" for path, remedy in missing.items()]
    body = yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return ("\n".join(head) + "\n" + body).encode()


def deployment(explanation: RecordExplanation) -> dict[str, Any]:
    """Return the entry; parts that the record has no source for are left out."""
    values, record = explanation.values, explanation.record
    parts = {
        "product": _product(values),
        "dp_flavor": _flavor(values),
        "privacy_loss": _loss(values),
        "model": _model(values, record),
        "accounting": _accounting(values),
        "implementation": _implementation(values),
    }
    kept = {
        name: {key: part for key, part in fields.items() if says_anything(part)} for name, fields in parts.items()
    }
    version = (
        plain(values.get("noise.packages", {}).get("sudare"))
        if isinstance(values.get("noise.packages"), dict)
        else ""
    )
    kept["resources"] = {
        "sources": _sources(values, record),
        "registry_authors": [f"Sudare {version}".strip() + f", from the record of {record['release']}"],
    }
    named = {"url_slug": f"{_slug(record['release'])}-v{record['version']}", "status": "Draft", "tier": _tier(kept)}
    return {**named, "deployment": {name: fields for name, fields in kept.items() if fields}}


def missing_fields(entry: dict[str, Any]) -> list[str]:
    """List the fields that the registry requires and the entry has not."""
    return [path for path in REQUIRED if not _has(entry, path)]


def _has(entry: dict[str, Any], path: str) -> bool:
    part, _, field = path.partition(".")
    return field in entry.get(part, {})


def _tier(entry: dict[str, Any]) -> int:
    """Find the highest tier all of whose fields, and those of the tiers below, are there."""
    if not all(_has(entry, path) for path in (*REQUIRED, *TIERS[2])):
        return 1
    return 3 if all(_has(entry, path) for path in TIERS[3]) else 2


def _product(values: Values) -> dict[str, Any]:
    curator, sector = sentence(values, "accountability.curator"), sentence(values, "identity.sector")
    place, when = sentence(values, "identity.region"), plain(values["identity.measured_hour"])[:10]
    return {
        "name": plain(values["identity.title"]),
        "data_curators": [curator] if curator else None,
        "description": _description(values),
        "intended_use": bullets(
            sentence(values, "accountability.purpose"),
            _labelled("For", values, "accountability.audience"),
            *_uses(values),
        ),
        "data_product_type": record_part(values["identity.product_type"]).words.registered,
        "data_product_region": place,
        "data_product_sector": next((name for name in SECTORS if name.casefold() == sector.casefold()), None),
        "publication_date": when,
    }


def _uses(values: Values) -> Iterator[str]:
    uses = public_field(values, "limits.permitted_uses")
    yield from (plain(use) for use in (uses if isinstance(uses, list) else [uses]) if says_anything(use))


def _description(values: Values) -> str:
    made = record_part(values["identity.product_type"]).words.made
    return (
        f"{made} about {plain(values['source.population'])} ({plain(values['source.time_block'])}), version "
        f"{values['identity.version']} of {values['identity.release_id']}."
    )


def _flavor(values: Values) -> dict[str, Any]:
    columns = values["contract.columns"]
    names = ", ".join(column["name"] for column in columns) if isinstance(columns, list) else plain(columns)
    return {
        "name": "Pure DP" if values["guarantee.delta"] == "0" else "Approximate DP",
        "data_domain": (
            f"All tables with the columns {names}, each with the domain that contract "
            f"{values['contract.contract_id']} "
            f"{values['contract.contract_version']} declares, about {plain(values['source.population'])} in "
            f"{plain(values['source.time_block'])}."
        ),
        "unprotected_quantities": bullets(*map(plain, values["unprotected.quantities"])),
    }


def _loss(values: Values) -> dict[str, Any]:
    parameters = {"epsilon": _number(values["guarantee.epsilon"])}
    if values["guarantee.delta"] != "0":
        parameters["delta"] = _number(values["guarantee.delta"])
    account = values["ledger.account_epsilon"]
    return {
        "privacy_unit": subject(values),
        "privacy_unit_description": bullets(
            sentence(values, "unit.neighbours"),
            sentence(values, "unit.truncation"),
            sentence(values, "unit.group_privacy"),
        ),
        "privacy_parameters": parameters,
        "privacy_parameters_description": bullets(
            sentence(values, "guarantee.definition"),
            sentence(values, "guarantee.delta_rationale"),
            f"Charged to the account {values['ledger.account']}, whose cap is epsilon {account['cap']} at delta "
            f"{account['delta']} over all its releases together.",
        ),
    }


def _model(values: Values, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": sentence(values, "source.trust_model"),
        "release_type": "Many releases" if record["version"] > 1 else "One release",
        "release_type_description": bullets(
            f"This is version {record['version']}, which claims {_claim(values)}. Every version is charged to the "
            f"account {values['ledger.account']}.",
            _further(values),
            f"In the account's own units ({loss_unit(values)}) {values['ledger.left']} of "
            f"{values['ledger.cap']} was left "
            "after this version.",
            _labelled("A new account is opened", values, "ledger.refresh_rule"),
        ),
        "data_source_type": "Static",
        "data_source_type_description": (
            f"One snapshot of the table, for {plain(values['source.time_block'])}; {_another(values)} makes another "
            "version."
        ),
        "access_type": "Non-interactive",
    }


def _claim(values: Values) -> str:
    return f"epsilon {values['guarantee.epsilon']} at delta {values['guarantee.delta']}"


def _further(values: Values) -> str:
    """Say which epsilon one more release can have, by its noise."""
    fits, delta = further(values), values["ledger.account_epsilon"]["delta"]
    noises = {"laplace": "Laplace noise", "gaussian": f"Gaussian noise (delta {delta})"}
    parts = [f"epsilon {epsilon} with {noises[noise]}" for noise, epsilon in fits.items() if epsilon is not None]
    if not parts:
        return "After this version the account could give nothing more."
    return f"After this version one more release could have {', or '.join(parts)}."


def _another(values: Values) -> str:
    return (
        "another snapshot"
        if values.get("identity.due", "none") == "none"
        else "each due date, whatever the rows are,"
    )


def _accounting(values: Values) -> dict[str, Any]:
    return {
        "post_processing": bullets(*_processing(values)),
        "composition": bullets(sentence(values, "guarantee.conversion"), sentence(values, "ledger.composition")),
    }


def _implementation(values: Values) -> dict[str, Any]:
    return {
        "pre_processing_eda_hyperparameter_tuning": bullets(
            *(f"{step['step']}: {step['what']} ({step['accounted']})" for step in values["preprocessing.steps"]),
            _labelled("Exploratory access", values, "preprocessing.exploratory_access"),
            _labelled("Hyperparameter search", values, "preprocessing.hyperparameter_search"),
            _labelled("Feature selection", values, "preprocessing.feature_selection"),
        ),
        "mechanisms": bullets(
            sentence(values, "noise.mechanism"),
            *_draws(values),
            *(plain(sampler) for sampler in values["noise.samplers"]),
            _labelled("Entropy", values, "noise.entropy"),
            _labelled("Timing", values, "noise.timing_policy"),
            f"Source files that ran: SHA-256 {plain(values['noise.code'])}",
        ),
        "justification": bullets(
            sentence(values, "accountability.rationale"), sentence(values, "guarantee.delta_rationale")
        ),
    }


def _draws(values: Values) -> Iterator[str]:
    draws = values["ledger.draws"]
    for draw in draws[:_MOST_DRAWS]:
        noise = draw.get("noise") or plain(draw["event"].get("kind", "")).replace("_", " ")
        yield f"{draw['key']}: {plain(noise)}, cost {plain(draw['cost'])}"
    if len(draws) > _MOST_DRAWS:
        yield f"{len(draws) - _MOST_DRAWS} more draws are in record.json"


def _processing(values: Values) -> Iterator[str]:
    tables = public_field(values, "product.tables")
    if isinstance(tables, list):
        for table in tables[:_MOST_DRAWS]:
            yield f"{table['table']}: {plain(table['steps'])}"
    for path in (
        "product.network",
        "product.clamped",
        "product.model",
        "product.sampling",
        "product.decoding",
        "product.constraints",
        "product.known_bias",
    ):
        if sentence(values, path):
            yield sentence(values, path)


def _labelled(label: str, values: Values, path: str) -> str:
    text = sentence(values, path)
    return f"{label}: {text}" if text else ""


def _sources(values: Values, record: dict[str, Any]) -> str:
    return bullets(
        f"Audit record of {record['release']} v{record['version']}: record.json, under the signed MANIFEST.json",
        f"To check a copy offline: {plain(values['integrity.verify_command'])}",
        _labelled("Known limits of the data", values, "contract.limitations"),
        _labelled("Contact", values, "accountability.contact"),
    )


def _number(amount: str) -> int | float:
    """Write an amount as a number; the exact decimal text is in the record."""
    exact = Decimal(amount)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(Message, _text)
