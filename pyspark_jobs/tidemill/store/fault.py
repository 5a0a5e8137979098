"""A store that fails on purpose: it numbers every write, and fails at the writes that a plan names.

For crash tests. It wraps any store and otherwise keeps its guarantees. INVARIANT: after a crash it reads and writes
nothing more, because a dead process does neither; recover through another store.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Literal, TypeVar

from ..errors import InvalidInput, StoreUnavailable
from ..values import dataclass
from .contract import Enters, ListedObject, Store, checked_name, read_then_stat

Effect = Literal["before", "after", "torn", "lost", "refused", "late"]
Verb = Literal["put", "put_hint", "create", "copy", "delete"]
_Result = TypeVar("_Result")


class Crash(BaseException):
    """Simulates the death of the process. `except Exception` does not catch it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The effect on write number `at`, counted from 1.

    - `before`, `after`: the process dies before or after the write.
    - `torn`: the process dies during the write. Half of a hint is written; an atomic write leaves nothing.
    - `refused`: the write fails with `StoreUnavailable` and is not done.
    - `lost`: the write is done, but its answer is lost.
    - `late`: the answer is lost, and the write is done when the next write begins.
    """

    at: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class BegunWrite:
    """One write that began. `name` is relative to the root of the fault store."""

    number: int
    verb: Verb
    name: str


@dataclass
class _Record:
    """The state that a fault store shares with its children."""

    key: str
    faults: dict[int, Effect]
    lock: threading.RLock = field(default_factory=threading.RLock)
    writes: list[BegunWrite] = field(default_factory=list)
    late: list[Callable[[], object]] = field(default_factory=list)
    crashed: bool = False


class FaultStore:
    """Wraps `inner` and fails at numbered writes. Children made by `at` share the numbering.

    `open_store` opens it again by its URI (`fault://…`) in this process, as long as it is referenced. `key` is the part
    of the URI that names it; default: a random one. A new store with the key of one that crashed takes its place, as a
    new process opens the place that a dead one used.
    """

    def __init__(self, inner: Store, plan: Iterable[Fault] = (), key: str | None = None) -> None:
        self._inner = inner
        self._record = _Record(key or uuid.uuid4().hex, {fault.at: fault.effect for fault in plan})
        self._prefix = ""
        self._above: FaultStore | None = None  # keeps alive the store that the URI names
        _alive[self._record.key] = self

    @property
    def uri(self) -> str:
        """`fault://`, a key of this store, and the prefix."""
        return f"fault://{self._record.key}/{self._prefix}".rstrip("/")

    @property
    def key(self) -> str:
        """The part of the URI that names this store."""
        return self._record.key

    @property
    def writes(self) -> list[BegunWrite]:
        """Every write that began so far, in order."""
        return list(self._record.writes)

    @property
    def crashed(self) -> bool:
        """Whether the simulated process has crashed."""
        return self._record.crashed

    @property
    def lists_after(self) -> bool:
        """As the inner store."""
        return self._inner.lists_after

    @property
    def requests_at_once(self) -> int:
        """1, so that the same code makes the same calls in the same order."""
        return 1

    def clock_ms(self) -> int | None:
        """Call the inner store."""
        return self._living().clock_ms()

    def __reduce__(self) -> tuple[object, ...]:
        return find_fault, (self.uri.removeprefix("fault://"),)

    def get(self, name: str) -> bytes:
        """Call the inner store."""
        return self._living().get(name)

    def read(self, name: str) -> tuple[bytes, ListedObject]:
        """Read, then ask for the entry."""
        return read_then_stat(self, name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Call the inner store."""
        return self._living().get_range(name, start, length)

    def put(self, name: str, data: bytes) -> str | None:
        """Do a numbered write."""
        return self._write("put", name, lambda: self._inner.put(name, data))

    def put_hint(self, name: str, data: bytes) -> None:
        """Do a numbered write, which can be torn."""

        def half() -> None:
            self._inner.put_hint(name, data[: len(data) // 2])

        self._write("put_hint", name, lambda: self._inner.put_hint(name, data), half)

    def create(self, name: str, data: bytes) -> bool:
        """Do a numbered write."""
        return self._write("create", name, lambda: self._inner.create(name, data))

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """Do a numbered write."""
        return self._write("copy", target, lambda: self._inner.copy(source, target, etag))

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Do a numbered write."""
        real = origin._living() if isinstance(origin, FaultStore) else origin
        return self._write("copy", target, lambda: self._inner.copy_from(real, source, target, etag))

    def copies_from(self, origin: Store) -> bool:
        """Compare the inner stores."""
        return self._inner.copies_from(origin._inner if isinstance(origin, FaultStore) else origin)

    def list(
        self, prefix: str = "", start_after: str | None = None, enters: Enters | None = None
    ) -> Iterator[ListedObject]:
        """Call the inner store."""
        for entry in self._living().list(prefix, start_after, enters):
            self._living()
            yield entry

    def stat(self, name: str) -> ListedObject | None:
        """Call the inner store."""
        return self._living().stat(name)

    def delete(self, name: str) -> None:
        """Do a numbered write."""
        self._write("delete", name, lambda: self._inner.delete(name))

    def delete_many(self, names: Iterable[str]) -> None:
        """Do a numbered write for each name, so that a fault can come between two of them."""
        for name in [checked_name(name) for name in names]:
            self.delete(name)

    def at(self, prefix: str) -> FaultStore:
        """Return the inner store below `prefix`; its writes share the numbering."""
        child = object.__new__(type(self))
        child.__dict__.update(self.__dict__)  # a subclass adds fields
        child._inner = self._inner.at(prefix)
        child._prefix = f"{self._prefix}{prefix.rstrip('/')}/"
        child._above = self
        return child

    def local_path(self, name: str) -> str | None:
        """Call the inner store."""
        return self._living().local_path(name)

    def _living(self) -> Store:
        if self._record.crashed:
            raise Crash("the process is dead")
        return self._inner

    def _write(
        self, verb: Verb, name: str, act: Callable[[], _Result], half: Callable[[], object] | None = None
    ) -> _Result:
        """Do `act` as the next write, or apply its planned fault. A lock keeps writes and their numbers in order."""
        with self._record.lock:
            self._living()
            for late in self._record.late:
                late()
            self._record.late.clear()
            write = BegunWrite(len(self._record.writes) + 1, verb, self._prefix + name)
            self._record.writes.append(write)
            return self._do(write, act, half)

    def _do(self, write: BegunWrite, act: Callable[[], _Result], half: Callable[[], object] | None) -> _Result:
        effect = self._record.faults.get(write.number)
        if effect is None:
            return act()
        if effect in ("after", "lost"):
            act()
        elif effect == "torn" and half is not None:
            half()
        elif effect == "late":
            self._record.late.append(act)
        where = f"{write.verb} `{write.name}` (write {write.number}, {effect})"
        if effect in ("before", "after", "torn"):
            self._record.crashed = True
            raise Crash(where)
        raise StoreUnavailable(f"{where}: a fault of the test")


_alive: weakref.WeakValueDictionary[str, FaultStore] = weakref.WeakValueDictionary()


def find_fault(rest: str) -> FaultStore:
    """Return the fault store with the URI `fault://` and `rest`."""
    key, _, prefix = rest.strip("/").partition("/")
    found = _alive.get(key)
    if found is None:
        raise InvalidInput(f"open `fault://{rest}`: the fault store is not in this process, or was garbage-collected")
    return found.at(prefix) if prefix else found
