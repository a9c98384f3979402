"""exchange/deployment.yaml: the version as an entry of the OpenDP deployments registry in its newer form.

The form is that of schemas/deployments-schema.yaml in opendp/deployments-registry-data at commit
057e5d81cf60150dd3307e0cf4504b957802fb3b: `url_slug` at the top, `deployment` below with the groups that are written
here, and no other key. `deployment.yaml` at the top of a version stays in the form of the older commit. Both say the
same: this one is that one, with other names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from contracts.release.exchange_forms import EXCHANGE, ExchangeFiles
from tasks.records.descriptions.deployment_entry import REQUIRED, SECTORS, deployment, entry_yaml
from tasks.records.public_text import sentence
from tasks.records.record import RecordExplanation

REGISTRY: Final = f"{EXCHANGE}deployment.yaml"
NEWER_SECTORS: Final = (*SECTORS, "Finance")
CURATOR_TYPE: Final = "data_curators.data_curator_type"
_GOVERNMENT: Final = "Government"
_REMEDY: Final = "sector: Government, or write Industry or Nonprofit into the entry"


def registry_files(
    explanation: RecordExplanation, read: Callable[[str], bytes]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the entry; no data file is read."""
    entry = newer_entry(explanation)
    basic = entry["deployment"]["basic"]
    missing = {
        path.replace("product.", "basic."): remedy
        for path, remedy in REQUIRED.items()
        if path.partition(".")[2] not in basic
    }
    if any("data_curator_type" not in each for each in basic.get("data_curators", ())):
        missing[f"basic.{CURATOR_TYPE}"] = _REMEDY
    yield REGISTRY, iter((entry_yaml(explanation, entry, missing),))


def newer_entry(explanation: RecordExplanation) -> dict[str, Any]:
    """Return the entry; parts that the record has no source for are left out."""
    entry = deployment(explanation)
    old: Mapping[str, dict[str, Any]] = entry["deployment"]
    sources = old["resources"]
    parts = {
        "basic": _basic(explanation, old["product"]),
        "dp_variant": _renamed(old["dp_flavor"], {"name": "variant_name"}),
        "privacy_loss": _detailed(old["privacy_loss"]),
        "deployment_model": _detailed(old["model"]),
        "implementation": {
            **_renamed(
                old["implementation"],
                {"pre_processing_eda_hyperparameter_tuning": "preprocessing_and_hyperparameter_tuning"},
            ),
            **old["accounting"],
            "additional_information": sources["sources"],
        },
        "administrative": {
            "status": entry["status"],
            "registry_authors": sources["registry_authors"],
            "tier": entry["tier"],
        },
    }
    return {"url_slug": entry["url_slug"], "deployment": parts}


def _basic(explanation: RecordExplanation, product: Mapping[str, Any]) -> dict[str, Any]:
    """Name curators with their type, as far as the declared sector says it, and the sector."""
    sector = sentence(explanation.values, "identity.sector").casefold()
    known = next((name for name in NEWER_SECTORS if name.casefold() == sector), None)
    kind = {"data_curator_type": _GOVERNMENT} if known == _GOVERNMENT else {}
    found = dict(product)
    if "data_curators" in found:
        found["data_curators"] = [{"data_curator_name": name, **kind} for name in found["data_curators"]]
    if known is not None:
        found["data_product_sector"] = known
    return found


def _detailed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Call descriptions details."""
    return {name.replace("_description", "_details"): value for name, value in fields.items()}


def _renamed(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in fields.items()}


FILES: Final = ExchangeFiles(registry_files)
