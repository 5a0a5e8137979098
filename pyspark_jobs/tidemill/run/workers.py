"""Checks, before a plan is written, that the workers of a cluster can do what a batch asks of them.

INVARIANT: a cluster that lacks something leaves no plan, because a plan that cannot be carried out blocks the branch.
An engine whose tasks run on this machine is not asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from .. import names
from ..batch.inspection import Inspection, Reachable, worker
from ..batch.work import Engine
from ..errors import InvalidInput
from ..installed import UNKNOWN
from ..protocol.records import Plan
from ..repo.opened import Context
from ..sources.asked import folder_of
from ..store import folder_uri
from .imports import imported

_MOST = 64
"""The most tasks that are asked. More executors than that have the same image."""
_OTHER = "the driver has"
_IMPORT = "cannot import `"
_REACH = "give the workers the credentials, the endpoint and the folders that the driver has"
_INSTALL = "ship the driver's environment to them (`spark.archives`), or install the same packages where they run"


def check_folders(context: Context) -> None:
    """Raise `InvalidInput` if a folder that tasks use is on this machine, unless the settings say that it is shared."""
    shared = [os.path.realpath(one) for one in context.settings.shared_folders.split(os.pathsep) if one]
    for what, uri in [("root", folder_uri(context.root)), *_sources(context)]:
        if uri.startswith("memory://"):
            raise InvalidInput(f"the {what} `{uri}` is in the memory of this process, which workers cannot reach")
        path = uri.removeprefix("file://") if uri.startswith("file://") else None
        if path is not None and not any(path == one or path.startswith(f"{one}/") for one in shared):
            raise InvalidInput(
                f"the {what} `{uri}` is a folder of this machine, and the tasks run on others",
                hint="use s3://…, or set `tidemill.shared_folders` to the folder that all machines share, "
                'such as "/mnt/lake"',
            )


def check_workers(context: Context, engine: Engine, plan: Plan) -> list[str]:
    """Ask the workers, and raise `InvalidInput` that names what each of them lacks. Return warnings."""
    found = answers(engine, _inspection(context, engine, [_root(context), *_files(context, plan)]))
    return sorted({f"a worker on `{one['host']}`: {one['cache']}" for one in found if one["cache"]})


def check_places(context: Context, engine: Engine) -> list[dict[str, Any]]:
    """Like `check_workers` without a plan or a repository: workers only list the folders. Return what they found."""
    if engine.is_remote:
        check_folders(context)
    places = [("repository", "root", context.place)]
    places += [(what, "source", place) for what, place in _sources(context)]
    folders = [Reachable(what, place, context.storage_options.get(section)) for what, section, place in places]
    return answers(engine, _inspection(context, engine, folders))


def tasks_to_ask(engine: Engine) -> int:
    """Return how many tasks ask: as many as run at once, up to a limit, so that each worker probably gets one."""
    return max(1, min(engine.parallelism, _MOST))


def _inspection(context: Context, engine: Engine, folders: list[Reachable]) -> Inspection:
    code = dict(context.job.functions)
    needed = tuple(sorted(imported((one for each in code.values() for one in each), context.modules)))
    count = tasks_to_ask(engine)
    return Inspection(count, tuple(folders), context.settings, code, needed, context.modules, context.paths)


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
        yield f"{where} has {_version(found)}, {_OTHER} {_version(ours)}"
    yield from (f"{where} {problem}" for problem in found["problems"])


def _version(found: Mapping[str, str]) -> str:
    known = found["tidemill"]
    return "a source folder of tidemill that is not installed" if known == UNKNOWN else f"tidemill {known}"


def _sources(context: Context) -> list[tuple[str, str]]:
    found = [(f"source `{name}`", source.place) for name, source in context.job.sources.items()]
    return [(what, place) for what, place in found if place is not None]


def _root(context: Context) -> Reachable:
    """Return the repository, with an entry of `refs/` that the driver has read."""
    entry = names.ref(context.initialised().through)
    return Reachable("repository", context.place, context.storage_options.get("root"), entry)


def _files(context: Context, plan: Plan) -> list[Reachable]:
    """Return the sources of a plan, each with the first of its files."""
    options = context.storage_options.get("source")
    found: dict[str, Reachable] = {}
    for split in plan.splits:
        source = context.job.sources.get(split.source)
        if split.requeued is None and source is not None and source.place is not None and folder_of(source) is not None:
            uri, file = source.place, split.path
            if os.path.isfile(uri.removeprefix("file://")):  # the source is this file
                uri, _, file = uri.rpartition("/")
            found.setdefault(split.source, Reachable(f"source `{split.source}`", uri, options, file))
    return list(found.values())
