"""The contract of `Engine`, run by every engine: local (one and two tasks), Spark, Spark Connect."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers.spark_connect import SparkConnectServer
from tidemill.batch.work import Engine, Item
from tidemill.engines import engine_for
from tidemill.errors import InternalError, InvalidInput

TEXTS = ("the tide turns the mill", "", "the mill grinds", "tide and time and tide", "grinds the time")


@pytest.fixture(scope="session")
def connect_session() -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    with SparkConnectServer() as server:
        spark = SparkSession.builder.remote(server.url).getOrCreate()
        yield spark
        spark.stop()


ON_SPARK = pytest.mark.servers("start Spark")


@pytest.fixture(
    params=["local-1", "local-2", pytest.param("spark", marks=ON_SPARK), pytest.param("connect", marks=ON_SPARK)]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    kind = request.param
    if kind.startswith("local"):
        return engine_for(None, "local", int(kind[-1]))
    if kind == "spark":
        return engine_for(None, "spark", "auto", {"spark.master": "local[2]"})
    return engine_for(request.getfixturevalue("connect_session"))


@dataclass(frozen=True)
class Shape:
    """A work's numbers; its subclasses do the work. Workers cannot import this file as a module."""

    scatter_tasks: int
    ranges: int
    levels: int = 1
    modules: tuple[str, ...] = (__name__,)
    paths: tuple[str, ...] = ()

    def scatter(self, task: int) -> Iterator[Item]:
        raise AssertionError("not asked for")
        yield

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield Item(0, b"%d/%d %s" % (level, range_index, b",".join(sorted(items))))


def range_of(data: bytes, ranges: int) -> int:
    return hashlib.sha256(data).digest()[0] % ranges


@dataclass(frozen=True)
class WordCount(Shape):
    """Counts words; with two levels, then how many words are how frequent."""

    def scatter(self, task: int) -> Iterator[Item]:
        for text in TEXTS[task :: self.scatter_tasks]:
            for word in text.encode().split():
                yield Item(range_of(word, self.ranges), word)

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        for item, count in sorted(Counter(items).items()):
            last = level == self.levels - 1
            yield Item(0, b"%s=%d" % (item, count)) if last else Item(count % self.ranges, b"x%d" % count)


def counted(*items: str) -> list[bytes]:
    return sorted(b"%s=%d" % (item.encode(), count) for item, count in Counter(items).items())


@pytest.mark.parametrize(("tasks", "ranges"), [(1, 1), (1, 3), (2, 2), (5, 1), (5, 7)])
def test_words_are_counted_with_any_number_of_tasks_and_ranges(engine: Engine, tasks: int, ranges: int) -> None:
    assert sorted(engine.execute(WordCount(tasks, ranges))) == counted(*" ".join(TEXTS).split())


@pytest.mark.parametrize(("tasks", "ranges"), [(1, 1), (3, 2), (2, 5)])
def test_a_second_level_receives_the_items_of_the_first(engine: Engine, tasks: int, ranges: int) -> None:
    frequencies = Counter(" ".join(TEXTS).split()).values()
    assert sorted(engine.execute(WordCount(tasks, ranges, levels=2))) == counted(*(f"x{n}" for n in frequencies))


@dataclass(frozen=True)
class ToEvenRanges(Shape):
    """Nothing is sent to odd ranges; every range of a level reports to range 0 of the next that it was applied."""

    def scatter(self, task: int) -> Iterator[Item]:
        for target in range(0, self.ranges, 2):
            yield Item(target, b"s%d" % task)

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield Item(0, b"%d/%d(%s)" % (level, range_index, b" ".join(sorted(items))))


def test_every_range_is_applied_once_even_if_nothing_was_sent_to_it(engine: Engine) -> None:
    assert sorted(engine.execute(ToEvenRanges(2, 5))) == [
        b"0/0(s0 s1)", b"0/1()", b"0/2(s0 s1)", b"0/3()", b"0/4(s0 s1)",
    ]  # fmt: skip


def test_every_range_of_every_level_is_applied_once(engine: Engine) -> None:
    assert sorted(engine.execute(ToEvenRanges(1, 3, levels=3))) == [
        b"2/0(1/0(0/0(s0) 0/1() 0/2(s0)) 1/1() 1/2())", b"2/1()", b"2/2()",
    ]  # fmt: skip


def test_a_sweep_starts_at_apply(engine: Engine) -> None:
    assert sorted(engine.execute(Shape(0, 3))) == [b"0/0 ", b"0/1 ", b"0/2 "]
    assert sorted(engine.execute(ToEvenRanges(0, 2, levels=2))) == [b"1/0(0/0() 0/1())", b"1/1()"]
    assert engine.execute(ToEvenRanges(0, 1, levels=2)) == [b"1/0(0/0())"]


def test_without_ranges_there_is_nothing_to_do(engine: Engine) -> None:
    assert engine.execute(Shape(0, 0)) == []


def test_many_more_tasks_than_cores(engine: Engine) -> None:
    assert len(engine.execute(ToEvenRanges(9, 23))) == 23


@dataclass(frozen=True)
class WhoRuns(Shape):
    def scatter(self, task: int) -> Iterator[Item]:
        yield Item(0, b"%d" % os.getpid())

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield Item(0, b" ".join([*items, b"%d" % os.getpid()]))


def test_one_task_and_one_range_run_in_one_process(engine: Engine) -> None:
    for _ in range(3):
        (receipt,) = engine.execute(WhoRuns(1, 1, levels=2))
        assert len(set(receipt.split())) == 1


@dataclass(frozen=True)
class Sized(Shape):
    """Scatter tasks send each range `count` items of `size` bytes; ranges report what they received."""

    count: int = 1
    size: int = 0

    def scatter(self, task: int) -> Iterator[Item]:
        for number in range(self.count):
            for target in range(self.ranges):
                yield Item(target, bytes([target, task, number % 251]) * (self.size // 3))

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        sizes = Counter((len(item), item[:1] == bytes([range_index])) for item in items)
        yield Item(0, repr(sorted(sizes.items())).encode())


def test_large_items_arrive_whole(engine: Engine) -> None:
    size = 20 * 1024 * 1024 // 3 * 3
    assert engine.execute(Sized(2, 2, count=2, size=size)) == [repr([((size, True), 4)]).encode()] * 2


def test_many_small_items_arrive(engine: Engine) -> None:
    assert engine.execute(Sized(2, 2, count=10_000, size=99)) == [repr([((99, True), 20_000)]).encode()] * 2


def test_empty_items_arrive(engine: Engine) -> None:
    assert engine.execute(Sized(2, 2, count=3)) == [repr([((0, False), 6)]).encode()] * 2


@dataclass(frozen=True)
class LargeReceipt(Shape):
    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield Item(0, bytes(20 * 1024 * 1024))
        yield Item(0, b"")


@pytest.mark.parametrize("ranges", [1, 2])
def test_receipts_may_be_large_empty_or_several_a_range(engine: Engine, ranges: int) -> None:
    assert Counter(map(len, engine.execute(LargeReceipt(0, ranges)))) == {20 * 1024 * 1024: ranges, 0: ranges}


@dataclass(frozen=True)
class Unread(Shape):
    """Reads no items; the file that scatter writes at its end shows that scatter ended."""

    file: str = ""

    def scatter(self, task: int) -> Iterator[Item]:
        yield from (Item(0, b"ignored") for _ in range(100))
        with open(self.file, "ab") as end:
            end.write(b".")

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield from ()


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_scatter_task_ends_even_if_its_items_are_not_read(engine: Engine, tasks: int, tmp_path: Any) -> None:
    file = tmp_path / "ends"
    assert engine.execute(Unread(tasks, 1, file=str(file))) == []
    assert file.read_bytes() == b"." * tasks


@dataclass(frozen=True)
class Raises(Shape):
    where: str = ""

    def scatter(self, task: int) -> Iterator[Item]:
        yield from (Item(target, b"fine") for target in range(self.ranges))
        if self.where == "scatter" and task == self.scatter_tasks - 1:
            raise LookupError("no such tide\nnor mill")

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield Item(0, b"%d" % len(list(items)))
        if self.where == f"apply {level}" and range_index == self.ranges - 1:
            raise LookupError("no such tide\nnor mill")


@pytest.mark.parametrize("where", ["scatter", "apply 0", "apply 1"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2)])
def test_an_exception_of_a_task_is_one_internal_error_with_its_traceback(
    engine: Engine, where: str, shape: tuple[int, int]
) -> None:
    with pytest.raises(InternalError) as raised:
        engine.execute(Raises(*shape, levels=2, where=where))
    assert raised.value.first_line == f"run a batch on engine `{engine.name}`: a task raised LookupError: no such tide"
    assert where.split()[0] in raised.value.message.split("Traceback", 1)[1]
    assert "nor mill" in raised.value.message
    assert "org.apache.spark" not in raised.value.message


def test_an_engine_stays_usable_after_a_failure(engine: Engine) -> None:
    with pytest.raises(InternalError):
        engine.execute(Raises(2, 2, where="scatter"))
    assert len(engine.execute(Raises(2, 2))) == 2


@dataclass(frozen=True)
class Misdirected(Shape):
    def scatter(self, task: int) -> Iterator[Item]:
        yield Item(self.ranges, b"beyond the last range")


@pytest.mark.parametrize("ranges", [1, 2])
def test_an_item_for_a_range_that_does_not_exist_is_refused(engine: Engine, ranges: int) -> None:
    expected = f"scatter task 0 sent an item to range {ranges}, expected 0 to {ranges - 1}"
    with pytest.raises(InternalError, match=expected):
        engine.execute(Misdirected(1, ranges))


def test_two_works_run_at_once(engine: Engine) -> None:
    results: dict[int, list[bytes]] = {}
    errors: list[Exception] = []

    def run(ranges: int) -> None:
        try:
            results[ranges] = engine.execute(ToEvenRanges(2, ranges))
        except InternalError as error:  # it fails the test below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(ranges,)) for ranges in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert {ranges: len(receipts) for ranges, receipts in results.items()} == {2: 2, 3: 3}


@dataclass(frozen=True)
class Holds(Shape):
    held: Any = None


def test_a_work_that_cannot_be_pickled_is_refused_with_the_reason(engine: Engine) -> None:
    if engine.name == "local":
        assert engine.execute(Holds(0, 1, held=threading.Lock())) == [b"0/0 "]
        return
    with pytest.raises(InvalidInput, match=r"cannot be pickled .*lock") as raised:
        engine.execute(Holds(0, 1, held=threading.Lock()))
    assert "hint: open files, locks, connections and Spark sessions inside the function" in str(raised.value)


def test_modules_registered_to_go_by_value_are_removed_again(engine: Engine) -> None:
    from pyspark import cloudpickle

    registered: Callable[[], set[str]] = cloudpickle.cloudpickle.list_registry_pickle_by_value
    before = registered()
    engine.execute(Shape(0, 1))
    assert registered() == before
    assert __name__ not in before


@pytest.mark.servers("start Spark")
def test_a_connect_server_that_does_not_size_batches_gets_few_rows_and_its_setting_back(connect_session: Any) -> None:
    setting, bytes_setting = (f"spark.sql.execution.arrow.max{name}PerBatch" for name in ("Records", "Bytes"))
    before, bytes_before = connect_session.conf.get(setting), connect_session.conf.get(bytes_setting)
    connect_session.conf.set(bytes_setting, "2147483647b")
    engine = engine_for(connect_session)
    connect_session.conf.set(bytes_setting, bytes_before)
    assert engine.execute(Sized(2, 2, count=200, size=99)) == [repr([((99, True), 400)]).encode()] * 2
    with pytest.raises(InternalError):
        engine.execute(Raises(2, 2, where="scatter"))
    assert connect_session.conf.get(setting) == before


def test_parallelism_is_the_cores_of_spark_or_the_given_number(engine: Engine, request: Any) -> None:
    assert engine.parallelism == (1 if "local-1" in request.node.name else 2)


@pytest.mark.parametrize(
    ("tasks", "cores", "at_once"), [(7, 2, 2), (7, 8, 7), (1, 8, 1), ("auto", 2, 2), ("auto", 8, 4)]
)
def test_the_local_engine_runs_no_more_tasks_at_once_than_there_are_cores(
    tasks: Any, cores: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.engines._cores", lambda: cores)
    assert engine_for(None, "local", tasks).parallelism == at_once


def test_the_name_and_the_session_are_checked() -> None:
    assert engine_for(None, "local").parallelism >= 1
    with pytest.raises(InvalidInput, match="unknown engine `sparc`; did you mean `spark`"):
        engine_for(None, "sparc")
    with pytest.raises(InvalidInput, match="a Spark session was given"):
        engine_for(object(), "local")
