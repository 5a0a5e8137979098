"""Checks, before a plan is written, that the workers of a cluster can do what a batch asks of them.

INVARIANT: a cluster that lacks something leaves no plan, because a plan that cannot be carried out blocks the branch.
An engine whose tasks run on this machine is not asked.
"""

from __future__ import annotations

import dis
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from .. import names
from ..batch.inspection import Inspection, Reachable, worker
from ..batch.work import Engine
from ..errors import InvalidInput
from ..pipeline.job import Job
from ..protocol.records import Plan
from ..repo.opened import Opened
from ..sources.asked import source_folder
from ..store import folder_uri

_MOST = 64
"""The most tasks that are asked. More executors than that have the same image."""
_OTHER = "the driver has"
_IMPORT = "cannot import `"
_REACH = "give the workers the credentials, the endpoint and the folders that the driver has"
_INSTALL = "ship the driver's environment to them (`spark.archives`), or install the same packages where they run"


def check_shared_folders(repo: Opened) -> None:
    """Raise `InvalidInput` if a folder that tasks use is on this machine, unless the settings say that it is shared."""
    shared = [os.path.realpath(one) for one in repo.settings.shared_folders.split(os.pathsep) if one]
    for what, uri in [("root", folder_uri(repo.task_root)), *_sources(repo.job)]:
        if uri.startswith("memory://"):
            raise InvalidInput(f"the {what} `{uri}` is in the memory of this process, which workers cannot reach")
        path = uri.removeprefix("file://") if uri.startswith("file://") else None
        if path is not None and not any(path == one or path.startswith(f"{one}/") for one in shared):
            raise InvalidInput(
                f"the {what} `{uri}` is a folder of this machine, and the tasks run on others",
                hint="use s3://…, or set `tidemill.shared_folders` to the folder that all machines share, "
                'such as "/mnt/lake"',
            )


def check_workers(repo: Opened, engine: Engine, plan: Plan) -> list[str]:
    """Ask the workers, and raise `InvalidInput` that names what each of them lacks. Return warnings."""
    found = answers(engine, _inspection(repo, engine, [_root(repo), *_files(repo, plan)]))
    return sorted({f"a worker on `{one['host']}`: {one['cache']}" for one in found if one["cache"]})


def check_worker_folders(repo: Opened, engine: Engine) -> list[dict[str, Any]]:
    """Like `check_workers` without a plan or a repository: workers only list the folders. Return what they found."""
    if engine.is_remote:
        check_shared_folders(repo)
    places = [("repository", "root", repo.place)]
    places += [(what, "source", place) for what, place in _sources(repo.job)]
    folders = [Reachable(what, place, repo.storage_options.get(section)) for what, section, place in places]
    return answers(engine, _inspection(repo, engine, folders))


def tasks_to_ask(engine: Engine) -> int:
    """Return how many tasks ask: as many as run at once, up to a limit, so that each worker probably gets one."""
    return max(1, min(engine.parallelism, _MOST))


def _inspection(repo: Opened, engine: Engine, folders: list[Reachable]) -> Inspection:
    code = dict(repo.job.functions)
    needed = tuple(sorted(imported((one for each in code.values() for one in each), repo.modules)))
    count = tasks_to_ask(engine)
    return Inspection(count, tuple(folders), repo.settings, code, needed, repo.modules, repo.paths)


def answers(engine: Engine, asked: Inspection) -> list[dict[str, Any]]:
    """Return what the workers found. `InvalidInput` is raised if one has another Tidemill, or found a problem."""
    ours = worker()
    found = [json.loads(receipt) for receipt in engine.execute(asked)]
    problems = sorted({problem for one in found for problem in _problems(one, ours)})
    if problems:
        rest = "".join(f"\nalso: {problem}" for problem in problems[1:])
        hint = _INSTALL if any(_IMPORT in one or _OTHER in one for one in problems) else _REACH
        raise InvalidInput(f"run on engine `{engine.name}`: {problems[0]}{rest}", hint=hint)
    return found


def _problems(found: Mapping[str, Any], ours: Mapping[str, str]) -> Iterator[str]:
    where = f"a worker on `{found['host']}` with `{found['python']}`"
    if found["tidemill"] != ours["tidemill"]:
        yield f"{where} has tidemill {found['tidemill']}, {_OTHER} tidemill {ours['tidemill']}"
    yield from (f"{where} {problem}" for problem in found["problems"])


def _sources(job: Job) -> list[tuple[str, str]]:
    found = [(f"source `{name}`", source.place) for name, source in job.sources.items()]
    return [(what, place) for what, place in found if place is not None]


def _root(repo: Opened) -> Reachable:
    """Return the repository, with an entry of `refs/` that the driver has read."""
    entry = names.ref(repo.initialised().through)
    return Reachable("repository", repo.place, repo.storage_options.get("root"), entry)


def _files(repo: Opened, plan: Plan) -> list[Reachable]:
    """Return the sources of a plan, each with the first of its files."""
    options = repo.storage_options.get("source")
    found: dict[str, Reachable] = {}
    for split in plan.splits:
        source = repo.job.sources.get(split.source)
        if (
            split.requeued is None
            and source is not None
            and source.place is not None
            and source_folder(source) is not None
        ):
            uri, file = source.place, split.path
            if os.path.isfile(uri.removeprefix("file://")):  # the source is this file
                uri, _, file = uri.rpartition("/")
            found.setdefault(split.source, Reachable(f"source `{split.source}`", uri, options, file))
    return list(found.values())


def imported(functions: Iterable[Any], by_value: Collection[str]) -> set[str]:
    """Return the top-level modules that the functions import, of those that this process can import.

    Functions that they call are followed if they are of `__main__` or a module in `by_value`. A module of which this
    process lacks the code is not listed, because the function evidently does without it.
    """
    shipped = {"__main__", *by_value}
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [one for each in functions for one in _parts(each)]
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        names: set[str] = set()
        for code in _codes(function.__code__):
            found.update(_imports(code))
            names.update(code.co_names)
        called = [one for name in names for one in _parts(function.__globals__.get(name))]
        called += [one for cell in function.__closure__ or () for one in _parts(_content(cell))]
        waiting += [one for one in called if one.__module__ in shipped or one.__module__ not in sys.modules]
    return {name for name in found if name not in sys.stdlib_module_names and _is_here(name)}


def _parts(value: Any) -> list[FunctionType]:
    """Return a function, that of a method, or the functions of a class or of an object's class."""
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, MethodType):
        return _parts(value.__func__)
    if isinstance(value, Callable):  # type: ignore[arg-type]
        kind = value if isinstance(value, type) else type(value)
        return [one for one in vars(kind).values() if isinstance(one, FunctionType)]
    return []


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _imports(code: CodeType) -> Iterator[str]:
    """Yield the top-level modules of absolute imports. The bytecode pushes the level two places before the import."""
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME" and steps[place - 2].argval == 0:
            yield str(step.argval).partition(".")[0]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not set yet
        return None


def _is_here(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
