"""First attempts of PySpark's users that Tidemill spells differently: the error says what to write."""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.engines import engine_for
from tidemill.errors import InvalidInput
from tidemill.pipeline import pyspark_names
from tidemill.store import open_store
from tidemill.testing import Tester


def stream(time_zone: str = "UTC") -> Any:
    return tm.Pipeline("new", timeZone=time_zone).read(tm.Rows("k string, n int, at timestamp"))


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda s: s.where("n > 1"), "has no `where`: use .sql("),
        (lambda s: s.withColumn("m", 1), "has no `withColumn`: use .sql("),
        (lambda s: s.groupby("k"), "has no `groupby`: use .groupBy(…)"),
        (lambda s: s.writeStream, "has no `writeStream`: use .write(tm.Parquet(path))"),
        (lambda s: s.groupBy("k").count(), "a grouped stream has no `count`: use .agg(n=tm.count()"),
    ],
)
def test_a_pyspark_name_is_answered_with_tidemills(call: Callable[[Any], Any], answer: str) -> None:
    with pytest.raises(AttributeError) as caught:
        call(stream())
    assert answer in str(caught.value)


def test_a_pyspark_column_is_not_a_column_name() -> None:
    class Given:
        """Like a PySpark Column: a comparison returns a Column, which is neither true nor false."""

        def __eq__(self, other: object) -> Any:
            return self

        def __bool__(self) -> bool:
            raise ValueError("neither")

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(tm.InvalidInput, match="select: expected column names, found <"):
        stream().select(Given())  # type: ignore[arg-type]


def calls_in(answer: str) -> list[str]:
    """The chains of calls in an answer that are whole: none with `…` in it."""
    found = []
    for start in re.finditer(r"(?<![\w)])\.\w+\(", answer):
        code, depth = "", 0
        for place, character in enumerate(answer[start.start() :], start.start()):
            code += character
            depth += (character == "(") - (character == ")")
            if character == ")" and depth == 0 and not answer.startswith(".", place + 1):
                break
        found.append(code)
    return [code for code in found if "…" not in code]


NAMES_IN_ANSWERS = {"tm": tm, "path": "memory://out", "fn": lambda batch: batch.select(["k"]), "schema": "k string"}


@pytest.mark.parametrize(
    ("of", "name"),
    [
        *(("stream", name) for name in pyspark_names.OF_STREAMS),
        *(("groups", name) for name in pyspark_names.OF_GROUPS),
        *(("module", name) for name in pyspark_names.OF_THE_MODULE),
    ],
)
def test_the_code_of_an_answer_runs(of: str, name: str) -> None:
    answers = {
        "stream": pyspark_names.OF_STREAMS, "groups": pyspark_names.OF_GROUPS, "module": pyspark_names.OF_THE_MODULE
    }  # fmt: skip
    answer = answers[of][name]
    for code in calls_in(answer):
        rows = tm.Pipeline("new").read(tm.Rows("id int, k string, a int, b int, x double"))
        given: Any = rows.groupBy("k") if code.startswith(".agg") else rows
        made = eval(f"given{code}", NAMES_IN_ANSWERS | {"given": given})  # noqa: S307
        if not (made._pipeline.operators or made._pipeline.sinks):
            made.write(tm.Json("memory://out"))
        Tester(made._pipeline).batch([(1, "a", 1, 2, 3.0), (2, "a", 2, 2, 4.0)])


def test_a_sample_is_a_tenth_and_the_same_in_every_version_of_a_library() -> None:
    (code,) = calls_in(pyspark_names.OF_STREAMS["sample"])
    p = tm.Pipeline("sampled")
    eval(f"rows{code}", {"rows": p.read(tm.Rows("id int"))}).groupBy("id").agg(n=tm.count())  # noqa: S307
    taken = [row["id"] for row in Tester(p).batch(list(range(100))).rows]
    hashes = {number: hashlib.md5(str(number).encode(), usedforsecurity=False).digest() for number in range(100)}
    assert sorted(taken) == [number for number, md5 in hashes.items() if int.from_bytes(md5, "little") % 10 == 0]
    assert 5 < len(taken) < 15


def test_the_answer_for_pivot_makes_a_pivot() -> None:
    (code,) = calls_in(pyspark_names.OF_GROUPS["pivot"])
    p = tm.Pipeline("pivoted")
    eval(f"rows{code}", {"tm": tm, "rows": p.read(tm.Rows("k string, a int, x double"))})  # noqa: S307
    assert Tester(p).batch([("u", 1, 2.0), ("u", 2, 5.0), ("u", 1, 3.0)]).outputs == [("u", 5.0)]


def test_any_other_name_is_an_ordinary_attribute_error() -> None:
    for one in (stream(), stream().groupBy("k")):
        assert not hasattr(one, "nonsense")
        assert getattr(one, "__array__", None) is None
        assert type(copy.copy(one)) is type(one)
    assert pickle.loads(pickle.dumps(stream())).schema == stream().schema


@pytest.mark.parametrize(
    ("kind", "answers"), [(tm.Stream, pyspark_names.OF_STREAMS), (type(stream().groupBy("k")), pyspark_names.OF_GROUPS)]
)
def test_names_that_exist_have_no_answer(kind: type, answers: dict[str, str]) -> None:
    from pyspark.sql import DataFrame, GroupedData

    sparks = DataFrame if kind is tm.Stream else GroupedData
    assert [name for name in answers if hasattr(kind, name)] == []
    of_rdds_and_columns = {"map", "flatMap", "mapPartitions", "cast", "apply"}
    assert {name for name in answers if not hasattr(sparks, name)} <= of_rdds_and_columns


def test_functions_of_pyspark_that_have_another_name_are_answered_with_it() -> None:
    from pyspark.sql import functions

    with pytest.raises(AttributeError, match=r'^module `tidemill` has no `avg`: use \.agg\(mean=tm\.mean\("x"\)\)$'):
        _ = tm.avg
    with pytest.raises(AttributeError, match="^module `tidemill` has no `Pipline`$") as caught:
        _ = tm.Pipline
    assert (caught.value.name, caught.value.obj) == ("Pipline", tm)  # so that Python says `Did you mean: 'Pipeline'?`
    assert [name for name in pyspark_names.OF_THE_MODULE if hasattr(tm, name)] == []
    others = {"average", "countIf", "SparkSession", "functions"}
    assert {name for name in pyspark_names.OF_THE_MODULE if not hasattr(functions, name)} <= others


@pytest.mark.parametrize("given", [{"n": "sum"}, "n", tm.count()])
def test_aggregates_without_names_are_refused_with_an_example(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)agg: found .*hint: name each column: \.agg\(n=tm\.count\(\)"):
        stream().groupBy("k").agg(given)


def test_select_of_a_star_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidInput, match=r"(?s)found `\*`.*SELECT \*"):
        stream().select("*")


def test_a_column_called_star_is_selected() -> None:
    rows = tm.Pipeline("stars").read(tm.Rows(pa.schema([("*", pa.int64()), ("k", pa.string())])))
    assert rows.select("*").schema.names == ["*"]


@pytest.mark.parametrize("uri", ["s3:/lake/tidemill", "s3a:/lake", "memory:/x"])
def test_a_root_with_one_slash_is_not_a_folder(uri: str) -> None:
    with pytest.raises(InvalidInput, match="has one slash") as caught:
        open_store(uri)
    assert caught.value.hint == f"use `{uri.replace(':/', '://')}`"


@pytest.mark.parametrize("scheme", ["gs", "gcs", "abfs", "abfss", "hdfs", "dbfs"])
def test_an_unknown_store_with_one_slash_is_unknown_too(scheme: str) -> None:
    for slashes in ("/", "//", "///"):
        with pytest.raises(InvalidInput, match=f"unknown scheme `{scheme}`; expected `s3://bucket/prefix`"):
            open_store(f"{scheme}:{slashes}lake")


def test_a_stopped_session_is_refused() -> None:
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(InvalidInput, match="has been stopped"):
        engine_for(stopped)
