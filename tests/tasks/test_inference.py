"""Regressions, counts and combined analyses of a published synthetic version, and what of them is refused."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

import sudare
from tests.worlds.synthetic_rows import SyntheticScenario, aim, fixed, gaussians, made_up
from tests.worlds.versions import Version, Worlds

MEASURED = (
    "{kind: synthetic, generator: fixed, options: {cliques: [[age, bill], [age, insured], [bill, insured], [ward]]}"
)
FORMULA = "bill ~ age + insured[true]"
MISSING = {"age": 0.0}


def scenario() -> SyntheticScenario:
    """Three pairs under a large charge, so that the noise is small beside 3,000 rows; four copies."""
    return replace(fixed(), product=f"{MEASURED}, copies: 4}}", epsilon="8", release="regressed")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(scenario())


@pytest.fixture
def release(published: Version) -> sudare.Release:
    return sudare.Release(published.folder)


def exact(release: sudare.Release) -> tuple[pl.DataFrame, np.ndarray]:
    from tasks.inference import NoisyVersion

    contract = NoisyVersion(release.folder).contract
    codes = made_up(contract, 3_000)
    age = np.array([12, 37, 62, 87, 0])[codes["age"]]
    bill = np.array([6.25, 56.25, 500.0])[codes["bill"]]
    insured = np.array([label == "true" for label in contract.column("insured").labels])[codes["insured"]]
    design = np.stack([np.ones(3_000), age, insured], axis=1)
    return pl.DataFrame(codes), np.linalg.lstsq(design, bill, rcond=None)[0]


@pytest.mark.long
def test_a_regression_lies_within_six_standard_errors_of_that_of_the_rows(release: sudare.Release):
    """Three normal numbers: beyond six deviations with probability below 1e-8."""
    found, (_, truth) = release.regression(FORMULA, missing=MISSING), exact(release)
    assert found["term"].to_list() == ["(intercept)", "age", "insured[true]"]
    assert (np.abs(found["estimate"].to_numpy() - truth) < 6 * found["standard_error"].to_numpy()).all()
    assert found["rests_on"].to_list() == [""] * 3
    assert (found["upper"] - found["estimate"]).to_list() == pytest.approx(
        (1.959964 * found["standard_error"]).to_list()
    )
    population = release.regression(FORMULA, missing=MISSING, target="population")
    assert (population["standard_error"] > found["standard_error"]).all()


def test_counts_lie_within_seven_standard_errors_of_those_of_the_rows(release: sudare.Release):
    """Fifteen cells: beyond seven deviations of Gaussian noise with probability below 1e-10."""
    found, (codes, _) = release.marginal(["insured", "age"]), exact(release)
    counts = np.zeros((3, 5))
    np.add.at(counts, (codes["insured"].to_numpy(), codes["age"].to_numpy()), 1)
    assert found.columns == ["insured", "age", "count", "standard_error", "lower", "upper"]
    assert (np.abs(found["count"].to_numpy() - counts.ravel()) < 7 * found["standard_error"].to_numpy()).all()
    assert found["insured"].to_list()[:5] == ["true"] * 5


def test_an_analysis_of_copies_gets_an_interval(release: sudare.Release):
    """Each copy is analysed once, and the rows; what they have in common has no uncertainty."""
    seen: list[int] = []

    def mean(frame: pl.DataFrame) -> tuple[float, float]:
        seen.append(frame.height)
        bill = frame["bill"]
        return float(bill.mean()), float(bill.var()) / frame.height  # type: ignore[arg-type]

    found = release.combine(mean)
    assert len(seen) == 1 + len(release.copies) == 5
    assert found.lower < found.estimate < found.upper
    assert found.degrees_of_freedom == 3
    assert release.combine(mean, target="population").standard_error > found.standard_error
    assert release.combine(lambda frame: (7.0, 0.0)).standard_error == 0.0


RESULTS: dict[str, tuple[Any, str]] = {
    "a number": (7.0, "without its variance"),
    "a NumPy number": (np.float32(7), "without its variance"),
    "a decimal": (Decimal(7), "without its variance"),
    "a list": ([7.0, 1.0], "type list of 2"),
    "three values": ((7.0, 1.0, 2.0), "type tuple of 3"),
    "a text": ("7", "type str"),
    "nothing": (None, "type NoneType"),
    "a truth": (True, "type bool"),
    "an array": (np.array([7.0, 1.0]), "type ndarray"),
    "no estimate": ((None, 1.0), "an estimate of type NoneType"),
    "a truth as estimate": ((True, 1.0), "an estimate of type bool"),
    "a text as variance": ((7.0, "1"), "a variance of type str"),
    "a negative variance": ((7.0, -1.0), "a variance below 0"),
    "no finite estimate": ((float("nan"), 1.0), "an estimate that is infinite"),
    "no finite variance": ((7.0, float("inf")), "a variance that is infinite"),
    "too large an estimate": ((10**400, 1.0), "an estimate that is infinite, no number, or too large"),
    "too large a variance": ((7.0, 1e200), "a variance that is infinite, no number, or too large"),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_that_is_no_estimate_with_its_variance_is_refused(case: str, release: sudare.Release):
    """A number alone has an interval that leaves out the sampling of the made-up rows."""
    made, found = RESULTS[case]
    with pytest.raises(sudare.SpecRefused) as refused:
        release.combine(lambda frame: made)
    [finding] = refused.value.findings
    assert (finding.where, finding.field) == ("the call", "analysis")
    assert found in finding.found
    assert finding.allowed
    assert finding.remedy


def test_other_kinds_of_numbers_are_results(release: sudare.Release):
    found = release.combine(lambda frame: (np.int64(7), Decimal("0.25")))  # type: ignore[arg-type, return-value]
    assert found.standard_error == pytest.approx(0.75**0.5)


def stand_in(number: Any) -> Callable[[sudare.Release], Any]:
    return lambda release: release.regression(FORMULA, missing={"age": number})


def constant(frame: pl.DataFrame) -> tuple[float, float]:
    return 1.0, 0.0


CALLS: dict[str, tuple[Callable[[sudare.Release], Any], str, str]] = {
    "an unknown column": (lambda r: r.regression("bil ~ age", missing=MISSING), "the column 'bil'", "bill"),
    "missing values": (
        lambda r: r.regression("bill ~ age"),
        "'age', a number with missing values",
        "missing={'age': 0}",
    ),
    "text labels": (lambda r: r.regression("bill ~ ward"), "'ward', a column of labels", "ward["),
    "an unknown label": (lambda r: r.regression("bill ~ ward[surgry]"), "ward[surgry]", "surgery"),
    "no formula": (lambda r: r.regression("bill on age"), "'bill on age'", "income ~ age"),
    "a term twice": (lambda r: r.regression("bill ~ insured[true] + insured[true]"), "twice", "drop one"),
    "unmeasured pairs": (
        lambda r: r.regression("bill ~ age + ward[surgery]", missing=MISSING),
        "not measured together",
        "unmeasured='model'",
    ),
    "an unmeasured table": (lambda r: r.marginal(["ward", "age"]), "not measured together", "unmeasured='model'"),
    "an unknown column of a table": (lambda r: r.marginal(["wards"]), "the column 'wards'", "ward"),
    "a column twice": (lambda r: r.marginal(["age", "age"]), "['age', 'age']", ""),
    "another target": (lambda r: r.regression(FORMULA, missing=MISSING, target="all"), "'all'", ""),
    "a level in quotes": (lambda r: r.regression(FORMULA, missing=MISSING, level="0.95"), "'0.95'", ""),  # type: ignore[arg-type]
    "no level": (lambda r: r.marginal(["ward"], level=None), "None", ""),  # type: ignore[arg-type]
    "a level of a truth": (lambda r: r.combine(constant, level=True), "True", ""),
    "a level of no number": (lambda r: r.combine(constant, level=float("nan")), "nan", ""),
    "a text as level of copies": (lambda r: r.combine(constant, level="0.95"), "'0.95'", ""),  # type: ignore[arg-type]
    "another target of copies": (lambda r: r.combine(constant, target="all"), "'all'", ""),
    "a column in place of an analysis": (lambda r: r.combine("bill"), "'bill'", "write a function"),  # type: ignore[arg-type]
    "a formula of lists": (lambda r: r.regression(["bill", "age"]), "['bill', 'age']", ""),  # type: ignore[arg-type]
    "a word for missing values": (stand_in("abc"), "'abc' for 'age'", "missing={'age': 0}"),
    "a text for missing values": (stand_in("50"), "'50' for 'age'", "without quotes"),
    "a truth for missing values": (stand_in(True), "True for 'age'", "missing={'age': 0}"),
    "no number for missing values": (stand_in(float("nan")), "nan for 'age'", "missing={'age': 0}"),
    "an infinity for missing values": (stand_in(float("inf")), "inf for 'age'", "missing={'age': 0}"),
    "too much for missing values": (stand_in(-1e300), "-1e+300 for 'age'", "missing={'age': 0}"),
    "nothing for missing values": (stand_in(None), "None for 'age'", "missing={'age': 0}"),
    "missing values of no column": (lambda r: r.regression(FORMULA, missing=50), "50", "name the column"),  # type: ignore[arg-type]
    "missing values by number": (lambda r: r.regression(FORMULA, missing={1: 50}), "{1: 50}", "name the column"),  # type: ignore[dict-item]
    "a text in place of columns": (lambda r: r.marginal("ward"), "the text 'ward'", "write ['ward']"),
    "a number in place of columns": (lambda r: r.marginal(5), "5", "for example"),  # type: ignore[arg-type]
    "a number as column": (lambda r: r.marginal([1]), "[1]", "for example"),  # type: ignore[list-item]
    "a set of columns": (lambda r: r.marginal({"ward"}), "{'ward'}", "for example"),  # type: ignore[arg-type]
    "another level": (lambda r: r.regression(FORMULA, missing=MISSING, level=95), "95", ""),
    "another way": (lambda r: r.regression(FORMULA, missing=MISSING, unmeasured="ignore"), "'ignore'", ""),
    "twins": (
        lambda r: r.regression("bill ~ insured[true] + insured[false] + insured[(null)]"),
        "does not tell apart",
        "drop a term",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_has_no_honest_answer_names_what_was_found_and_what_to_write(case: str, release: sudare.Release):
    ask, found, remedy = CALLS[case]
    with pytest.raises(sudare.Refused) as refused:
        ask(release)
    assert any(found in each.found and remedy in each.remedy for each in refused.value.findings), refused.value


def test_each_coefficient_that_rests_on_the_model_is_named_or_has_no_interval(release: sudare.Release):
    with pytest.raises(sudare.Refused) as refused:
        release.regression("bill ~ age + ward[surgery]", missing=MISSING)
    assert len(refused.value.findings) == 3, "one for each coefficient"
    assert "bill × ward" in str(refused.value) or "ward × bill" in str(refused.value)
    given = release.regression("bill ~ age + ward[surgery]", missing=MISSING, unmeasured="model")
    assert given["lower"].null_count() == given["standard_error"].null_count() == 3
    assert all("ward" in pairs for pairs in given["rests_on"])


@pytest.mark.long
@pytest.mark.parametrize(("made", "said"), [(gaussians, "no noisy marginals"), (aim, "")])
def test_versions_without_noise_that_tells_are_refused(
    made: Callable[[], SyntheticScenario], said: str, worlds: Worlds
):
    """Sums over rows; AIM has marginals, and no copies."""
    release = sudare.Release(worlds.published(made()).folder)
    if said:
        with pytest.raises(sudare.SpecRefused, match=said):
            release.regression("bill ~ insured[true]")
        return
    assert release.marginal(["ward"])["count"].len() == 4
    assert release.copies == ()
    with pytest.raises(sudare.SpecRefused, match="a version without copies"):
        release.combine(lambda frame: (1.0, 0.0))


@pytest.mark.parametrize("number", [1e15, -1e15, 10**15, Decimal(50), np.float32(50)])
def test_any_number_that_may_stand_for_a_missing_value_gives_numbers_or_a_refusal(
    number: Any, release: sudare.Release
):
    """So far out a column says nothing but whether it is missing: either is honest, and neither is a bug."""
    with suppress(sudare.Refused):
        found = release.regression(FORMULA, missing={"age": number})
        assert np.isfinite(found["standard_error"].to_numpy()).all()


def test_a_changed_measurement_is_not_read(version: Version):
    """Each file must have the digest that the manifest states."""
    file = next((version.folder / "measurements").glob("*.parquet"))
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(sudare.SudareError, match="SHA-256"):
        sudare.Release(version.folder).regression(FORMULA, missing=MISSING)
