"""Declarations: read strictly, located in their file, and no part of what is computed."""

from pathlib import Path

import pytest

from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from contracts.release.terms import About, Publisher, declared
from tests.contracts.release.test_spec import SPEC

ABOUT = """\
about:
  curator: Office of Statistics
  approvers: [{name: A. Person, at: 2026-03-01T14:30Z, role: head}]
  exploratory_access: {what: pilot of 2019, accounted: accounted}
  tuned_on_data: none
  permitted_uses: [teaching]
"""


def spec_file(folder: Path, text: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(text)
    return path


def test_declarations_are_read_as_they_are_written(tmp_path: Path):
    """Names, times, handled data: exactly; what is left out is not made up."""
    about = load_spec(spec_file(tmp_path, SPEC + ABOUT)).about
    assert about.curator == "Office of Statistics"
    assert (about.approvers[0].name, about.approvers[0].at) == ("A. Person", "2026-03-01T14:30Z")
    assert about.tuned_on_data == "none"
    assert about.contact is None


def test_declarations_change_neither_digest_nor_run(tmp_path: Path):
    """A corrected contact is no new release: the digest, from which the run's key follows, stays."""
    plain = load_spec(spec_file(tmp_path, SPEC)).digest
    assert load_spec(spec_file(tmp_path, SPEC + ABOUT)).digest == plain
    assert load_spec(spec_file(tmp_path, SPEC + ABOUT.replace("Office", "Bureau"))).digest == plain


@pytest.mark.parametrize(
    ("wrong", "field", "found"),
    [
        ("about: {curater: x}\n", "about.curater", "curater"),
        ("about: {approvers: [{name: A, at: yesterday}]}\n", "about.approvers[0].at", "yesterday"),
        ("about: {approvers: [{name: A}]}\n", "about.approvers[0].at", "nothing"),
        ("about: {exploratory_access: some}\n", "about.exploratory_access", "some"),
        (
            "about: {exploratory_access: {what: x, accounted: perhaps}}\n",
            "about.exploratory_access.accounted",
            "perhaps",
        ),
        ("about: {contact: ''}\n", "about.contact", "''"),
        ("about: {permitted_uses: teaching}\n", "about.permitted_uses", "teaching"),
        ("about: {rationale: '" + "x" * 2001 + "'}\n", "about.rationale", "2001 characters"),
    ],
)
def test_a_wrong_declaration_is_located(tmp_path: Path, wrong: str, field: str, found: str):
    """File, line and field, what was found and what is allowed."""
    with pytest.raises(SpecRefused) as refused:
        load_spec(spec_file(tmp_path, SPEC + wrong))
    (finding,) = refused.value.findings
    assert (finding.field, found in finding.found) == (field, True)
    assert finding.where.startswith(str(tmp_path / "spec.yaml"))


def test_the_spec_wins_over_the_publisher():
    """Entry by entry; what neither says is not there."""
    publisher = Publisher(curator="Office", contact="office@example.org", permitted_uses=("teaching",))
    about = declared(About(contact="team@example.org", rationale="as usual"), publisher)
    assert (about.curator, about.contact, about.rationale) == ("Office", "team@example.org", "as usual")
    assert about.permitted_uses == ("teaching",)
    assert about.region is None
