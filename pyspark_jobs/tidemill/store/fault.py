"""A store that fails on purpose: it numbers every write and fails at those that a plan names.

For crash tests. It wraps any store and changes none of its guarantees otherwise. INVARIANT: after a crash nothing
more is read or written through it, because a dead process does neither; recover through another store.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ..errors import InvalidInput, StoreUnavailable
from .contract import Entry, Store

Effect = Literal["before", "after", "torn", "lost", "refused", "late"]
Verb = Literal["put", "put_hint", "create", "copy", "delete"]
Result = TypeVar("Result")


class Crash(BaseException):
    """The process died here, as far as the test is concerned. No `except Exception` stops it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at write number `at` (from 1).

    `before`, `after`: the process dies before or after the write is done. `torn`: it dies in the middle, which only a
    hint shows (half of it is there); an atomic write leaves nothing. `refused`: `StoreUnavailable`, not done. `lost`:
    done, but the answer is lost. `late`: the answer is lost, and the write is done only when the next one begins.
    """

    at: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was begun; `name` is counted from where the fault store was opened."""

    number: int
    verb: Verb
    name: str


@dataclass
class _Record:
    """What a fault store and its children share."""

    key: str
    faults: dict[int, Effect]
    lock: threading.RLock = field(default_factory=threading.RLock)
    writes: list[Write] = field(default_factory=list)
    late: list[Callable[[], object]] = field(default_factory=list)
    crashed: bool = False


class FaultStore:
    """`inner`, with faults at numbered writes. `at` gives children that count on.

    Its URI (`fault://…`) opens it again by `open_store` in this process, for as long as it is referred to.
    """

    def __init__(self, inner: Store, plan: Iterable[Fault] = ()) -> None:
        self._inner = inner
        self._record = _Record(uuid.uuid4().hex, {fault.at: fault.effect for fault in plan})
        self._prefix = ""
        self._above: FaultStore | None = None  # keeps alive the store that the URI names
        _alive[self._record.key] = self

    @property
    def uri(self) -> str:
        """`fault://`, a key of this store, and the prefix."""
        return f"fault://{self._record.key}/{self._prefix}".rstrip("/")

    @property
    def writes(self) -> list[Write]:
        """Every write begun so far, in order."""
        return list(self._record.writes)

    @property
    def crashed(self) -> bool:
        """Whether a crash happened."""
        return self._record.crashed

    def __reduce__(self) -> tuple[object, ...]:
        return find_fault, (self.uri.removeprefix("fault://"),)

    def get(self, name: str) -> bytes:
        """Passes through."""
        return self._living().get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Passes through."""
        return self._living().get_range(name, start, length)

    def put(self, name: str, data: bytes) -> None:
        """A numbered write."""
        self._write("put", name, lambda: self._inner.put(name, data))

    def put_hint(self, name: str, data: bytes) -> None:
        """A numbered write, which can be torn."""

        def half() -> None:
            self._inner.put_hint(name, data[: len(data) // 2])

        self._write("put_hint", name, lambda: self._inner.put_hint(name, data), half)

    def create(self, name: str, data: bytes) -> bool:
        """A numbered write."""
        return self._write("create", name, lambda: self._inner.create(name, data))

    def copy(self, source: str, target: str) -> None:
        """A numbered write."""
        self._write("copy", target, lambda: self._inner.copy(source, target))

    def copy_from(self, origin: Store, source: str, target: str) -> None:
        """A numbered write."""
        real = origin._living() if isinstance(origin, FaultStore) else origin
        self._write("copy", target, lambda: self._inner.copy_from(real, source, target))

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Entry]:
        """Passes through."""
        for entry in self._living().list(prefix, start_after):
            self._living()
            yield entry

    def stat(self, name: str) -> Entry | None:
        """Passes through."""
        return self._living().stat(name)

    def delete(self, name: str) -> None:
        """A numbered write."""
        self._write("delete", name, lambda: self._inner.delete(name))

    def at(self, prefix: str) -> FaultStore:
        """The inner store below `prefix`; its writes are numbered with ours."""
        child = object.__new__(FaultStore)
        child._inner = self._inner.at(prefix)
        child._record = self._record
        child._prefix = f"{self._prefix}{prefix.rstrip('/')}/"
        child._above = self
        return child

    def local_path(self, name: str) -> str | None:
        """Passes through."""
        return self._living().local_path(name)

    def _living(self) -> Store:
        if self._record.crashed:
            raise Crash("the process is dead")
        return self._inner

    def _write(
        self, verb: Verb, name: str, act: Callable[[], Result], half: Callable[[], object] | None = None
    ) -> Result:
        """Does `act` as the next write, or what the plan has for it. One at a time, so that numbers mean something."""
        with self._record.lock:
            self._living()
            for late in self._record.late:
                late()
            self._record.late.clear()
            write = Write(len(self._record.writes) + 1, verb, self._prefix + name)
            self._record.writes.append(write)
            return self._do(write, act, half)

    def _do(self, write: Write, act: Callable[[], Result], half: Callable[[], object] | None) -> Result:
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
    """The fault store whose URI is `fault://` and `rest`."""
    key, _, prefix = rest.strip("/").partition("/")
    found = _alive.get(key)
    if found is None:
        raise InvalidInput(f"open `fault://{rest}`: the fault store is not in this process, or was garbage-collected")
    return found.at(prefix) if prefix else found
