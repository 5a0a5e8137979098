"""A scheduler that interleaves two actors at every store call, and repeats an interleaving from its seed.

Each actor is a thread that opens a `ScheduledStore` by its URI. INVARIANT: one actor runs at a time, from one store
call to the next. Random ids come from the seed too, and an actor does the work of its pools of threads by itself. So a
seed gives the same calls in the same order. Half of the seeds play on a store that answers several requests at once.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidemill.store import ListedObject, Store
from tidemill.store.fault import FaultStore

POOLS = (
    "tidemill.engines.local",
    "tidemill.sources.read_ahead",
    "tidemill.upkeep.compacting",
    "tidemill.upkeep.collect",
    "tidemill.upkeep.merging",
)
"""The modules that start threads which call stores."""
SWITCHES = (0.5, 0.2, 0.05, 0.02)
"""How probable it is that the other actor goes on at a store call. One of them is chosen for each seed."""
MOST_SECONDS = 30


@dataclass(frozen=True)
class Call:
    """One store call: by which actor, what, and the name, or the prefix of a listing."""

    actor: str
    verb: str
    name: str

    def __str__(self) -> str:
        return f"{self.actor}: {self.verb} {self.name}"


@dataclass
class Schedule:
    """Lets one of the actors go at a time. `calls` are all calls so far; `created` are the creates that succeeded."""

    chance: random.Random
    calls: list[Call] = field(default_factory=list)
    created: list[Call] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._turn = ""
        self._living: list[str] = []
        self._changed = threading.Condition()
        self._switch = self.chance.choice(SWITCHES)
        self.requests_at_once = self.chance.choice((1, 4))
        """1: as a folder. More: as S3, where calls are made at once that do not depend on each other."""

    def run(self, actors: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Run the actors to their ends. Return what each returned or raised, by name."""
        threads = [
            threading.Thread(target=self._act, args=(name, act), name=name, daemon=True) for name, act in actors.items()
        ]
        self._living = list(actors)
        self._turn = self.chance.choice(self._living)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * MOST_SECONDS)
            assert not thread.is_alive(), f"{thread.name} does not end"
        return self.results

    def wait(self, verb: str, name: str) -> None:
        """Wait in a store call of an actor until it may go on. Calls of other threads go on at once."""
        actor = threading.current_thread().name
        if actor not in self._living:
            return
        with self._changed:
            others = [one for one in self._living if one != actor]
            if others and self.chance.random() < self._switch:
                self._give(self.chance.choice(others))
            self._await(actor)
            self.calls.append(Call(actor, verb, name))

    def note(self, verb: str, name: str) -> None:
        """Record that a create of an actor succeeded."""
        self.created.append(Call(threading.current_thread().name, verb, name))

    def _act(self, name: str, act: Callable[[], Any]) -> None:
        with self._changed:
            self._await(name)
        try:
            self.results[name] = act()
        except BaseException as error:  # noqa: BLE001
            self.results[name] = error
        with self._changed:
            self._living.remove(name)
            if self._living:
                self._give(self.chance.choice(self._living))

    def _give(self, actor: str) -> None:
        self._turn = actor
        self._changed.notify_all()

    def _await(self, actor: str) -> None:
        if not self._changed.wait_for(lambda: self._turn == actor, MOST_SECONDS):
            raise AssertionError(f"{self._turn} makes no store call and does not end, {actor} waits for it")


class ScheduledStore(FaultStore):
    """A store whose calls wait for their turn; see `Schedule`. Opened by its URI, `fault://…`."""

    def __init__(self, inner: Store, schedule: Schedule, key: str) -> None:
        super().__init__(inner, (), key)
        self._schedule = schedule

    @property
    def requests_at_once(self) -> int:
        return self._schedule.requests_at_once

    def get(self, name: str) -> bytes:
        self._wait("get", name)
        return super().get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self._wait("get", name)
        return super().get_range(name, start, length)

    def put(self, name: str, data: bytes) -> str | None:
        self._wait("put", name)
        return super().put(name, data)

    def put_hint(self, name: str, data: bytes) -> None:
        self._wait("put", name)
        super().put_hint(name, data)

    def create(self, name: str, data: bytes) -> bool:
        self._wait("create", name)
        is_ours = super().create(name, data)
        if is_ours:
            self._schedule.note("create", self._prefix + name)
        return is_ours

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        self._wait("copy", target)
        return super().copy(source, target, etag)

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        self._wait("copy", target)
        return super().copy_from(origin, source, target, etag)

    def list(self, prefix: str = "", start_after: str | None = None, enters: Any = None) -> Iterator[ListedObject]:
        """The other actor may write and delete while this one lists."""
        self._wait("list", prefix)
        for entry in super().list(prefix, start_after, enters):
            yield entry
            self._wait("list on", entry.name)

    def stat(self, name: str) -> ListedObject | None:
        self._wait("stat", name)
        return super().stat(name)

    def delete(self, name: str) -> None:
        self._wait("delete", name)
        super().delete(name)

    def _wait(self, verb: str, name: str) -> None:
        self._schedule.wait(verb, self._prefix + name)


class Inline:
    """A pool without threads: what is submitted is done at once."""

    def __init__(self, *_: Any) -> None:
        pass

    def submit(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(act(*arguments))
        except Exception as error:  # noqa: BLE001
            done.set_exception(error)
        return done

    def map(self, act: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(act, items)

    def shutdown(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Delayed(Inline):
    """A pool without threads that does what is submitted later: when a result is asked for, in a random order.

    So each order of calls that are made at once occurs, each with the other actor's calls in between.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._waiting: list[tuple[_Later, Callable[[], Any]]] = []

    def submit(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        later = _Later(self)
        self._waiting.append((later, lambda: act(*arguments)))
        if self._chance.random() < 0.3:
            self.do(later)
        return later

    def do(self, wanted: Future[Any] | None = None) -> None:
        """Do what waits, until `wanted` is done; None: all of it."""
        while self._waiting and (wanted is None or not wanted.done()):
            later, act = self._waiting.pop(self._chance.randrange(len(self._waiting)))
            try:
                later.set_result(act())
            except Exception as error:  # noqa: BLE001
                later.set_exception(error)

    def __exit__(self, *_: object) -> None:
        self.do()


class _Later(Future[Any]):
    def __init__(self, pool: Delayed) -> None:
        super().__init__()
        self._pool = pool

    def result(self, timeout: float | None = None) -> Any:
        self._pool.do(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._pool.do(self)
        return super().exception(timeout)


@contextmanager
def determined(chance: random.Random) -> Iterator[None]:
    """Make ids from `chance`, and no threads, as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4))
        for module in POOLS:
            patch.setattr(f"{module}.ThreadPoolExecutor", Inline)
        patch.setattr("tidemill.store.at_once.ThreadPoolExecutor", lambda *_: Delayed(chance))
        yield
