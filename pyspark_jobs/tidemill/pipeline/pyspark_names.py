"""Names that PySpark's users expect and Tidemill spells differently. The error says what to write instead.

Text only. `docs/guides/coming-from-structured-streaming.md` explains the same at length.
"""

from __future__ import annotations

_COUNT = '.agg(n=tm.count(), total=tm.sum("x"))'
_CHOSEN = '.sql("SELECT * FROM rows WHERE a > 0")'
_MADE = '.sql("SELECT *, a * b AS c FROM rows")'
_CAST = '.sql("SELECT * REPLACE (a::bigint AS a) FROM rows")'
_FILLED = '.sql("SELECT * REPLACE (coalesce(a, 0) AS a) FROM rows")'
_LEFT_OUT = '.sql("SELECT * FROM rows WHERE a IS NOT NULL")'
_REPLACED = '.sql("SELECT * REPLACE (CASE WHEN a = 1 THEN 2 ELSE a END AS a) FROM rows")'
_RENAMED = '.sql("SELECT * RENAME (a AS c) FROM rows")'
_SAMPLE = '.sql("SELECT * FROM rows WHERE md5_number(id::varchar) % 10 = 0")'
_START = "r = tm.open(p, root=…), r.init() once, and r.run()"
_PIVOT = (
    'make a column of each value first: .sql("SELECT *, CASE WHEN a = 1 THEN x END AS x_1 FROM rows")'
    '.groupBy("k").agg(x_1=tm.sum("x_1"))'
)

OF_STREAMS = {
    **dict.fromkeys(("where", "filter"), f"use {_CHOSEN}"),
    **dict.fromkeys(("withColumn", "withColumns", "selectExpr"), f"use {_MADE}"),
    "cast": f"use {_CAST}",
    "fillna": f"use {_FILLED}",
    "dropna": f"use {_LEFT_OUT}",
    "na": f"to fill, use {_FILLED}; to drop, use {_LEFT_OUT}",
    "replace": f"use {_REPLACED}",
    **dict.fromkeys(("withColumnRenamed", "withColumnsRenamed", "toDF"), f"use {_RENAMED}"),
    "alias": "omit it: in .sql every stream is called rows",
    "limit": "a stream has no end; use p.preview(10) to see some rows",
    "sample": f"filter by a hash of a column: {_SAMPLE}",
    "groupby": "use .groupBy(…)",
    "drop_duplicates": "use .dropDuplicates(…)",
    "distinct": "use .dropDuplicates()",
    **dict.fromkeys(("union", "unionAll"), "use .unionByName(…), which matches columns by name"),
    "agg": f'group first: .groupBy("k"){_COUNT}',
    **dict.fromkeys(
        ("rollup", "cube"), 'group each level separately: .groupBy("k").agg(n=tm.count(), name="by-k") and so on'
    ),
    **dict.fromkeys(("mapInPandas", "mapInArrow", "mapPartitions", "map", "flatMap"), "use .map_batches(fn, schema)"),
    **dict.fromkeys(("writeStream", "writeTo"), f"use .write(tm.Parquet(path)), then {_START}"),
    **dict.fromkeys(("join", "crossJoin"), "unite the streams, and join in .transformWithState; or use .map_batches"),
    **dict.fromkeys(
        ("count", "show", "collect", "toPandas", "take", "head", "first"), "use p.preview(10) or r.outputs()"
    ),
    **dict.fromkeys(
        ("repartition", "coalesce", "cache", "persist"), "omit it: r.run(tasks=…) decides how a batch is cut"
    ),
    **dict.fromkeys(("printSchema", "columns", "dtypes"), "use .schema"),
    **dict.fromkeys(("orderBy", "sort"), "order the rows when you read them: a batch's output has a canonical order"),
}
"""For a stream: name → what to write instead."""

OF_GROUPS = {
    **dict.fromkeys(("count", "sum"), f"use {_COUNT}"),
    **dict.fromkeys(("avg", "mean", "min", "max"), 'use .agg(mean=tm.mean("x"), least=tm.min("x"), most=tm.max("x"))'),
    "pivot": _PIVOT,
    **dict.fromkeys(("applyInPandas", "apply"), "use .applyInPandasWithState(…) or .apply_batch(…)"),
    "cogroup": "unite the streams before .groupBy: .unionByName(…)",
}
"""For a grouped stream."""

_EACH_ROW = '.sql("SELECT *, upper(k) AS c FROM rows")'
_KEPT = ".mapWithState(…) and keep the values in the state"

OF_THE_MODULE = {
    **dict.fromkeys(("avg", "average"), 'use .agg(mean=tm.mean("x"))'),
    **dict.fromkeys(("variance", "var_samp"), 'use .agg(v=tm.var("x"))'),
    **dict.fromkeys(("std", "stddev_samp"), 'use .agg(s=tm.stddev("x"))'),
    **dict.fromkeys(
        ("var_pop", "stddev_pop", "median", "percentile_approx", "mode", "corr", "skewness"), f"use {_KEPT}"
    ),
    **dict.fromkeys(
        ("countDistinct", "count_distinct", "approxCountDistinct"),
        'use .agg(n=tm.approx_count_distinct("x")), or the values: .agg(seen=tm.collect_set("x", limit=1000))',
    ),
    **dict.fromkeys(("first_value", "any_value"), 'use .agg(f=tm.first("x"))'),
    "last_value": 'use .agg(l=tm.last("x"))',
    "collect_list": f"use {_KEPT}",
    **dict.fromkeys(
        ("count_if", "countIf"), 'use .sql("SELECT *, (x > 0)::int AS c FROM rows").groupBy("k").agg(n=tm.sum("c"))'
    ),
    **dict.fromkeys(("col", "lit", "expr", "when", "udf", "upper", "to_timestamp", "from_json"), f"use {_EACH_ROW}"),
    **dict.fromkeys(("SparkSession", "functions"), "start with tm.Pipeline(name)"),
}
"""For the module `tm`, where users look for PySpark's functions."""


def missing_name(what: str, name: str, known: dict[str, str]) -> AttributeError:
    """Return the error for a name that `what` does not have."""
    answer = known.get(name)
    return AttributeError(f"{what} has no `{name}`" + (f": {answer}" if answer else ""))
