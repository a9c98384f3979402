"""Release specs: what loads, what each mistake gets to read, and what changes a digest."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml

from contracts.errors import SpecRefused
from contracts.release.product import LambdaReference
from contracts.release.spec import load_spec, source_name, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.tables.tables import Refine, TablesProduct
from tests.contracts.samples import REFINE, SPARSE, SPEC, line_of, loaded, replaced, spec_findings, spec_of, write

EPSILON = "epsilon: 1.0"
ADULT_TABLES = Path(__file__).resolve().parents[3] / "examples" / "adult" / "tables.yaml"
DIGEST_OF_ADULT_TABLES = "7ff8dfef344e0b3b7d62f68c3e9837c6878be40501192a53dd0316bf33befa83"
SCHEMA_FILE = Path(__file__).resolve().parents[3] / "docs" / "schema" / "release-spec.schema.json"


def test_a_spec_loads_with_exact_amounts_and_resolved_paths(tmp_path: Path):
    """Amounts are the decimals that were written; paths are relative to the spec's folder, but for publish.to."""
    spec = spec_of(tmp_path)
    assert (spec.charge.epsilon, spec.charge.delta) == (Decimal(1), Decimal("0.000000001"))
    assert spec.contract == tmp_path / "people.odcs.yaml"
    assert (spec.source.path, spec.source.format) == (tmp_path / "people.csv", "csv")
    assert spec.publish.to == spec.written_paths[2] == "releases/"
    assert spec.publish.formats == ("parquet", "csv")
    assert [(table.name, table.columns, table.weight) for table in spec.product.tables] == [
        ("age_x_sex", ("age", "sex"), Decimal(1)),
        ("jobs", ("job",), Decimal(2)),
    ]
    assert (spec.product.refine.lambda_, spec.product.refine.integers) == (Decimal("0.1"), True)
    assert (spec.product.total, spec.path) == ("noisy", tmp_path / "people.yaml")


def test_refinement_and_formats_have_defaults_that_cost_nothing(tmp_path: Path):
    """What changes privacy has no default; post-processing and formats do."""
    spec = spec_of(
        tmp_path, ("  refine: {method: negative_l2, lambda: 0.1}\n", ""), (", formats: [parquet, csv]", "")
    )
    assert (spec.product.refine.method, spec.product.refine.lambda_) == ("none", None)
    assert spec.publish.formats == ("parquet",)


@pytest.mark.parametrize(
    ("written", "lambda_", "sparsity"),
    [
        ("{method: negative_l2, lambda: auto}", "auto", None),
        ("{method: negative_l2, sparsity: 0.050}", None, Decimal("0.05")),
        ("{method: negative_l2, sparsity: 1}", None, Decimal(1)),
        ("{method: negative_l2, lambda: {reference: town/12}}", LambdaReference(reference="town/12"), None),
        ("{method: empirical_bayes}", None, None),
        ("{method: neighbourhood, integers: false}", None, None),
        ("{method: auto}", None, None),
        ("{method: simplex, consistent: true}", None, None),
        ("{method: none, integers: false, consistent: true}", None, None),
    ],
)
def test_every_refinement_can_be_written(tmp_path: Path, written: str, lambda_: object, sparsity: Decimal | None):
    """It loads, passes the published schema, and is the same after a round through JSON."""
    text = replaced(SPEC, (REFINE, written))
    refine = load_spec(write(tmp_path, "people.yaml", text)).product.refine
    assert (refine.lambda_, refine.sparsity) == (lambda_, sparsity)
    assert Refine.model_validate(refine.model_dump(mode="json")) == refine
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize("written", ["{k: 10, t: auto, at_most: 0.01}", "{k: 10, t: 5}", "{t: 0, k: 1}"])
def test_every_minimum_frequency_can_be_written(tmp_path: Path, written: str):
    """It loads without a refinement, passes the schema, and is the same after a round through JSON."""
    text = replaced(SPEC, (f"refine: {REFINE}", f"minimum_frequency: {written}"))
    spec = load_spec(write(tmp_path, "people.yaml", text))
    assert check_spec(spec, loaded(tmp_path)) == []
    dumped = spec.product.model_dump(mode="json", by_alias=True)
    assert TablesProduct.model_validate(dumped) == spec.product
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


def test_a_sparse_table_has_no_minimum_frequency(tmp_path: Path):
    text = replaced(SPEC, SPARSE, (f"refine: {REFINE}", "minimum_frequency: {k: 3, t: 1}"))
    (finding,) = check_spec(load_spec(write(tmp_path, "people.yaml", text)), loaded(tmp_path))
    assert finding.field == "product.minimum_frequency"
    assert "the rule for dense tables only" in finding.allowed


def test_a_column_named_suppressed_is_refused_only_under_the_rule(tmp_path: Path):
    contract = loaded(
        tmp_path, ("- name: sex", "- name: suppressed"), ("- {sex: [F], job", "- {suppressed: [F], job")
    )
    text = replaced(SPEC, ("- [age, sex]", "- [age, suppressed]"))
    assert check_spec(load_spec(write(tmp_path, "people.yaml", text)), contract) == []
    ruled = replaced(text, (f"refine: {REFINE}", "minimum_frequency: {k: 3, t: 1}"))
    (finding,) = check_spec(load_spec(write(tmp_path, "people.yaml", ruled)), contract)
    assert "suppressed" in finding.found


def test_every_refinement_in_the_manual_loads(tmp_path: Path):
    """docs/tables.md shows each method, and each way to lambda."""
    manual = (SCHEMA_FILE.parents[1] / "tables.md").read_text(encoding="utf-8")
    shown = [line.split("#")[0] for line in manual.splitlines() if line.startswith("refine: {")]
    shown = [line for line in shown if "hierarchy" not in line]  # for other tables: tables/test_levels
    refines = []
    for line in shown:
        refines.append(spec_of(tmp_path, (f"refine: {REFINE}", line.strip())).product.refine)
    methods = set(get_args(Refine.model_fields["method"].annotation))
    assert {refine.method for refine in refines} == methods - {"hierarchy"}
    assert len(refines) == 12
    assert sum(refine.consistent for refine in refines) == 2


def test_an_empty_value_is_not_taken_for_a_misspelled_word(tmp_path: Path):
    (finding,) = spec_findings(tmp_path, replaced(SPEC, (REFINE, "{method: }")))
    assert (finding.field, finding.found, finding.remedy) == (
        "product.refine.method",
        "nothing (null)",
        "write one of these",
    )


def test_the_neighbourhood_needs_an_ordered_column_in_every_table(tmp_path: Path):
    """The finding names file, line, table and columns, and what to do; `auto` takes any table."""
    spec = spec_of(tmp_path, (REFINE, "{method: neighbourhood}"))
    (finding,) = check_spec(spec, loaded(tmp_path))
    assert finding.where.endswith("people.yaml:10")
    assert finding.field == "product.tables[1].columns"
    assert "table 'jobs' of job" in finding.found
    assert "choose method: empirical_bayes" in finding.remedy
    spec = spec_of(tmp_path, (REFINE, "{method: auto}"))
    assert check_spec(spec, loaded(tmp_path)) == []


def test_a_sparse_table_cannot_have_its_lambda_from_an_earlier_version(tmp_path: Path):
    """The finding names the table, and what a sparse table may be refined by."""
    pairs = [("lambda: 0.1", "lambda: {reference: town/1}"), ("{columns: [job]", "{form: sparse, columns: [job]")]
    (finding,) = check_spec(spec_of(tmp_path, *pairs), loaded(tmp_path))
    assert finding.field == "product.refine.lambda"
    assert "lambda by `reference` for table 'jobs', which is sparse" in finding.found


def test_a_copy_to_this_machine_takes_no_credentials(tmp_path: Path):
    """They would be named in vain; a store asks for them, and takes them."""
    written = "to: {}, credentials: town"
    spec = spec_of(tmp_path, ("to: releases/", written.format("releases/")))
    (finding,) = check_spec(spec, loaded(tmp_path))
    assert (finding.field, finding.found) == ("publish.credentials", "`credentials` for a path of this machine")
    assert re.search(r"people\.yaml:\d+$", finding.where)
    stored = spec_of(tmp_path, ("to: releases/", written.format("postgresql://db.example/open")))
    assert check_spec(stored, loaded(tmp_path)) == []


MISTAKES = [
    (EPSILON, "epsilon: 0", "charge.epsilon", "a number above 0"),
    (EPSILON, 'epsilon: "0"', "charge.epsilon", "a number above 0"),
    (EPSILON, "epsilon: -1", "charge.epsilon", "a number above 0"),
    (EPSILON, 'epsilon: "-1"', "charge.epsilon", "a number above 0"),
    (EPSILON, "epsilon: nan", "charge.epsilon", "infinity and NaN are no amounts"),
    (EPSILON, "epsilon: .nan", "charge.epsilon", "infinity and NaN are no amounts"),
    (EPSILON, "epsilon: .inf", "charge.epsilon", "infinity and NaN are no amounts"),
    (EPSILON, "epsilon: 1e309", "charge.epsilon", "found: 1e309"),
    (EPSILON, "epsilon: 1e-13", "charge.epsilon", "from 1e-12 to 1000"),
    (EPSILON, "epsilon: 1000.1", "charge.epsilon", "to 1000"),
    (EPSILON, "epsilon: abc", "charge.epsilon", "a finite decimal number"),
    (EPSILON, "epsilon: 1,5", "charge", "the unknown key '5'"),
    (EPSILON, 'epsilon: "1,5"', "charge.epsilon", "a dot for the decimals"),
    (EPSILON, "epsilon: true", "charge.epsilon", "a finite decimal number"),
    (EPSILON, "epsilon: [1]", "charge.epsilon", "a finite decimal number"),
    (EPSILON, "epsilon: ~", "charge.epsilon", "nothing (null)"),
    ("epsilon: 1.0, ", "", "charge.epsilon", "the key `epsilon`, which is required"),
    (", delta: 1e-9", "", "charge.delta", "the key `delta`, which is required"),
    ("delta: 1e-9", "delta: 1", "charge.delta", "below 1"),
    ("delta: 1e-9", "delta: -1e-9", "charge.delta", "below 1"),
    ("delta: 1e-9", "delta: 1e-19", "charge.delta", "from 1e-18"),
    ("epsilon", "epsilom", "charge.epsilom", "write 'epsilon' instead of 'epsilom'"),
    ("account", "acount", "charge.acount", "write 'account' instead of 'acount'"),
    ("release:", "relaese:", "relaese", "write 'release' instead of 'relaese'"),
    ("release: people-tables", "release: People", "release", "lower-case letters"),
    ("release: people-tables", "release: a--b", "release", "single hyphens"),
    ("release: people-tables", "release: ../up", "release", "it names a folder"),
    ("path: people.csv", "path: people.xlsx", "source.path", "one of .csv, .csv.gz, .csv.zst, .parquet"),
    ("path: people.csv", "path: ftp://host/people.csv", "source.path", "an address that begins with"),
    ("path: people.csv", "path: people, files: json", "source.files", "one of csv, parquet"),
    ("path: people.csv", "path: people.csv, credentials: town", "source.credentials", "for an address"),
    ("path: people.csv", "path: people.db", "source", "the name of one table"),
    ("path: people.csv", "path: people.csv, table: t", "source.table", "`table` for databases"),
    ("path: people.csv", "path: people.parquet, delimiter: ','", "source.delimiter", "`delimiter` for CSV"),
    ("path: people.csv", "path: people.csv, delimiter: ';;'", "source.delimiter", "one ASCII character"),
    (
        "path: people.csv",
        "path: people.csv, select: SELECT count(*) AS n FROM source",
        "source.select",
        "count_star()",
    ),
    ("kind: tables", "kind: classifier", "product.trainer", "nothing"),
    ("kind: tables", "kind: table", "product.kind", "one of tables"),
    ("mechanism: laplace", "mechanism: laplac", "product.mechanism", "write 'laplace' instead of 'laplac'"),
    ("- [age, sex]", "- []", "tables[0]", "at least one column"),
    ("- [age, sex]", "- [age, age]", "tables[0][1]", "each column once"),
    ("- [age, sex]", "- age", "tables[0]", "a list of columns"),
    ("- [age, sex]", "- [job]", "tables[1]", "it would be paid for twice"),
    ("- [age, sex]", "- {columns: [age], name: Jobs}", "tables[1].name", "each name once"),
    ("- [age, sex]", "- {columns: [age], name: a/b}", "tables[0].name", "it names a file"),
    ("- [age, sex]", "- {columns: [age], name: -rf}", "tables[0].name", "no hyphen in front"),
    ("- [age, sex]", "- {columns: [age], name: Con.x}", "tables[0].name", "no device of Windows"),
    ("- [age, sex]", "- {columns: [age], name: $(ls)}", "tables[0].name", "it names a file"),
    ("- [age, sex]", "- {columns: [age], name: a;b}", "tables[0].name", "it names a file"),
    ("- [age, sex]", "- [age/sex]", "tables[0]", "give the table a `name:`"),
    ("weight: 2", "weight: 0", "tables[1].weight", "a weight from"),
    ("weight: 2", "wieght: 2", "tables[1].wieght", "write 'weight' instead of 'wieght'"),
    ("lambda: 0.1", "lambda: 1", "refine.lambda", "from 0 to below 1"),
    ("lambda: 0.1", "lambda: -0.1", "refine.lambda", "auto chooses it from the noisy values"),
    (REFINE, "auto", "product.refine", "write {method: auto}"),
    (REFINE, "", "product.refine", "a mapping of keys: method, lambda"),
    (f"refine: {REFINE}", "minimum_frequency: 10", "minimum_frequency", "keys: k, t, at_most"),
    (f"refine: {REFINE}", "total: exact", "product.total", "write noisy, or invariant where"),
    ("lambda: 0.1", "lambda: automatic", "refine.lambda", "a number from 0 to below 1, or auto"),
    ("lambda: 0.1", "lambda: Auto", "refine.lambda", "write 'auto' instead of 'Auto'"),
    ("lambda: 0.1", "lambda: nan", "refine.lambda", "a number from 0 to below 1, or auto"),
    ("lambda: 0.1", "lambda: [auto]", "refine.lambda", "a number from 0 to below 1, or auto"),
    ("lambda: 0.1", "lambda: 1e-30", "refine.lambda", "a number from 1e-15"),
    ("lambda: 0.1", "lambda: {reference: town/latest}", "refine.lambda.reference", "another version tomorrow"),
    ("lambda: 0.1", "lambda: {reference: releases/town/v3}", "refine.lambda.reference", "write town/3"),
    ("lambda: 0.1", "lambda: {reference: town}", "refine.lambda.reference", "the number of its version"),
    ("lambda: 0.1", "lambda: {reference: town/0}", "refine.lambda.reference", "RELEASE/VERSION"),
    ("lambda: 0.1", "lambda: {reference: ../../town/1}", "refine.lambda.reference", "RELEASE/VERSION"),
    ("lambda: 0.1", "lambda: {version: town/3}", "refine.lambda", "{reference: RELEASE/VERSION}"),
    ("lambda: 0.1", "lambda: {}", "refine.lambda", "{reference: RELEASE/VERSION}"),
    ("negative_l2, lambda: 0.1", "simplex, lambda: {reference: town/1}", "refine.lambda", "negative_l2 only"),
    ("lambda: 0.1", "lambda: {reference: town/1}, sparsity: 0.1", "refine.sparsity", "one of the two"),
    (", lambda: 0.1", "", "refine", "add `lambda: auto`"),
    ("negative_l2", "simplex", "refine.lambda", "`lambda` with negative_l2 only"),
    ("negative_l2, lambda: 0.1", "auto, lambda: auto", "refine.lambda", "`lambda` with method auto"),
    ("negative_l2, lambda: 0.1", "auto, consistent: true", "refine.consistent", "`consistent` with method auto"),
    ("negative_l2, lambda: 0.1", "none, consistent: true", "refine.consistent", "method none and whole numbers"),
    ("negative_l2, lambda: 0.1", "empirical_bayes, sparsity: 0.1", "refine.sparsity", "with negative_l2 only"),
    ("lambda: 0.1", "lambda: 0.1, sparsity: 0.1", "refine.sparsity", "`lambda` and `sparsity`"),
    ("lambda: 0.1", "lambda: auto, sparsity: 0.1", "refine.sparsity", "one of the two"),
    ("lambda: 0.1", "sparsity: 0", "refine.sparsity", "above 0, at most 1"),
    ("lambda: 0.1", "sparsity: 1.01", "refine.sparsity", "write 0.05 for one cell in twenty"),
    ("lambda: 0.1", "sparsity: auto", "refine.sparsity", "a finite decimal number"),
    ("negative_l2, lambda: 0.1", "neighborhood", "refine.method", "write 'neighbourhood' instead of 'neighborhood'"),
    ("lambda: 0.1", "lambda: 0.1, integers: maybe", "refine.integers", "true or false"),
    *[
        (f"refine: {REFINE}", f"minimum_frequency: {rule}", f"minimum_frequency{at}", says)
        for rule, at, says in [
            ("{k: 0, t: 5}", ".k", "a whole number from 1"),
            ("{k: 10}", ".t", "the key `t`, which is required"),
            ("{k: 10, t: -1}", ".t", "a whole number from 0"),
            ("{k: 10, t: 2.5}", ".t", "a whole number"),
            ("{k: 10, t: auto}", "", "add `at_most: 0.01`"),
            ("{k: 10, t: auto, at_most: 1}", ".at_most", "to below 1"),
            ("{k: 10, t: 5, at_most: 0.1}", ".at_most", "`at_most` with t: auto only"),
            ("{k: 10, t: 5, margin: 1}", ".margin", "the unknown key 'margin'"),
        ]
    ],
    ("lambda: 0.1}", "lambda: 0.1}\n  minimum_frequency: {k: 3, t: 1}", "minimum_frequency", "method negative_l2"),
    ("to: releases/", "to: ftp://bucket", "publish.to", "an address that begins with"),
    ("to: releases/", "to: postgresql://key:word@host/d", "publish.to", "a spec holds no credentials"),
    ("to: releases/", "to: ''", "publish.to", "a path"),
    ("[parquet, csv]", "[parquet, xlsx]", "publish.formats[1]", "one of parquet, csv"),
    ("[parquet, csv]", "[csv, csv]", "publish.formats", "each once"),
    ("[parquet, csv]", "csv", "publish.formats", "a list"),
]


@pytest.mark.parametrize(("old", "new", "field", "says"), MISTAKES)
def test_a_mistake_names_its_line_its_field_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, field: str, says: str
):
    """Each mistake yields a finding on a line of the file, at its field, that says what is allowed or what to do."""
    findings = spec_findings(tmp_path, replaced(SPEC, (old, new)))
    hits = [f for f in findings if (f.field.endswith(field) or "unknown key" in says) and says in str(f)]
    assert hits, "\n".join(map(str, findings))
    assert hits[0].where.rpartition(":")[2].isdigit()


def test_a_finding_stands_on_the_line_of_its_value(tmp_path: Path):
    """The line is that of the table, not of the list of tables."""
    text = replaced(SPEC, ("name: jobs", "name: a/b"))
    (finding,) = spec_findings(tmp_path, text)
    assert finding.where.endswith(f"bad.yaml:{line_of(text, 'a/b')}")


def test_all_findings_come_at_once(tmp_path: Path):
    """Five mistakes in five blocks are one refusal with five findings."""
    pairs = [
        (EPSILON, "epsilon: 0"),
        ("people.csv", "people.doc"),
        ("laplace", "cauchy"),
        ("lambda: 0.1", "lambda: 7"),
    ]
    findings = spec_findings(tmp_path, replaced(SPEC, *pairs, ("[parquet, csv]", "[]")))
    fields = {finding.field for finding in findings}
    assert fields == {
        "charge.epsilon",
        "source.path",
        "product.mechanism",
        "product.refine.lambda",
        "publish.formats",
    }


def test_a_missing_spec_is_a_finding(tmp_path: Path):
    """The path that was asked for is in the message, and the exit code is that of a bad spec."""
    with pytest.raises(SpecRefused, match=r"no\.yaml: file") as refused:
        load_spec(tmp_path / "no.yaml")
    assert refused.value.exit_code == 2


def test_a_select_may_span_lines(tmp_path: Path):
    """A block scalar keeps its line breaks, and is read as SQL."""
    select = "  select: |\n    SELECT age,\n      upper(sex) AS sex, job\n    FROM source\n"
    spec = spec_of(tmp_path, ("source: {path: people.csv}\n", "source:\n  path: people.csv\n" + select))
    assert spec.source.select is not None
    assert "\n" in spec.source.select


def test_the_digest_of_a_spec_stays_the_same():
    """What a release is known by in ledgers: were it to change, a run that is charged would not be found again."""
    assert load_spec(ADULT_TABLES).digest == DIGEST_OF_ADULT_TABLES


def test_the_digest_depends_on_meaning_and_not_on_layout_or_place(tmp_path: Path):
    """Comments, order of keys, spelling of numbers and the folder change nothing; an amount or a path does."""
    digest = spec_of(tmp_path).digest
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    same = replaced(
        SPEC,
        (EPSILON, "epsilon: '1'"),
        ("delta: 1e-9", "delta: 0.000000001"),
        ("- [age, sex]", "- {columns: [age, sex]}  # both"),
        (REFINE, "{lambda: 1e-1, method: negative_l2, integers: true}"),
    )
    assert load_spec(write(elsewhere, "other.yaml", same)).digest == digest
    for old, new in (
        (EPSILON, "epsilon: 1.1"),
        ("path: people.csv", "path: ./people.csv"),
        ("weight: 2", "weight: 3"),
    ):
        assert spec_of(tmp_path, (old, new)).digest != digest


def test_a_source_has_one_name_however_it_is_written(tmp_path: Path):
    """The ledger binds the real path: links and detours lead to the same name, another table to another."""
    write(tmp_path, "people.csv", "age\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    names = set()
    for written in ("people.csv", "./people.csv", "../" + tmp_path.name + "/people.csv", "link.csv"):
        names.add(spec_of(tmp_path, ("path: people.csv", f"path: {written}")).source.name)
    assert names == {source_name(tmp_path / "people.csv")}
    assert source_name(tmp_path / "a.db", "t") != source_name(tmp_path / "a.db", "u")


FORMATS = [("a.csv", "csv"), ("A.CSV.GZ", "csv"), ("a.parquet", "parquet")]
DATABASES = [("a.duckdb", "duckdb"), ("a.sqlite", "sqlite"), ("a.sqlite3", "sqlite"), ("a.db", "sqlite")]


@pytest.mark.parametrize(("name", "form"), [*FORMATS, *DATABASES])
def test_the_suffix_tells_the_format(tmp_path: Path, name: str, form: str):
    """Upper and lower case do not matter."""
    table = ", table: people" if form in ("duckdb", "sqlite") else ""
    assert spec_of(tmp_path, ("path: people.csv", f"path: {name}{table}")).source.format == form


def test_the_published_schema_is_current_and_accepts_what_loads():
    """docs/schema holds what spec_schema() says; a sample passes it, a typo in a key does not."""
    assert json.loads(SCHEMA_FILE.read_text()) == spec_schema()
    validator = jsonschema.Draft202012Validator(spec_schema())
    jsonschema.Draft202012Validator.check_schema(spec_schema())
    validator.validate(yaml.safe_load(SPEC))
    assert not validator.is_valid(yaml.safe_load(SPEC.replace("account", "acount")))
    assert not validator.is_valid(yaml.safe_load(SPEC.replace("[age, sex]", "{columns: [age], nmae: x}")))


def test_columns_for_labels_make_another_spec_and_so_another_charge(tmp_path: Path):
    """Runs and charges go by the digest: so docs/contracts.md says: decide before the first. Place and formats do not
    count, and neither does About.
    """
    before = spec_of(tmp_path).digest
    changes = {
        "labels": ("csv]", "csv], labels: columns"),
        "formats": ("[parquet, csv]", "[parquet]"),
        "to": ("to: releases/", "to: elsewhere/"),
    }
    texts = {name: replaced(SPEC, change) for name, change in changes.items()} | {
        "about": f"{SPEC}\nabout: {{curator: Town statistics}}\n"
    }
    digests = {name: load_spec(write(tmp_path, f"{name}.yaml", text)).digest for name, text in texts.items()}
    assert [name for name, digest in digests.items() if digest == before] == ["formats", "to", "about"]
    assert len(set(digests.values())) == 2
