"""Contracts and specs written for tests, and what is refused of them."""

from pathlib import Path
from typing import Any

from contracts.contract.contract import Column, Contract
from contracts.contract.odcs import load_contract
from contracts.errors import ContractRefused, Finding, SpecRefused
from contracts.release.spec import ReleaseSpec, load_spec

CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
description:
  purpose: tests
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          unit: {kind: row, scope: block}
          adjacency: add_remove
          structural_zeros:
            - {sex: [F], job: [clerk, other]}
          gates: ["nulls:age"]
    properties:
      - name: age
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [17, 90]
              bins: {edges: [17, 25, 35, 90]}
              nulls: {policy: category}
              missing: ["?", ""]
              provenance: {kind: declared}
      - name: sex
        logicalType: string
        customProperties:
          - property: domain
            value: {kind: categories, values: [F, M], nulls: {policy: map, to: F}, provenance: {kind: declared}}
      - name: job
        logicalType: string
        customProperties:
          - property: domain
            value:
              kind: mapping
              mapping: {office clerk: clerk, Clerk: clerk, nurse: care}
              other: other
              nulls: {policy: category}
              provenance: {kind: public, reference: "https://example.org/jobs"}
      - name: income
        logicalType: number
        customProperties:
          - property: domain
            value:
              kind: decimal
              bounds: [0, 1.5]
              bins: {width: 0.4}
              nulls: {policy: map, to: 0.8}
              provenance: {kind: declared}
      - name: moved
        logicalType: date
        customProperties:
          - property: domain
            value:
              kind: date
              bounds: [2020-01-15, 2020-12-31]
              granularity: month
              nulls: {policy: category}
              provenance: {kind: declared}
"""

SPEC = """\
release: people-tables
contract: people.odcs.yaml
source: {path: people.csv}
charge: {account: people-2020, epsilon: 1.0, delta: 1e-9}
product:
  kind: tables
  mechanism: laplace
  tables:
    - [age, sex]
    - {columns: [job], name: jobs, weight: 2}
  refine: {method: negative_l2, lambda: 0.1}
publish: {to: releases/, formats: [parquet, csv]}
"""
REFINE = "{method: negative_l2, lambda: 0.1}"
"""How SPEC refines."""
SPARSE = ("- [age, sex]", "- {columns: [age, sex], form: sparse}")
"""A change of SPEC that makes a table sparse."""


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def loaded(folder: Path, *pairs: tuple[str, str]) -> Contract:
    return load_contract(write(folder, "people.odcs.yaml", replaced(CONTRACT, *pairs)))


def spec_of(folder: Path, *pairs: tuple[str, str]) -> ReleaseSpec:
    return load_spec(write(folder, "people.yaml", replaced(SPEC, *pairs)))


def contract_findings(folder: Path, text: str | bytes) -> tuple[Finding, ...]:
    try:
        load_contract(write(folder, "bad.odcs.yaml", text))
    except ContractRefused as error:
        return tuple(error.findings)
    return ()


def spec_findings(folder: Path, text: str | bytes) -> tuple[Finding, ...]:
    try:
        load_spec(write(folder, "bad.yaml", text))
    except SpecRefused as error:
        return tuple(error.findings)
    return ()


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


def column(kind: str, logical_type: str, name: str = "x", **domain: Any) -> Column:
    """Make a column; nulls have a cell of their own unless said otherwise."""
    terms = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}, "kind": kind, **domain}
    return Column.model_validate({"name": name, "logical_type": logical_type, "domain": terms})


def contract_of(*columns: Column, **terms: Any) -> Contract:
    identity = {"apiVersion": "v3.1.0", "id": "t", "version": "1", "name": "t", "table": "t"}
    privacy = {"unit": {"kind": "row", "scope": "block"}, "adjacency": "add_remove", **terms}
    return Contract.model_validate({**identity, **privacy, "columns": columns})
