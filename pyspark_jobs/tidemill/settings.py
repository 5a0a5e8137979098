"""Tidemill's own settings, the keys `tidemill.…`, and where their values come from.

Plain values only. `resolve` is the one place that reads the environment and `tidemill.toml` for settings.
INVARIANT: an unknown key is an error that names the nearest known key. Keys that begin with `spark.` are passed on
unchanged.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidInput
from .spelling import unknown
from .units import interval_ms as interval_ms  # for a core that was compiled before `units` existed
from .units import size_bytes

_FILE = "tidemill.toml"


@dataclass(frozen=True)
class Settings:
    """Tidemill's own settings: the keys `tidemill.…`. Sizes are given as bytes or as text such as `"64 MiB"`."""

    block_rows: int = 131_072
    """Rows of a block: the unit of `map_batches`; rows are combined in whole blocks. Fixed in the plan."""
    split_bytes: int = 64 * 1024**2
    """A Parquet file larger than this is cut into ranges of row groups."""
    chunk_bytes: int = 16 * 1024**2
    """The greatest size of a chunk on its way from scatter to apply."""
    task_bytes: int = 8 * 1024**2
    """A batch of at most so much input runs in one task, without an exchange, unless the number of tasks is given;
    of four times as much where the pipeline has no function in Python, of a 512th where one is given pandas frames."""
    cache_bytes: int = 1024**3
    """How much the cache of opened segments may take in the memory of a process; 0: no cache."""
    disk_cache_bytes: int = 10 * 1024**3
    """How much opened segments may take on each machine's own disk; 0: no cache there."""
    disk_cache_folder: str = ""
    """Where they lie there; empty: `tidemill/segments` below `$XDG_CACHE_HOME` or `~/.cache`."""

    def __post_init__(self) -> None:
        for name in _NAMES:
            if name not in _TEXTS:
                _check_least(name, getattr(self, name), "")


def resolve(
    conf: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Tidemill's settings, and the keys `spark.…`, which are passed on as text.

    Precedence: `conf`, `TIDEMILL_…` in the environment, `tidemill.toml` in `folder`, default. `environment` is the
    process's and `folder` the working folder where they are not given. The file has the same keys as `conf`, as
    TOML likes: `tidemill.block_rows = 65536`, or `block_rows` below `[tidemill]`.
    """
    file = Path(folder if folder is not None else os.curdir) / _FILE
    in_file = _from_file(file)
    in_environment = _from_environment(os.environ if environment is None else environment)
    given = dict(conf or {})
    found = in_file | in_environment | given
    places = dict.fromkeys(in_file, f" in `{file.resolve()}`") | dict.fromkeys(in_environment, " in the environment")
    places |= dict.fromkeys(given, "")
    own: dict[str, Any] = {}
    spark: dict[str, str] = {}
    for key, value in found.items():
        if str(key).startswith("spark."):
            spark[key] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            name = _own_name(str(key), places[key])
            own[name] = (_text if name in _TEXTS else _number)(name, value, places[key])
    return Settings(**own), spark


_NAMES = tuple(f.name for f in dataclasses.fields(Settings))
_ROWS = {"block_rows"}
_TEXTS = {"disk_cache_folder"}


def _own_name(key: str, place: str) -> str:
    name = key.removeprefix("tidemill.")
    if name != key and name in _NAMES:
        return name
    raise unknown("setting", key, [*(f"tidemill.{known}" for known in _NAMES), "spark.…"], place)


def _text(name: str, value: Any, place: str) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected a path")


def _number(name: str, value: Any, place: str) -> int:
    try:
        number = size_bytes(value)
    except InvalidInput as error:
        what = "a number of rows" if name in _ROWS else "a size such as `64 MiB`"
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected {what}") from error
    _check_least(name, number, place)
    return number


def _check_least(name: str, number: int, place: str) -> None:
    least = 0 if name in ("cache_bytes", "disk_cache_bytes") else 1
    if number < least:
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {number}, expected at least {least}")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Other names beginning `TIDEMILL_` belong to the command line; one that nearly is a setting is a typing error."""
    variables = {f"TIDEMILL_{name.upper()}": f"tidemill.{name}" for name in _NAMES}
    for name in environment:
        if name.startswith("TIDEMILL_") and name not in variables:
            near = difflib.get_close_matches(name, variables, n=1, cutoff=0.85)
            if near:
                raise InvalidInput(f"unknown setting `{name}` in the environment; did you mean `{near[0]}`?")
    return {key: environment[name] for name, key in variables.items() if name in environment}


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return _flat(tomllib.loads(path.read_text(encoding="utf-8")), "")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"read settings from `{path}`: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """`{"spark": {"executor": {"memory": "2g"}}}` as `{"spark.executor.memory": "2g"}`."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
