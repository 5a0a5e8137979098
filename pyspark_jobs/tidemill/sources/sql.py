"""Row-wise SQL: which DuckDB SELECT statements a stream allows, and how hidden columns pass through them.

Decisions about the parsed statement; no rows are read. INVARIANT: a statement that passes gives the same result for
each row, whatever other rows there are, and whenever and wherever it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from ..errors import InvalidInput
from . import connections

TABLE = "rows"
ALIAS = "_tidemill"
"""Prefix of hidden columns in the result, so that no `*` confuses them with the user's columns."""

_ENVIRONMENT = {
    "current_date", "current_localtime", "current_localtimestamp", "current_time", "current_timestamp", "localtime",
    "localtimestamp", "current_catalog", "current_database", "current_role", "current_schema", "current_user",
    "session_user", "user", "version", "getenv", "getvariable", "current_setting",
}  # fmt: skip
_CLAUSES = {
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "sample": "USING SAMPLE",
}
_MODIFIERS = {
    "DISTINCT_MODIFIER": "DISTINCT",
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
}
_TABLES = {
    "JOIN": "a join",
    "SUBQUERY": "a subquery",
    "TABLE_FUNCTION": "a table function",
    "EMPTY": "no FROM",
    "AT": "AT",
}
_PATTERNS = {"~~", "!~~", "~~*", "!~~*", "~~~", "regexp_full_match"}
"""The functions that `* LIKE …` and similar forms become when parsed."""
_USE_KEYED = "use a keyed operator: .groupBy(…).agg(…) or .dropDuplicates(…)"


def check_row_wise(text: str, columns: Sequence[str]) -> None:
    """Raise `InvalidInput` unless `text` is one SELECT over `rows` alone that treats each row by itself."""
    node = _parsed(text)
    _check_clauses(text, node)
    _check_table(text, node.get("from_table") or {})
    names = {name.lower() for name in columns}
    table = node["from_table"].get("alias") or TABLE
    for part in ("select_list", "where_clause"):
        for found in _expressions(node.get(part)):
            _check_expression(text, found, names)
            _check_no_whole_row(text, found, names, table.lower())


def carried(text: str, columns: Sequence[str], name: str) -> list[str]:
    """Return the names under which the column `name` of `columns` may leave the statement unchanged, its own first.

    Only DuckDB knows which columns `COLUMNS(…)` and `* LIKE …` choose. A column that they choose keeps its name.
    """
    items = _parsed(text)["select_list"]
    leaves: list[str] = []
    for item in items:
        plain_star = item["class"] == "STAR" and item.get("expr") is None
        if item["class"] == "COLUMN_REF" and _is_column(item["column_names"], columns, name):
            leaves.append(item.get("alias") or name)
        elif plain_star:
            leaves += _through_star(item, name)
        elif not item.get("alias") and _chooses(item) and not any(_may_be(other, name) for other in items):
            leaves.append(name)
    return sorted(leaves, key=lambda one: one != name)


def _is_column(path: Sequence[str], columns: Sequence[str], name: str) -> bool:
    """Return whether a reference means the column, alone or after the table's name, and not a field of a struct."""
    *table, last = (part.lower() for part in path)
    return last == name.lower() and (
        not table or (len(table) == 1 and table[0] not in {one.lower() for one in columns})
    )


def _through_star(star: dict[str, Any], name: str) -> list[str]:
    """Return the name under which a column passes `*`; empty if it is excluded or replaced."""
    out = [*(star.get("exclude_list") or ()), *(one["column"] for one in star.get("qualified_exclude_list") or ())]
    out += [one["key"] for one in star.get("replace_list") or ()]
    if name.lower() in {str(one).lower() for one in out}:
        return []
    renamed = {str(one["key"]["column"]).lower(): str(one["value"]) for one in star.get("rename_list") or ()}
    return [renamed.get(name.lower(), name)]


def _chooses(item: dict[str, Any]) -> bool:
    """Return whether an item is `COLUMNS(…)` or `* LIKE …`."""
    if item["class"] == "STAR":
        return True
    arguments = item.get("arguments") or item.get("children") or ()
    return _name(item) in _PATTERNS and any(one.get("expression", one).get("class") == "STAR" for one in arguments)


def _may_be(item: dict[str, Any], name: str) -> bool:
    """Return whether an item other than `*` or `COLUMNS(…)` may make a column called `name`."""
    if item["class"] == "STAR" or _chooses(item):
        return False
    if item.get("alias"):
        return str(item["alias"]).lower() == name.lower()
    return item["class"] != "COLUMN_REF" or str(item["column_names"][-1]).lower() == name.lower()


@lru_cache(maxsize=256)
def with_hidden(text: str, hidden: tuple[str, ...]) -> str:
    """Return `text` with the columns `hidden` excluded from every `*` and added at the end as `_tidemill<name>`."""
    if not hidden:
        return text
    tree = _serialised(text)
    node = tree["statements"][0]["node"]
    for found in _expressions(node["select_list"]):
        if found.get("class") == "STAR" and found.get("expr") is None:
            found["exclude_list"] = [*found.get("exclude_list", ()), *hidden]
    for name in hidden:
        column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": f"{ALIAS}{name}", "column_names": [name]}
        node["select_list"].append(column)
    made: str = (
        connections.for_user_sql().execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()[0][0]
    )
    return made


def sql_error(text: str, what: str, hint: str | None = None) -> InvalidInput:
    """Return the error for a statement, with the statement on one line."""
    shown = " ".join(text.split())
    return InvalidInput(f"sql `{shown if len(shown) <= 200 else shown[:200] + '…'}`: {what}", hint=hint)


def _parsed(text: str) -> dict[str, Any]:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"sql: found {text!r}, expected a statement such as `SELECT * FROM rows WHERE …`")
    tree = _serialised(text)
    if tree.get("error"):
        message = str(tree.get("error_message"))
        if message.startswith("Only SELECT"):
            message = "this is not a SELECT, expected `SELECT … FROM rows`"
        raise sql_error(text, message)
    statements = tree["statements"]
    if len(statements) != 1:
        raise sql_error(text, f"found {len(statements)} statements, expected one SELECT")
    node: dict[str, Any] = statements[0]["node"]
    if node["type"] == "CTE_NODE":
        raise _with(text)
    if node["type"] != "SELECT_NODE":
        kind = str(node.get("setop_type") or node["type"]).lower().replace("_", " ")
        raise sql_error(text, f"found a {kind}, expected one SELECT over `rows`", "combine streams with .unionByName")
    return node


def _serialised(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(
        connections.for_user_sql().execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][0]
    )
    return tree


def _check_clauses(text: str, node: dict[str, Any]) -> None:
    for modifier in node.get("modifiers") or ():
        clause = _MODIFIERS.get(modifier["type"], modifier["type"])
        raise sql_error(text, f"{clause} needs more than one row, expected a row-wise SELECT", _USE_KEYED)
    for key, clause in _CLAUSES.items():
        if node.get(key):
            raise sql_error(text, f"{clause} needs more than one row, expected a row-wise SELECT", _USE_KEYED)
    if (node.get("aggregate_handling") or "STANDARD_HANDLING") != "STANDARD_HANDLING":
        raise sql_error(text, "GROUP BY needs more than one row, expected a row-wise SELECT", _USE_KEYED)
    if (node.get("cte_map") or {}).get("map"):
        raise _with(text)


def _with(text: str) -> InvalidInput:
    return sql_error(text, "found WITH, expected one SELECT over `rows`", "use several .sql steps")


def _check_table(text: str, table: dict[str, Any]) -> None:
    kind = table.get("type")
    named = (table.get("schema_name"), table.get("catalog_name"), table.get("table_name", "").lower())
    if table.get("at_clause"):
        kind = "AT"
    if kind == "BASE_TABLE" and named == ("", "", TABLE):
        if table.get("sample"):
            raise sql_error(text, "TABLESAMPLE gives other rows in every run, expected `FROM rows`")
        return
    what = f"the table `{table.get('table_name')}`" if kind == "BASE_TABLE" else _TABLES.get(str(kind), "another table")
    raise sql_error(text, f"found {what}, expected FROM `rows` alone", "`rows` is the stream; SQL sees no other table")


def _expressions(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every expression in a part of a statement, outer ones first."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _expressions(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _expressions(item)


def _check_expression(text: str, found: dict[str, Any], columns: set[str]) -> None:
    kind = found["class"]
    if kind == "SUBQUERY":
        raise sql_error(text, "found a subquery, expected a row-wise SELECT", "use several .sql steps")
    if kind == "WINDOW":
        raise sql_error(text, f"the window function `{_name(found)}` needs more than one row", _USE_KEYED)
    if kind == "PARAMETER":
        raise sql_error(text, "found a parameter, expected literal values")
    if kind == "FUNCTION":
        _check_function(text, found, columns)
    if kind == "COLUMN_REF" and len(found["column_names"]) == 1:
        name = found["column_names"][0].lower()
        if name not in columns and (name in _ENVIRONMENT or _changes(name)):
            raise _not_constant(text, name)


def _check_no_whole_row(text: str, found: dict[str, Any], columns: set[str], table: str) -> None:
    """Refuse the table's name as a value, because that is the row including hidden columns."""
    is_table = found["class"] == "COLUMN_REF" and [name.lower() for name in found["column_names"]] == [table]
    if is_table and table not in columns:
        raise sql_error(
            text, f"`{table}` as a value is the whole row, expected columns", "for example {'a': a, 'b': b}"
        )


def _check_function(text: str, found: dict[str, Any], columns: set[str]) -> None:
    name = _name(found)
    kinds = _functions().get(name, {})
    if "aggregate" in kinds:
        raise sql_error(text, f"the aggregate `{name}` needs more than one row, expected a row-wise SELECT", _USE_KEYED)
    arguments = found.get("arguments", found.get("children")) or ()
    if name in _ENVIRONMENT or _changes(name) or (name == "age" and len(arguments) == 1):
        raise _not_constant(text, name)
    for definition in kinds.get("macro", ()):
        for inner in _macro(definition):
            if _name(inner) != name:
                _check_expression(text, inner, columns)


def _not_constant(text: str, name: str) -> InvalidInput:
    return sql_error(
        text,
        f"`{name}` does not depend on the row alone, so a retried batch would give other results",
        "functions are given the batch time instead, for example as `batchTime` in .mapWithState(…)",
    )


def _name(found: dict[str, Any]) -> str:
    return str(found.get("function_name", "")).lower()


def _changes(name: str) -> bool:
    return any(kind in _functions().get(name, {}) for kind in ("VOLATILE", "CONSISTENT_WITHIN_QUERY"))


@lru_cache(maxsize=1)
def _functions() -> dict[str, dict[str, list[str]]]:
    """Return for each name its kinds (`scalar`, `aggregate`, `macro`, …), its stability and definitions of macros."""
    found: dict[str, dict[str, list[str]]] = {}
    rows = connections.for_user_sql().execute(
        "SELECT function_name, function_type, stability, macro_definition FROM duckdb_functions()"
    )
    for name, kind, stability, definition in rows.fetchall():
        kinds = found.setdefault(name.lower(), {})
        kinds.setdefault(kind, []).extend([definition] if definition else [])
        kinds.setdefault(stability or "", [])
    return found


@lru_cache(maxsize=256)
def _macro(definition: str) -> list[dict[str, Any]]:
    """Return the expressions in a macro's definition; none for a table macro, which is not an expression."""
    tree = _serialised(f"SELECT {definition}")
    return [] if tree.get("error") else list(_expressions(tree["statements"][0]["node"]))
