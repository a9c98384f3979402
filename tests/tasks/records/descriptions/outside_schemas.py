"""The forms that other people's programs expect, by their field names: OpenDP's registry, and OpenLineage.

Written from opendp/deployments-registry-data and OpenLineage (spec 2-0-2 and its facets): names, types and
enumerations only. Of the registry: keys, required keys, types and enumerations of schemas/deployments-schema.yaml at
commit aebc41b9e4ca5d2d5355c18fa6ee02e752fcb0d5, all of them; every other key is refused, as that schema does. Texts
are held to more than there: none may be empty, and a date is one. The newer form is that of the same file at commit
057e5d81cf60150dd3307e0cf4504b957802fb3b.
"""

from typing import Any

Schema = dict[str, Any]


def an_object(required: list[str], closed: bool = True, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        **({"additionalProperties": False} if closed else {}),
    }


TEXT: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def a_list(of: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": of, "minItems": least}


def texts(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, TEXT)


ANYTHING: Schema = {}
PRODUCT = an_object(
    [
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "publication_date",
    ],
    data_curators=a_list(TEXT, 1),
    data_product_type=one_of(
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API"
    ),
    data_product_sector=one_of("Technology", "Healthcare", "Education", "Government", "Energy"),
    publication_date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    **texts("name", "description", "intended_use", "data_product_region"),
)
DEPLOYMENT = an_object(
    ["url_slug", "status", "tier", "deployment"],
    url_slug={"type": "string", "pattern": "^[a-z0-9-]+$"},
    status=one_of(
        "Converted",
        "Draft",
        "Pending",
        "Changes Required",
        "Approved",
        "Approved (Update Requested)",
        "Approved (Pending)",
    ),
    tier={"enum": [1, 2, 3]},
    deployment=an_object(
        ["product"],
        product=PRODUCT,
        dp_flavor=an_object(
            [],
            name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            **texts(
                "input_metric",
                "bound_on_input_distance",
                "output_measure",
                "bound_on_output_distance",
                "data_domain",
                "unprotected_quantities",
            ),
        ),
        privacy_loss=an_object(
            [],
            privacy_parameters=an_object([], epsilon=NUMBER, delta=NUMBER, rho=NUMBER),
            privacy_parameters_description=ANYTHING,
            **texts("privacy_unit", "privacy_unit_description"),
        ),
        model=an_object(
            [],
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            data_source_type_description=ANYTHING,
            access_type=one_of("Interactive", "Non-interactive"),
            **texts("model_name_description", "actors", "release_type_description", "access_type_description"),
        ),
        accounting=an_object([], **texts("post_processing", "composition")),
        implementation=an_object(
            [], **texts("pre_processing_eda_hyperparameter_tuning", "mechanisms", "justification")
        ),
        resources=an_object(["registry_authors"], registry_authors=a_list(TEXT, 1), **texts("sources", "notes")),
    ),
)

NEWER_CURATOR = an_object(
    ["data_curator_name", "data_curator_type"],
    data_curator_name=TEXT,
    data_curator_type=one_of("Government", "Industry", "Nonprofit"),
)
BIBTEX: Schema = {"type": "object", "additionalProperties": TEXT}
NEWER_BASIC = an_object(
    PRODUCT["required"],
    **{
        **PRODUCT["properties"],
        "data_curators": a_list(NEWER_CURATOR, 1),
        "data_product_type": one_of(*PRODUCT["properties"]["data_product_type"]["enum"], "SQL queries"),
        "data_product_sector": one_of(*PRODUCT["properties"]["data_product_sector"]["enum"], "Finance"),
    },
)
NEWER_DEPLOYMENT = an_object(
    ["url_slug", "deployment"],
    url_slug={"type": "string", "pattern": "^[a-z0-9-]+$"},
    deployment=an_object(
        ["basic", "administrative"],
        basic=NEWER_BASIC,
        dp_variant=an_object(
            [],
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            **texts("data_domain", "unprotected_quantities"),
        ),
        privacy_loss=an_object(
            [],
            number_of_privacy_units={"type": "integer"},
            privacy_parameters=an_object([], epsilon=NUMBER, delta={"type": ["number", "string"]}, rho=NUMBER),
            privacy_parameters_details=ANYTHING,
            **texts("privacy_unit", "privacy_unit_details"),
        ),
        deployment_model=an_object(
            [],
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            access_type=one_of("Interactive", "Non-interactive"),
            **texts("model_name_details", "trust_assumptions", "actors", "release_type_details"),
            **texts("data_source_type_details", "access_type_details"),
        ),
        implementation=an_object(
            [],
            utility=ANYTHING,
            additional_information=ANYTHING,
            **texts("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing"),
            **texts("justification"),
        ),
        administrative=an_object(
            ["status", "registry_authors", "tier"],
            status=DEPLOYMENT["properties"]["status"],
            registry_authors=a_list(TEXT, 1),
            tier=DEPLOYMENT["properties"]["tier"],
            evidence_sources={"type": "object", "additionalProperties": BIBTEX},
        ),
    ),
)


def facet(required: list[str], **properties: Schema) -> Schema:
    """A facet has its producer and schema; further properties are allowed, as the standard does."""
    uri = {"type": "string", "format": "uri", "pattern": "^[a-z]+:"}
    named = {"_producer": uri, "_schemaURL": uri}
    return an_object([*named, *required], closed=False, **named, **properties)


FIELDS = a_list(an_object(["name"], name=TEXT, type=TEXT, description=TEXT))
ASSERTION = an_object(
    ["assertion", "success"], assertion=TEXT, success={"type": "boolean"}, column=TEXT, severity=TEXT
)
COLUMN_FROM = an_object(
    ["namespace", "name", "field"],
    transformations=a_list(
        an_object(["type"], type=one_of("DIRECT", "INDIRECT"), subtype=TEXT, masking={"type": "boolean"})
    ),
    **texts("namespace", "name", "field"),
)
COLUMNS_FROM = an_object(["inputFields"], inputFields=a_list(COLUMN_FROM))
DATASET_FACETS = an_object(
    [],
    closed=False,
    schema=facet([], fields=FIELDS),
    version=facet(["datasetVersion"], datasetVersion=TEXT),
    storage=facet(["storageLayer"], storageLayer=TEXT, fileFormat=TEXT),
    columnLineage=facet(["fields"], fields={"type": "object", "additionalProperties": COLUMNS_FROM}),
)
DATASET = {"namespace": TEXT, "name": TEXT, "facets": {**DATASET_FACETS, "additionalProperties": facet([])}}
RUN_EVENT = an_object(
    ["eventTime", "producer", "schemaURL", "run", "job"],
    eventTime={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
    eventType=one_of("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"),
    producer={"type": "string", "pattern": "^[a-z]+:"},
    schemaURL={"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
    run=an_object(
        ["runId"],
        runId={"type": "string", "pattern": "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$"},
        facets={
            "type": "object",
            "properties": {"processing_engine": facet(["version"], version=TEXT)},
            "additionalProperties": facet([]),
        },
    ),
    job=an_object(
        ["namespace", "name"],
        facets={
            "type": "object",
            "properties": {
                "jobType": facet(["processingType", "integration"], processingType=TEXT, integration=TEXT),
                "documentation": facet(["description"], description=TEXT),
            },
        },
        **texts("namespace", "name"),
    ),
    inputs=a_list(
        an_object(
            ["namespace", "name"],
            inputFacets=an_object([], dataQualityAssertions=facet(["assertions"], assertions=a_list(ASSERTION))),
            **DATASET,
        )
    ),
    outputs=a_list(
        an_object(
            ["namespace", "name"],
            outputFacets=an_object([], outputStatistics=facet([], rowCount=COUNT, size=COUNT, fileCount=COUNT)),
            **DATASET,
        )
    ),
)
