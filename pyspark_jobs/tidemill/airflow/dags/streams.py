"""`tidemill_dags_from`: the DAGs of many pipelines from one YAML file.

A task runs in a process that parses the DAG file again, for one DAG. INVARIANT: such a parse makes only the DAGs of
that pipeline. Nothing in the file is evaluated: it is plain YAML. Only `run_with` names a function, which is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from datetime import timedelta
from typing import Any

import yaml
from airflow.sdk import DAG, get_parsing_context

from ...errors import InvalidInput
from ...spelling import unknown
from ...units import duration_ms
from ..calls.options import Correct, Freshness, Launch, Maintain, Replay, Run, Sweep, Watch
from .pipeline import make_dags

_KEYS = (
    "pipeline",
    "root",
    "schedule",
    "branch",
    "engine",
    "run",
    "watch",
    "sweep",
    "maintain",
    "replay",
    "correct",
    "freshness",
    "launch",
    "dag_args",
)
_OPTIONS: Mapping[str, type] = {
    "run": Run,
    "watch": Watch,
    "sweep": Sweep,
    "maintain": Maintain,
    "replay": Replay,
    "correct": Correct,
    "freshness": Freshness,
    "launch": Launch,
}
_MERGED = (*_OPTIONS, "dag_args")
_DURATIONS = (
    "poll",
    "wait",
    "oldest_waiting",
    "lag",
    "head_age",
    "stall_timeout",
    "dagrun_timeout",
    "retry_delay",
    "max_retry_delay",
    "execution_timeout",
    "response_timeout",
)
"""Options that are a `timedelta` in Python, and text such as `2 hours` in the file."""


def tidemill_dags_from(path: str | os.PathLike[str], namespace: MutableMapping[str, Any]) -> dict[str, DAG]:
    """Create the DAGs of every stream in a YAML file, put them into `namespace`, and return them by id.

    - `path`: relative to the folder of the DAG file.
    - `namespace`: the `globals()` of the DAG file.

    The file has `streams`, which maps names of DAGs to the arguments of `tidemill_dags`, and `defaults` with arguments
    for all of them. `run`, `watch`, `sweep`, `maintain`, `replay`, `correct`, `freshness`, `launch` and `dag_args` may
    be mappings; those of a stream are added to the defaults.

    Raises `InvalidInput`, which names the stream, for anything that the file must not contain.
    """
    fileloc = str(namespace.get("__file__") or "")
    if not fileloc:
        raise InvalidInput("tidemill_dags_from got a namespace without `__file__`: pass `globals()` of the DAG file")
    place = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(fileloc)), os.fspath(path)))
    defaults, streams = _read(place)
    wanted = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    for name, stream in streams.items():
        if wanted is None or wanted == name or wanted.startswith(f"{name}__"):
            dags |= _stream(place, str(name), defaults, stream, fileloc)
    namespace.update(dags)
    return dags


def _stream(place: str, name: str, defaults: Mapping[str, Any], stream: object, fileloc: str) -> dict[str, DAG]:
    where = f"stream `{name}` of `{place}`"
    given = _mapping(where, stream)
    arguments: dict[str, Any] = {**defaults, **given}
    for key in arguments:
        if key not in _KEYS:
            raise unknown("key", str(key), _KEYS, f" in {where}")
    for key in ("pipeline", "root", "schedule"):
        if key not in arguments:
            raise InvalidInput(f"{where} has no `{key}`", hint=f"set it there or below `defaults`: `{key}: …`")
    for key in _MERGED:
        if isinstance(arguments.get(key), Mapping):
            inherited = defaults.get(key)
            both = {**(inherited if isinstance(inherited, Mapping) else {}), **arguments[key]}
            arguments[key] = _with_durations(f"`{key}` of {where}", both)
    try:
        for key, kind in _OPTIONS.items():
            if isinstance(arguments.get(key), Mapping):
                arguments[key] = _options(kind, arguments[key], f"`{key}` of {where}")
        pipeline, root, schedule = (arguments.pop(key) for key in ("pipeline", "root", "schedule"))
        return make_dags(pipeline, root, schedule, fileloc, name=name, **arguments)
    except InvalidInput as error:
        raise error if where in error.message else InvalidInput(f"{where}: {error.message}", error.hint) from error


def _options(kind: type, given: Mapping[str, Any], where: str) -> Any:
    known = tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    for key in given:
        if key not in known:
            raise unknown("key", str(key), known, f" in {where}")
    return kind(**given)


def _with_durations(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            value = _with_durations(where, value) if key == "default_args" else value
        elif key in _DURATIONS and isinstance(value, str):
            try:
                value = timedelta(milliseconds=duration_ms(value))
            except InvalidInput as error:
                raise InvalidInput(f"`{key}` in {where} is {value!r}: expected a duration such as `2 hours`") from error
        found[key] = value
    return found


def _read(place: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the `defaults` and the `streams` of a file."""
    try:
        with open(place, "rb") as file:
            whole = _mapping(f"`{place}`", yaml.load(file, _Loader))
    except (OSError, yaml.YAMLError) as error:
        raise InvalidInput(f"read streams from `{place}`: {error}") from error
    for key in whole:
        if key not in ("defaults", "streams"):
            raise unknown("key", str(key), ("defaults", "streams"), f" in `{place}`")
    defaults = _mapping(f"`defaults` of `{place}`", whole.get("defaults") or {})
    return defaults, _mapping(f"`streams` of `{place}`", whole.get("streams") or {})


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where} is a {type(value).__name__}: expected a mapping")
    return value


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads plain YAML, and refuses a key that a mapping has twice, of which YAML would drop one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping of distinct keys."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key `{key}` is there twice", node.start_mark)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found
