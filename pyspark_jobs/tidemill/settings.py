"""Tidemill's own settings, the keys `tidemill.…`, and where their values come from.

Plain values only. `resolve_settings` is the one place that reads the environment and `tidemill.toml` for settings.
INVARIANT: an unknown key is an error that names the nearest known key. Keys that begin with `spark.` are passed on
unchanged.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import InvalidInput
from .spelling import unknown
from .units import duration_ms, size_bytes, whole_number
from .values import dataclass

_FILE = "tidemill.toml"


@dataclass(frozen=True)
class Settings:
    """Tidemill's own settings: the keys `tidemill.…`.

    The values here are resolved: sizes are bytes. Where you set them, a size may also be text such as `"64 MiB"`.
    """

    block_rows: int = 131_072
    """Rows in a block. A block is what a `map_batches` function receives, and rows are pre-aggregated within a block.
    The plan records the value, so a retry uses the same blocks."""
    split_bytes: int = 64 * 1024**2
    """Size above which a Parquet file is split into ranges of row groups, which different tasks can read."""
    chunk_bytes: int = 16 * 1024**2
    """Largest size of a chunk that a scatter task sends to an apply task."""
    task_bytes: int = 8 * 1024**2
    """Input up to which a batch runs in one task, without an exchange, if `tasks` is "auto". The limit is four times as
    high for a pipeline without Python functions, and a 512th for a pipeline with functions over pandas frames."""
    local_bytes: int = 64 * 1024**2
    """Input up to which engine `auto` runs a batch in this process instead of on Spark, with what waits behind it. The
    limit is eight times as high for a pipeline without Python functions, and a 16th for one with functions over pandas
    frames. A byte of Parquet counts as four."""
    local_state_bytes: int = 4 * 1024**3
    """State up to which engine `auto` runs a batch in this process."""
    task_memory_bytes: int = 2 * 1024**3
    """Memory that a task should use for state and rows. If `tasks` is "auto", a batch whose state and rows need more is
    cut into more key ranges than the engine runs at once, and waiting rows beyond a fourth of that are kept in a
    temporary file. It is an aim, not a limit: the rows of one key stay together."""
    cache_bytes: int = 1024**3
    """Memory that each process may use for its cache of opened segments; 0 turns the cache off."""
    disk_cache_bytes: int = 10 * 1024**3
    """Space that each machine may use on its own disk for the cache of opened segments; 0 turns the cache off."""
    disk_cache_folder: str = ""
    """Folder of the cache on disk. If empty, it is `tidemill/segments` below `$XDG_CACHE_HOME` or `~/.cache`."""
    shared_folders: str = ""
    """Folders that have the same files on this machine and on all workers of a cluster, such as mounts, separated by
    colons. Other folders of this machine are refused as a root or a source if tasks run on other machines."""

    batch_time_tolerance: int = 24 * 3600 * 1000
    """How far a batch time may be after the clock of the driver, in ms; a duration such as `"1 day"` where you set it.
    A time beyond that is refused before the plan, because it is probably in another unit."""
    executor_wait: int = 10 * 60 * 1000
    """How long a job on a cluster may be without an executor before it fails, in ms; a duration such as `"10 minutes"`
    where you set it. 0: it waits for ever."""
    fail_if_late: str = ""
    """Late rows with which a batch fails before its commit: a share of its rows such as `"5%"`, or a number of rows. A
    batch with more of them fails. Empty: it never does."""
    fail_if_quarantined: str = ""
    """The same for quarantined rows: unreadable, further ahead than `maxAhead`, or of a failed key."""

    def __post_init__(self) -> None:
        for name in _NAMES:
            if name not in _TEXTS | _LIMITS:
                _check_least(name, getattr(self, name), "")


def resolve_settings(
    conf: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Return Tidemill's settings, and the keys `spark.…` with their values as text.

    The first source that has a key wins: `conf`, then `TIDEMILL_…` in the environment, then `tidemill.toml` in
    `folder`, then the default. `environment` defaults to that of the process, and `folder` to the working folder. The
    file has the same keys as `conf`, in either form of TOML: `tidemill.block_rows = 65536`, or `block_rows` below
    `[tidemill]`. An unknown key or an invalid value is `InvalidInput`.
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
            own[name] = _read(name, value, places[key])
    return Settings(**own), spark


def check_setting_names(conf: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for a key that Tidemill does not have. Values are not checked: they may be templates."""
    for key in conf:
        _own_name(str(key), "")


_NAMES = tuple(f.name for f in dataclasses.fields(Settings))
_ROWS = {"block_rows"}
_TEXTS = {"disk_cache_folder", "shared_folders"}
_LIMITS = {"fail_if_late", "fail_if_quarantined"}
_LEAST = {"task_memory_bytes": 64 * 1024}  # so that `512`, meant as MiB, does not cut a batch into thousands of ranges
_DURATIONS = {"batch_time_tolerance", "executor_wait"}


def _own_name(key: str, place: str) -> str:
    name = key.removeprefix("tidemill.")
    if name != key and name in _NAMES:
        return name
    raise unknown("setting", key, [*(f"tidemill.{known}" for known in _NAMES), "spark.…"], place)


def _text(name: str, value: Any, place: str) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected a path")


def _duration(name: str, value: Any, place: str) -> int:
    try:
        return duration_ms(whole if (whole := whole_number(value)) is not None else value)
    except InvalidInput as error:
        raise InvalidInput(
            f"setting `tidemill.{name}`{place} is {value!r}: expected a duration such as `1 day`"
        ) from error


def _limit(name: str, value: Any, place: str) -> str:
    """Return a limit of rows as text. `share_or_number` reads it."""
    text = "" if value is None else str(value)
    if text and share_or_number(text) is None:
        raise InvalidInput(
            f"setting `tidemill.{name}`{place} is {value!r}: expected a share such as `5%`, or a number of rows"
        )
    return text


def share_or_number(text: str) -> float | int | None:
    """Return a limit of rows: a float for a share from 0 to 1, an int for a number of rows, None if it is neither.

    >>> share_or_number("5%"), share_or_number("100"), share_or_number("many")
    (0.05, 100, None)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if found:
        return float(found[1]) / 100 if float(found[1]) <= 100 else None
    return whole if (whole := whole_number(text)) is not None and whole >= 0 else None


def _number(name: str, value: Any, place: str) -> int:
    try:
        number = size_bytes(value)
    except InvalidInput as error:
        what = "a number of rows" if name in _ROWS else "a size such as `64 MiB`"
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected {what}") from error
    _check_least(name, number, place)
    return number


def _check_least(name: str, number: int, place: str) -> None:
    least = 0 if name in {"cache_bytes", "disk_cache_bytes", *_DURATIONS} else _LEAST.get(name, 1)
    if number < least:
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {number}, expected at least {least}")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that the environment has. `InvalidInput` for a variable that looks like a misspelt setting.

    Other names that begin with `TIDEMILL_` belong to the command line and are skipped.
    """
    variables = {f"TIDEMILL_{name.upper()}": f"tidemill.{name}" for name in _NAMES}
    for name in environment:
        if name.startswith("TIDEMILL_") and name not in variables:
            import difflib

            near = difflib.get_close_matches(name, variables, n=1, cutoff=0.85)
            if near:
                raise InvalidInput(f"unknown setting `{name}` in the environment; did you mean `{near[0]}`?")
    return {key: environment[name] for name, key in variables.items() if name in environment}


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        import tomllib

        return _flat(tomllib.loads(path.read_text(encoding="utf-8")), "")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"read settings from `{path}`: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Flatten nested tables: `{"spark": {"executor": {"memory": "2g"}}}` to `{"spark.executor.memory": "2g"}`."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _read(name: str, value: Any, place: str) -> Any:
    """Return the resolved value of a setting."""
    if name in _TEXTS:
        return _text(name, value, place)
    if name in _LIMITS:
        return _limit(name, value, place)
    return (_duration if name in _DURATIONS else _number)(name, value, place)
