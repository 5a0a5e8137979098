"""Packs a work for Spark's workers: its pickle, the modules that go by value, and the paths that workers add.

Everything that Spark's engines pickle goes through `ship`. INVARIANT: `ship` removes exactly the modules that it
registered with cloudpickle, and leaves the registrations of others.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import cloudpickle

from ..batch.work import Work
from ..errors import InvalidInput
from . import frames, worker

_lock = threading.Lock()
_registered: Counter[str] = Counter()


@contextmanager
def ship(work: Work) -> Iterator[worker.Shipment]:
    """Pickle the work. Inside, functions of `work.modules`, `worker` and `frames` are pickled by value."""
    with _by_value(*work.modules, worker.__name__, frames.__name__):
        try:
            pickle = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise InvalidInput(
                f"ship the pipeline to Spark's workers: it cannot be pickled ({type(error).__name__}: {error})",
                hint="open files, locks, connections and Spark sessions inside the function, not outside",
            ) from error
        # A worker on this machine finds the driver's Tidemill, even if the driver found it by a relative path.
        own = str(Path(__file__).resolve().parents[2])
        yield worker.Shipment(pickle, (*work.paths, own))


@contextmanager
def _by_value(*modules: str) -> Iterator[None]:
    registry: set[str] = cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES
    names = {name for name in modules if name in sys.modules}
    with _lock:
        names -= registry - set(_registered)
        _registered.update(names)
        registry |= names
    try:
        yield
    finally:
        with _lock:
            _registered.subtract(names)
            for name in names:
                if not _registered[name]:
                    del _registered[name]
                    registry.discard(name)
