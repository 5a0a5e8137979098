"""What PySpark's users try first and is otherwise here: the error says what to write."""

from __future__ import annotations

import copy
import pickle
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


def stream(time_zone: str = "UTC") -> Any:
    return tm.Pipeline("new", timeZone=time_zone).read(tm.Rows("k string, n int, at timestamp"))


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda s: s.where("n > 1"), "has no `where`: use .sql("),
        (lambda s: s.withColumn("m", 1), "has no `withColumn`: use .sql("),
        (lambda s: s.groupby("k"), "has no `groupby`: it is .groupBy(…)"),
        (lambda s: s.writeStream, "has no `writeStream`: use .write(tm.Parquet(path))"),
        (lambda s: s.groupBy("k").count(), "a stream by key has no `count`: use .agg(n=tm.count()"),
    ],
)
def test_a_name_of_pysparks_is_answered(call: Callable[[Any], Any], answer: str) -> None:
    with pytest.raises(AttributeError) as caught:
        call(stream())
    assert answer in str(caught.value)


def test_any_other_name_is_not_there_as_on_any_object() -> None:
    for one in (stream(), stream().groupBy("k")):
        assert not hasattr(one, "nonsense")
        assert getattr(one, "__array__", None) is None
        assert type(copy.copy(one)) is type(one)
    assert pickle.loads(pickle.dumps(stream())).schema == stream().schema


@pytest.mark.parametrize(
    ("kind", "answers"), [(tm.Stream, pyspark_names.OF_STREAMS), (type(stream().groupBy("k")), pyspark_names.OF_GROUPS)]
)
def test_no_answer_is_given_for_what_is_there(kind: type, answers: dict[str, str]) -> None:
    from pyspark.sql import DataFrame, GroupedData

    sparks = DataFrame if kind is tm.Stream else GroupedData
    assert [name for name in answers if hasattr(kind, name)] == []
    of_rdds_and_columns = {"map", "flatMap", "mapPartitions", "cast", "apply"}
    assert {name for name in answers if not hasattr(sparks, name)} <= of_rdds_and_columns


@pytest.mark.parametrize("given", [{"n": "sum"}, "n", tm.count()])
def test_aggregates_without_names_are_refused_with_the_form(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)agg: found .*hint: \.agg\(n=tm\.count\(\)"):
        stream().groupBy("k").agg(given)


def test_select_of_a_star_is_refused_with_the_form() -> None:
    with pytest.raises(InvalidInput, match=r"(?s)found `\*`.*SELECT \*"):
        stream().select("*")


def test_a_column_called_star_is_selected() -> None:
    rows = tm.Pipeline("stars").read(tm.Rows(pa.schema([("*", pa.int64()), ("k", pa.string())])))
    assert rows.select("*").schema.names == ["*"]


@pytest.mark.parametrize("uri", ["s3:/lake/tidemill", "s3a:/lake", "memory:/x"])
def test_a_root_with_one_slash_is_no_folder(uri: str) -> None:
    with pytest.raises(InvalidInput, match="has one slash") as caught:
        open_store(uri)
    assert caught.value.hint == uri.replace(":/", "://")


@pytest.mark.parametrize("scheme", ["gs", "gcs", "abfs", "abfss", "hdfs", "dbfs"])
def test_a_store_that_is_not_known_is_not_known_with_one_slash_either(scheme: str) -> None:
    for slashes in ("/", "//", "///"):
        with pytest.raises(InvalidInput, match=f"scheme `{scheme}` is not known; expected `s3://bucket/prefix`"):
            open_store(f"{scheme}:{slashes}lake")


def test_a_session_that_was_stopped_is_said_to_be() -> None:
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(InvalidInput, match="has been stopped"):
        engine_for(stopped)
