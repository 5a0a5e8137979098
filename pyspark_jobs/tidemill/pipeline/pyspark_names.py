"""What PySpark's users type that has another name here: the answer stands in the error, not only in the manual.

Text only. `docs/coming-from-structured-streaming.md` says the same at length.
"""

from __future__ import annotations

_COUNT = '.agg(n=tm.count(), total=tm.sum("x"))'
_EACH = '.sql("SELECT *, a * b AS c FROM rows WHERE …")'
_START = "tm.open(p, root=…).run()"

OF_STREAMS = {
    **dict.fromkeys(("where", "filter", "dropna", "fillna", "na", "replace"), f"use {_EACH}"),
    **dict.fromkeys(("withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed"), f"use {_EACH}"),
    **dict.fromkeys(("selectExpr", "toDF", "cast", "alias", "limit", "sample"), f"use {_EACH}"),
    "groupby": "it is .groupBy(…)",
    "drop_duplicates": "it is .dropDuplicates(…)",
    "distinct": "it is .dropDuplicates()",
    **dict.fromkeys(("union", "unionAll"), "it is .unionByName(…)"),
    **dict.fromkeys(("agg", "rollup", "cube"), f'group first: .groupBy("k"){_COUNT}'),
    **dict.fromkeys(("mapInPandas", "mapInArrow", "mapPartitions", "map", "flatMap"), "use .map_batches(fn, schema)"),
    **dict.fromkeys(("writeStream", "writeTo"), f"use .write(tm.Parquet(path)), then {_START}"),
    **dict.fromkeys(("join", "crossJoin"), "unite the streams, and join in .transformWithState; or use .map_batches"),
    **dict.fromkeys(
        ("count", "show", "collect", "toPandas", "take", "head", "first"), "see p.preview(10), r.outputs()"
    ),
    **dict.fromkeys(("repartition", "coalesce", "cache", "persist"), "leave it out: tasks are chosen when it runs"),
    **dict.fromkeys(("printSchema", "columns", "dtypes"), "see .schema"),
    **dict.fromkeys(("orderBy", "sort"), "order what you read: a batch's output has a fixed order of its own"),
}
"""Name → what to write instead, of a stream."""

OF_GROUPS = {
    **dict.fromkeys(("count", "sum", "avg", "mean", "min", "max", "pivot"), f"use {_COUNT}"),
    **dict.fromkeys(("applyInPandas", "apply"), "use .applyInPandasWithState(…) or .apply_batch(…)"),
    "cogroup": "unite the streams before .groupBy",
}
"""The same, of a stream by key."""


def missing(what: str, name: str, known: dict[str, str]) -> AttributeError:
    """The error for a name that is not there."""
    answer = known.get(name)
    return AttributeError(f"a {what} has no `{name}`" + (f": {answer}" if answer else ""))
