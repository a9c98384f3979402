"""What a federation says of itself in words: for which rows its losses are, and what is not protected."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import SpecRefused
from tasks.records.across.words import person, record, trusted, unprotected
from tasks.storage.sources.gate_words import delivered
from tasks.verify import verify
from tests.worlds.federated_runs import known_of, released
from tests.worlds.federations import CONTRACT, FEDERATION, GENERATOR, MARGINALS, TABLES, a_coordinator

OF_AN_ID = CONTRACT.replace(
    "{kind: row, scope: block}", "{kind: id, column: patient, max_rows_per_unit: 3, scope: block}"
).replace("    properties:\n", "    properties:\n      - name: patient\n        logicalType: string\n")
TWO_SITES = ("sites_per_person: 1", "sites_per_person: 2")


def test_a_persons_loss_is_said_to_be_that_of_the_rows_that_its_events_count(tmp_path: Path) -> None:
    """With rows as units one a site, at every number of sites; with ids the contract's bound."""
    of_rows, of_ids = "one row", "up to 3 rows"
    for place, (contract, sites, rows) in enumerate(
        ((CONTRACT, 1, of_rows), (CONTRACT, 2, of_rows), (OF_AN_ID, 1, of_ids), (OF_AN_ID, 2, of_ids))
    ):
        spec = TABLES.replace("sites_per_person: 1", f"sites_per_person: {sites}")
        known = known_of(a_coordinator(tmp_path / str(place), federation=spec, contract=contract)[0])
        assert (
            person(known.spec, known.contract) == f"{rows} at {'one site' if sites == 1 else 'each of up to 2 sites'}"
        )
        assert record(known.contract) == f"{rows}{' of one patient' if contract == OF_AN_ID else ''} at one site"
        (event,) = set(known.plan.person_events)
        counted = 1 if contract == CONTRACT else 3
        assert event.moves == (counted * sites,)  # type: ignore[union-attr]
        said = " ".join(trusted(known.spec, known.contract))
        assert f"the loss of a person counts {person(known.spec, known.contract)}" in said
        assert "who has more rows, or rows at more sites, may lose more" in said


def test_one_share_and_one_site_are_said_in_the_singular(tmp_path: Path) -> None:
    """The template of both numbers is one sentence of the catalogues."""
    many = TABLES.replace("fewest: 2, colluding: 1", "fewest: 3, colluding: 0")
    for place, (spec, shares, sites) in enumerate(
        (
            (TABLES, "; one share is counted on", "up to one site may tell others its own noise"),
            (many, "; 3 shares are counted on", "up to 0 sites may tell others their own noise"),
        )
    ):
        known = known_of(a_coordinator(tmp_path / str(place), federation=spec)[0])
        said = trusted(known.spec, known.contract)
        assert f"each site adds a share of the noise{shares}" in said
        assert sites in said


@pytest.mark.long
def test_the_record_says_for_which_rows_a_persons_loss_is(tmp_path: Path) -> None:
    """In the execution, on the page, among the trust; and nowhere that it is of all rows of a person."""
    run = released(tmp_path, TABLES.replace(*TWO_SITES))
    said = "one row at each of up to 2 sites"
    words = run.version.words
    assert (words["execution.person"], words["execution.record"]) == (said, "one row at one site")
    page = (run.folder / "record.html").read_text()
    assert page.count(said) >= 3
    assert "all rows of a person" not in page
    assert verify(run.folder, public_key=run.version.key).ok


@pytest.mark.parametrize("contract", [CONTRACT, OF_AN_ID])
def test_the_gates_of_every_release_are_unprotected_in_a_federation_too(tmp_path: Path, contract: str) -> None:
    known = known_of(a_coordinator(tmp_path / "c", federation=TABLES, contract=contract)[0])
    said = "\n".join(unprotected(known.contract))
    for gate in delivered(known.contract):
        assert f"at each site that took part {gate}" in said
    assert ("every row has a patient" in said) == (contract == OF_AN_ID)
    for each in ("to its last row", "select", "which sites took part in which rounds", "how many attempts", "type"):
        assert each in said
    assert "a gate of the contract" not in said, "it declares none"
    gated = contract.replace("gates: []", 'gates: ["domain:ward"]')
    of_gates = known_of(a_coordinator(tmp_path / "g", federation=TABLES, contract=gated)[0])
    assert any("domain:ward" in each for each in unprotected(of_gates.contract))


@pytest.mark.parametrize("federation", [TABLES, MARGINALS, FEDERATION, GENERATOR])
def test_a_declared_total_is_refused(tmp_path: Path, federation: str) -> None:
    """Nothing says whether it is one site's or that of all; without it the same contract serves for tables."""
    other = CONTRACT.replace("adjacency: add_remove", "adjacency: replace_one")
    total = "invariants: [{kind: total, value: 600, reference: 'the yearbook, table 3'}]"
    spec, _ = a_coordinator(tmp_path / "c", federation=federation, contract=other.replace("invariants: []", total))
    with pytest.raises(SpecRefused, match=r"(?s)a declared total.*no total: nothing says whose.*take the total out"):
        known_of(spec)
    if federation in (TABLES, MARGINALS):
        assert known_of(a_coordinator(tmp_path / "d", federation=federation, contract=other)[0]).plan.rounds
