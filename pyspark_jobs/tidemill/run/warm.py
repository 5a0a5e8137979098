"""`warm`: checks what a run needs on this machine, and prepares what makes later starts quick.

INVARIANT: nothing is written but the class-data archive in the user's cache. A step that fails does not keep the others
from being tried.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..batch import inspection
from ..batch.inspection import Inspection
from ..batch.work import Engine
from ..counts import count_of
from ..engines import engine_for, has_spark
from ..errors import InvalidInput, TidemillError
from ..repo.opened import Opened
from ..settings import Settings
from ..sinks.asked import sink_folder
from ..store import folder_store
from ..values import dataclass
from .workers import answers, check_worker_folders, tasks_to_ask

_OLDEST_AIRFLOW = (3, 3)


@dataclass(frozen=True)
class WarmStep:
    """One thing that was checked or prepared: what was found, and how long it took in seconds.

    `problem` says why it is not as a run needs it, and is empty if it is.
    """

    name: str
    found: str
    seconds: float
    problem: str = ""


@dataclass
class Warming:
    """A check of this machine, and with `repo` of the stores of a pipeline.

    - `engine`: `local` leaves Java and Spark out, `spark` requires them, `auto` uses them if PySpark is installed.
    - `again`: make the class-data archive even if there is one.
    """

    settings: Settings
    conf: Mapping[str, str]
    engine: str = "auto"
    repo: Opened | None = None
    again: bool = False

    def steps(self) -> Iterator[WarmStep]:
        """Yield each step when it is done."""
        yield _timed("python", self._python)
        yield _timed("cache", self._cache)
        if self.engine == "spark" or (self.engine == "auto" and has_spark()):
            yield from self._spark()
        elif self.engine == "auto":
            yield WarmStep("spark", "PySpark is not installed; all batches run without it", 0.0)
        if self.repo is not None:
            yield from self._stores(self.repo)
        if (airflow := _version_of("apache-airflow")) is not None:
            yield _timed("airflow", lambda: _airflow(airflow))

    def _python(self) -> str:
        here = inspection.worker()
        return f"Python {here['version']} on {here['machine']}, tidemill {here['tidemill']}, {here['python']}"

    def _cache(self) -> str:
        if not self.settings.disk_cache_bytes:
            return "segments are not kept on disk: tidemill.disk_cache_bytes is 0"
        if problem := inspection.cache(self.settings):
            raise InvalidInput(problem, hint="set tidemill.disk_cache_folder to a folder of this user with mode 700")
        return f"segments are kept in {inspection.cache_folder(self.settings)}"

    def _spark(self) -> Iterator[WarmStep]:
        from ..engines.session import wants_connect
        from ..engines.tuning import is_local

        if not wants_connect(self.conf):
            yield _timed("java", _java)
        if not wants_connect(self.conf) and is_local(self.conf):  # a driver of a cluster does not use the archive
            yield _timed("classes", lambda: _archive(self.again))
        started: list[Engine] = []

        def start() -> str:
            started.append(engine_for(None, "spark", "auto", self.conf, self.settings.executor_wait))
            return f"PySpark {_version_of('pyspark')} started, {count_of(started[0].parallelism, 'task')} at once"

        yield _timed("spark", start)
        for name in ("first job", "second job") if started else ():
            job = _timed(name, lambda: _workers(started[0], self.settings, self.repo))
            yield job
            if job.problem:
                return

    def _stores(self, repo: Opened) -> Iterator[WarmStep]:
        places = [("root", "root", repo.place)]
        places += [(f"source {name}", "source", one.place) for name, one in repo.job.sources.items() if one.place]
        places += [(f"sink {name}", "sink", path) for name, path in _sinks(repo).items()]
        for name, section, place in places:
            yield _timed(name, functools.partial(_listed, place, repo.storage_options.get(section)))


def _timed(name: str, check: Callable[[], str]) -> WarmStep:
    started = time.perf_counter()
    try:
        found, problem = check(), ""
    except TidemillError as error:
        found, problem = "", str(error)
    return WarmStep(name, found, time.perf_counter() - started, problem)


def _java() -> str:
    from ..engines.java import find_java
    from ..engines.session import pyspark_version

    java = find_java(os.environ, pyspark_version())
    return f"Java {java.version} by {java.found}, {java.home}"


def _archive(again: bool) -> str:
    from ..engines import archive, make_archive
    from ..engines.java import find_java
    from ..engines.session import pyspark_version

    java = find_java(os.environ, pyspark_version())
    if java.version < make_archive.FIRST_JAVA:
        return f"Java {java.version} cannot keep classes; {make_archive.FIRST_JAVA} or newer can"
    known = archive.existing(java)
    path = make_archive.make() if again or known is None else known
    return f"{'made' if path != known or again else 'found'} the archive {path}, {path.stat().st_size / 1e6:.0f} MB"


def _workers(engine: Engine, settings: Settings, repo: Opened | None) -> str:
    """Say what the workers are. With a pipeline they also open its functions, and list its root and its sources."""
    if repo is None:
        found = answers(engine, Inspection(tasks_to_ask(engine), (), settings))
    else:
        found = check_worker_folders(repo, engine)
    hosts = sorted({f"{one['host']} (Python {one['version']}, tidemill {one['tidemill']})" for one in found})
    return f"{count_of(len(found), 'task')} on {', '.join(hosts)}"


def _listed(place: str, options: Mapping[str, Any] | None) -> str:
    store = folder_store(place.removeprefix("file://"), options)
    first = next(iter(store.list("")), None)
    return f"{place}: {'nothing there yet' if first is None else 'can be listed'}"


def _sinks(repo: Opened) -> dict[str, str]:
    sinks = {name: write.sink for name, write in repo.pipeline.sinks.items()}
    return {name: folder.path for name, sink in sinks.items() if (folder := sink_folder(sink)) is not None}


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _airflow(version: str) -> str:
    """Say which Airflow is installed, and whether it finds the package. Airflow itself is not imported."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < _OLDEST_AIRFLOW:
        raise InvalidInput(f"found Airflow {version}, expected {'.'.join(map(str, _OLDEST_AIRFLOW))} or newer")
    groups = ("apache_airflow_provider", "airflow.plugins")
    missing = [
        group
        for group in groups
        if not any(one.value.startswith("tidemill.") for one in importlib.metadata.entry_points(group=group))
    ]
    if missing:
        raise InvalidInput(f"Airflow {version} does not find Tidemill: no entry point `{missing[0]}`",
                           hint="install the wheel again")  # fmt: skip
    return f"Airflow {version} finds the operators and the page"
