"""What a row-wise select may consist of: node types and their fields, functions, types to cast to.

Data, not logic: `contracts.sql.select` walks a parse tree and refuses whatever does not stand here. A function is
listed when it is scalar, built in, and depends on nothing but its arguments: not on time, chance, settings,
files, other rows or the position of its row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]
"""A statement as DuckDB parses it: nodes as JSON objects."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERATORS = "+ - * / // % ** ^ || ~~ !~~ ~~* !~~* ~~~ & |"
_TEXT = """
    lower upper trim ltrim rtrim length strlen left right substring substr replace concat concat_ws contains prefix
    suffix starts_with ends_with position instr strpos lpad rpad reverse translate strip_accents
    nfc_normalize regexp_matches regexp_full_match regexp_extract regexp_replace
"""
_NUMBERS = """
    abs sign round floor ceil ceiling trunc mod sqrt cbrt ln log log2 log10 exp pow power greatest least
    isnan isinf isfinite
"""
_DATES = """
    date_part datepart date_trunc datetrunc date_diff datediff year quarter month week day hour minute second
    dayofweek dayofyear isodow isoyear weekofyear yearweek last_day monthname dayname make_date strftime strptime
    try_strptime to_days to_weeks to_months to_years to_hours to_minutes to_seconds
"""
_CHOICE = "nullif"
FUNCTIONS = _words(" ".join((_OPERATORS, _TEXT, _NUMBERS, _DATES, _CHOICE)))

CAST_TYPES = _words(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DECIMAL "
    "VARCHAR DATE TIME TIMESTAMP"
)

OPERATORS = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_TRY COMPARE_IN COMPARE_NOT_IN"
)

COMPARISONS = _words(
    "COMPARE_EQUAL COMPARE_NOTEQUAL COMPARE_LESSTHAN COMPARE_GREATERTHAN COMPARE_LESSTHANOREQUALTO "
    "COMPARE_GREATERTHANOREQUALTO COMPARE_DISTINCT_FROM COMPARE_NOT_DISTINCT_FROM"
)

ROW_POSITIONS = _words("rowid file_row_number file_index")
SHIFTING_COLUMNS = ROW_POSITIONS | _words(
    "filename current_catalog current_database current_date current_role "
    "current_schema current_time current_timestamp current_user localtime localtimestamp session_user user"
)
"""Names that DuckDB reads as a row's position, the time or the user where the source has no column of that name."""


@dataclass(frozen=True)
class ExpressionShape:
    """The fields of one class of node: which hold expressions, which must be as if not written, which are free."""

    types: frozenset[str]
    one: tuple[str, ...] = ()
    many: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    neutral: dict[str, Any] = field(default_factory=dict)


_NO_ORDER = {"type": "ORDER_MODIFIER", "orders": []}
EXPRESSIONS: dict[str, ExpressionShape] = {
    "COLUMN_REF": ExpressionShape(frozenset({"COLUMN_REF"}), free=("column_names",)),
    "CONSTANT": ExpressionShape(frozenset({"VALUE_CONSTANT"}), free=("value",)),
    "CAST": ExpressionShape(frozenset({"OPERATOR_CAST"}), one=("child",), free=("cast_type", "try_cast")),
    "CASE": ExpressionShape(frozenset({"CASE_EXPR"}), one=("else_expr",), free=("case_checks",)),
    "COMPARISON": ExpressionShape(COMPARISONS, one=("left", "right")),
    "CONJUNCTION": ExpressionShape(frozenset({"CONJUNCTION_AND", "CONJUNCTION_OR"}), many=("children",)),
    "BETWEEN": ExpressionShape(frozenset({"COMPARE_BETWEEN"}), one=("input", "lower", "upper")),
    "OPERATOR": ExpressionShape(OPERATORS, many=("children",)),
    "FUNCTION": ExpressionShape(
        frozenset({"FUNCTION"}),
        many=("children",),
        free=("function_name", "schema", "is_operator"),
        neutral={"filter": None, "order_bys": _NO_ORDER, "distinct": False, "export_state": False, "catalog": ""},
    ),
}

STAR = ExpressionShape(
    frozenset({"STAR"}),
    free=("relation_name", "exclude_list"),
    neutral={"replace_list": [], "columns": False, "expr": None, "qualified_exclude_list": [], "rename_list": []},
)

SELECT_NODE = ExpressionShape(
    frozenset({"SELECT_NODE"}),
    free=("select_list", "from_table", "where_clause"),
    neutral={
        "modifiers": [],
        "cte_map": {"map": []},
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    },
)

FROM_TABLE = ExpressionShape(
    frozenset({"BASE_TABLE"}),
    free=("alias", "table_name"),
    neutral={"sample": None, "schema_name": "", "column_name_alias": [], "catalog_name": "", "at_clause": None},
)

WORDS = {
    "modifiers": "DISTINCT, ORDER BY, LIMIT or OFFSET",
    "cte_map": "WITH",
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "aggregate_handling": "GROUP BY ALL",
    "having": "HAVING",
    "sample": "a sample",
    "qualify": "QUALIFY",
    "filter": "FILTER",
    "order_bys": "ORDER BY inside a function",
    "distinct": "DISTINCT inside a function",
    "replace_list": "* REPLACE",
    "rename_list": "* RENAME",
    "columns": "COLUMNS(...)",
    "schema_name": "a schema before the table",
    "catalog_name": "a database before the table",
    "column_name_alias": "new column names behind the table",
    "at_clause": "AT",
    "catalog": "a database before a function",
    "JOIN": "a join",
    "SUBQUERY": "a subquery",
    "TABLE_FUNCTION": "a table function",
    "EMPTY": "no FROM",
    "EXPRESSION_LIST": "VALUES",
    "SHOW_REF": "DESCRIBE, SHOW or SUMMARIZE",
    "PIVOT": "PIVOT or UNPIVOT",
    "SET_OPERATION_NODE": "UNION, INTERSECT or EXCEPT",
    "WINDOW": "a window (OVER)",
    "LAMBDA": "a lambda",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a positional reference (#1)",
    "COLLATE": "COLLATE",
    "DEFAULT": "DEFAULT",
    "STAR": "* inside an expression",
}
"""How a person calls what the parser names like this."""
