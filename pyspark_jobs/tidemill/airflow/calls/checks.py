"""Checks of arguments, for DAG files and operators. They read no file and start no process.

INVARIANT: a message shows no value of `conf`, `env` or `storage_options`, because these may be secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta

from ...errors import InvalidInput
from ...names import CHOICES, check_name
from ...secret_names import check_no_secrets, is_secret
from ...spelling import unknown


def check_pipeline(reference: str) -> str:
    """Return `reference` if it has the form `module:name` or `path.py:name`, else raise `InvalidInput`."""
    place, colon, name = reference.rpartition(":") if isinstance(reference, str) else ("", "", "")
    if colon and place and name.isidentifier():
        return reference
    raise InvalidInput(
        f"invalid pipeline reference `{reference}`: expected a string, `module:name` or `path.py:name`",
        hint="for example `pipelines/retail.py:p`",
    )


def check_root_argument(root: str | os.PathLike[str]) -> str:
    """Return `root` if it is a URI or an absolute path, else raise `InvalidInput`.

    A relative path would depend on the working directory of the Airflow worker.
    """
    if not isinstance(root, str | os.PathLike):
        raise InvalidInput(f"root is {root!r}: expected a string, a URI (`s3://bucket/prefix`) or an absolute path")
    root = os.fspath(root)
    check_no_secrets(root, "root")
    if "://" in root or os.path.isabs(root):
        return root
    raise InvalidInput(
        f"root `{root}` is relative: expected a URI (`s3://bucket/prefix`, `file:///dir`) or an absolute path"
    )


def check_engine(engine: str | None, known: Sequence[str] = CHOICES) -> str | None:
    """Return `engine` if it is None, a template or among `known`, else raise `InvalidInput`."""
    if engine is None or is_template(engine) or engine in known:
        return engine
    raise unknown("engine", str(engine), known)


def check_limit(what: str, limit: object, kind: type[int] | type[float], least: int) -> None:
    """Raise `InvalidInput` unless `limit` is a number of at least `least`, as a number or text. None means no limit."""
    if is_absent(limit) or is_template(limit):
        return
    try:
        number = kind(str(limit))
    except ValueError:
        number = -1
    if not number >= least:
        number_kind = "whole number" if kind is int else "number of seconds"
        raise InvalidInput(f"{what} is {limit!r}: expected a {number_kind} of at least {least}, or None for no limit")


def seconds_of(what: str, period: object) -> float | None:
    """Return a period in seconds: a `timedelta` or a positive number. None stays None."""
    if period is None:
        return None
    seconds = period.total_seconds() if isinstance(period, timedelta) else period
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidInput(f"{what} is {period!r}: expected a timedelta or a positive number of seconds, or None")
    return float(seconds)


def check_mapping(what: str, value: object, example: str) -> None:
    """Raise `InvalidInput` unless `value` is a mapping or None."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is a {type(value).__name__}: expected a mapping, such as `{example}`")


def check_storage_options(value: object) -> None:
    """Raise `InvalidInput` unless `value` maps section names to mappings, or is None."""
    example = '{"root": {"endpoint_url": "https://…"}, "source": {…}, "sink": {…}}'
    check_mapping("storage_options", value, example)
    for section, options in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(options, Mapping):
            raise InvalidInput(
                f"section `{section}` of storage_options is a {type(options).__name__}: expected a mapping, such as "
                f"`{example}`"
            )
        for name, option in options.items():
            if isinstance(option, str) and not is_secret(str(name)):
                check_no_secrets(option, f"storage_options: `{section}.{name}`")


def is_template(value: object) -> bool:
    """Whether the value is a template, which Airflow renders only when the task runs."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def is_absent(value: object) -> bool:
    """Whether an argument was not given: None, empty, or the text into which Airflow renders a null parameter."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))


def is_true(name: str, value: object) -> bool:
    """Return a flag, which a template may have made text. `InvalidInput` for any text but true and false.

    >>> is_true("drop", "True"), is_true("drop", " false "), is_true("drop", None)
    (True, False, False)
    """
    if isinstance(value, bool) or is_absent(value):
        return value is True
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} is {value!r}, expected true or false")
    return text == "true"


def default_name(reference: str) -> str:
    """Return the default name of a pipeline: the stem of its file, or the last part of its module."""
    place = check_pipeline(reference).rpartition(":")[0]
    stem = os.path.basename(place).removesuffix(".py") if place.endswith(".py") else place.rpartition(".")[2]
    return check_name(stem.replace("_", "-").lower(), "pipeline")


def locate(reference: str, folder: str) -> str:
    """Resolve a relative path in `reference` against `folder`. A module stays as it is."""
    place, _, name = check_pipeline(reference).rpartition(":")
    if not place.endswith(".py") or os.path.isabs(place):
        return reference
    return f"{os.path.normpath(os.path.join(folder, place))}:{name}"
