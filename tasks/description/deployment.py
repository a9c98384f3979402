"""deployment.yaml: the version as an entry of the OpenDP deployments registry, tiers 1 to 3.

The form is that of opendp/deployments-registry-data at commit 406334b42a035ea1f22388239e779a122a273a7d: `url_slug`,
`status` and `tier` at the top, `deployment` below with the groups that are written here, and no other key. What the
record has no source for is left out and named in the first lines: a person fills it in before the entry is sent to
the registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import yaml

from tasks.description.told import Values, bullets, plain, public_values, said, sentence, told
from tasks.page.words import subject

SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
CURATORS: Final = {"government": "Government", "nonprofit": "Nonprofit", "industry": "Industry"}
PRODUCTS: Final = {"tables": "Summary statistics", "synthetic": "Synthetic data", "model": "Machine learning model"}
REQUIRED: Final = (
    "basic.name",
    "basic.data_curators",
    "basic.description",
    "basic.intended_use",
    "basic.data_product_type",
    "basic.data_product_region",
    "basic.publication_date",
)
TIERS: Final = {
    2: ("dp_variant.variant_name", "privacy_loss.privacy_unit", "deployment_model.model_name"),
    3: (
        "deployment_model.actors",
        "implementation.preprocessing_and_hyperparameter_tuning",
        "implementation.justification",
    ),
}
_MADE: Final = {"tables": "Tables of noisy counts", "synthetic": "Synthetic rows", "model": "A classifier"}
_WIDTH: Final = 110
_MOST_DRAWS: Final = 12


def deployment_yaml(record: dict[str, Any]) -> bytes:
    """Write the registry entry of a version.

    Args:
        record: the public record.
    Returns:
        bytes: YAML in UTF-8; what is missing of the registry's required fields stands in comments on top.
    Privacy: reads the public record only.
    """
    entry = deployment(record)
    missing = missing_fields(entry["deployment"])
    head = [f"# Written by Sudare from record.json of {record['release']} v{record['version']}; verify checks it."]
    if missing:
        head.append("# Required by the registry, and declared nowhere: " + ", ".join(missing) + ".")
    body = yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return ("\n".join(head) + "\n" + body).encode()


def deployment(record: dict[str, Any]) -> dict[str, Any]:
    """Return the entry; parts that the record has no source for are left out."""
    values = public_values(record)
    parts = {
        "basic": _basic(values),
        "dp_variant": _variant(values),
        "privacy_loss": _loss(values),
        "deployment_model": _model(values, record),
        "accounting": _accounting(values),
        "implementation": _implementation(values),
    }
    kept = {name: {key: part for key, part in fields.items() if said(part)} for name, fields in parts.items()}
    version = plain(values.get("J.packages", {}).get("sudare")) if isinstance(values.get("J.packages"), dict) else ""
    kept["administrative"] = {
        "sources": _sources(values, record),
        "registry_authors": [f"Sudare {version}".strip() + f", from the record of {record['release']}"],
    }
    named = {"url_slug": f"{_slug(record['release'])}-v{record['version']}", "status": "Draft", "tier": _tier(kept)}
    return {**named, "deployment": {name: fields for name, fields in kept.items() if fields}}


def missing_fields(entry: dict[str, Any]) -> list[str]:
    """List the fields that the registry requires and the entry has not."""
    missing = [path for path in REQUIRED if not _has(entry, path)]
    for curator in entry["basic"].get("data_curators", []):
        if "data_curator_type" not in curator:
            missing.append("basic.data_curators.data_curator_type")
    return missing


def _has(entry: dict[str, Any], path: str) -> bool:
    part, _, field = path.partition(".")
    return field in entry.get(part, {})


def _tier(entry: dict[str, Any]) -> int:
    """Find the highest tier all of whose fields, and those of the tiers below, are there."""
    if not all(_has(entry, path) for path in (*REQUIRED, *TIERS[2])):
        return 1
    return 3 if all(_has(entry, path) for path in TIERS[3]) else 2


def _basic(values: Values) -> dict[str, Any]:
    curator, sector = sentence(values, "B.curator"), sentence(values, "A.sector")
    kind = CURATORS.get(sector.casefold())
    named: dict[str, Any] = {"data_curator_name": curator} | ({"data_curator_type": kind} if kind else {})
    place, when = sentence(values, "A.region"), plain(values["A.measured_hour"])[:10]
    return {
        "name": plain(values["A.title"]),
        "data_curators": [named] if curator else None,
        "description": _description(values),
        "intended_use": bullets(
            sentence(values, "B.purpose"), _labelled("For", values, "B.audience"), *_uses(values)
        ),
        "data_product_type": PRODUCTS.get(values["A.product_type"], "Dataset"),
        "data_product_region": place,
        "data_product_sector": next((name for name in SECTORS if name.casefold() == sector.casefold()), None),
        "publication_date": when,
    }


def _uses(values: Values) -> Iterator[str]:
    uses = told(values, "N.permitted_uses")
    yield from (plain(use) for use in (uses if isinstance(uses, list) else [uses]) if said(use))


def _description(values: Values) -> str:
    made = _MADE.get(values["A.product_type"], "Data")
    return (
        f"{made} about {plain(values['C.population'])} ({plain(values['C.time_block'])}), version "
        f"{values['A.version']} of {values['A.release_id']}."
    )


def _variant(values: Values) -> dict[str, Any]:
    columns = values["D.columns"]
    names = ", ".join(column["name"] for column in columns) if isinstance(columns, list) else plain(columns)
    return {
        "variant_name": "Pure DP" if values["F.delta"] == "0" else "Approximate DP",
        "data_domain": (
            f"All tables with the columns {names}, each with the domain that contract {values['D.contract_id']} "
            f"{values['D.contract_version']} declares, about {plain(values['C.population'])} in "
            f"{plain(values['C.time_block'])}."
        ),
        "unprotected_quantities": bullets(*map(plain, values["H.quantities"])),
    }


def _loss(values: Values) -> dict[str, Any]:
    parameters = {"epsilon": _number(values["F.epsilon"])}
    if values["F.delta"] != "0":
        parameters["delta"] = _number(values["F.delta"])
    account = values["G.account_epsilon"]
    return {
        "privacy_unit": subject(values),
        "privacy_unit_details": bullets(
            sentence(values, "E.neighbours"), sentence(values, "E.truncation"), sentence(values, "E.group_privacy")
        ),
        "privacy_parameters": parameters,
        "privacy_parameters_details": bullets(
            sentence(values, "F.definition"),
            sentence(values, "F.delta_rationale"),
            f"Charged to the account {values['G.account']}: its cap is epsilon {account['cap']} at delta "
            f"{account['delta']}, and after this release it had lost {account['lost']}.",
        ),
    }


def _model(values: Values, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": sentence(values, "C.trust_model"),
        "release_type": "Many releases" if record["version"] > 1 else "One release",
        "release_type_details": bullets(
            f"This is version {record['version']}; every version is charged to the account {values['G.account']}, "
            f"which had {values['G.left']} of {values['G.cap']} left after this one.",
            _labelled("A new account is opened", values, "G.refresh_rule"),
        ),
        "data_source_type": "Static",
        "data_source_type_details": (
            f"One snapshot of the table, for {plain(values['C.time_block'])}; {_another(values)} makes another "
            "version."
        ),
        "access_type": "Non-interactive",
    }


def _another(values: Values) -> str:
    return "another snapshot" if values.get("A.due", "none") == "none" else "each due date, whatever the rows are,"


def _accounting(values: Values) -> dict[str, Any]:
    return {
        "post_processing": bullets(*_processing(values)),
        "composition": bullets(sentence(values, "F.conversion"), sentence(values, "G.composition")),
    }


def _implementation(values: Values) -> dict[str, Any]:
    return {
        "preprocessing_and_hyperparameter_tuning": bullets(
            *(f"{step['step']}: {step['what']} ({step['accounted']})" for step in values["I.steps"]),
            _labelled("Exploratory access", values, "I.exploratory_access"),
            _labelled("Hyperparameter search", values, "I.hyperparameter_search"),
            _labelled("Feature selection", values, "I.feature_selection"),
        ),
        "mechanisms": bullets(
            sentence(values, "J.mechanism"),
            *_draws(values),
            *(plain(sampler) for sampler in values["J.samplers"]),
            _labelled("Entropy", values, "J.entropy"),
            _labelled("Timing", values, "J.timing_policy"),
            f"Source files that ran: SHA-256 {plain(values['J.code'])}",
        ),
        "justification": bullets(sentence(values, "B.rationale"), sentence(values, "F.delta_rationale")),
    }


def _draws(values: Values) -> Iterator[str]:
    draws = values["G.draws"]
    for draw in draws[:_MOST_DRAWS]:
        noise = draw.get("noise") or plain(draw["event"].get("kind", "")).replace("_", " ")
        yield f"{draw['key']}: {plain(noise)}, cost {plain(draw['cost'])}"
    if len(draws) > _MOST_DRAWS:
        yield f"{len(draws) - _MOST_DRAWS} more draws are in record.json"


def _processing(values: Values) -> Iterator[str]:
    tables = told(values, "K.tables")
    if isinstance(tables, list):
        for table in tables[:_MOST_DRAWS]:
            yield f"{table['table']}: {plain(table['steps'])}"
    for path in ("K.network", "K.clamped", "K.model", "K.sampling", "K.decoding", "K.constraints", "K.known_bias"):
        if sentence(values, path):
            yield sentence(values, path)


def _labelled(label: str, values: Values, path: str) -> str:
    text = sentence(values, path)
    return f"{label}: {text}" if text else ""


def _sources(values: Values, record: dict[str, Any]) -> str:
    return bullets(
        f"Audit record of {record['release']} v{record['version']}: record.json, under the signed MANIFEST.json",
        f"To check a copy offline: {plain(values['Q.verify_command'])}",
        _labelled("Known limits of the data", values, "D.limitations"),
        _labelled("Contact", values, "B.contact"),
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
