"""Sinks: `files` writes rows, `publish` copies committed files under `public` names, `foreach` calls a function.

Here is the list of kinds, for what commits record. A new sink is one file and one entry in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CorruptState
from .contract import Sink
from .files import Json, Parquet
from .foreach import ForeachBatch

KINDS: dict[str, Callable[[Mapping[str, Any]], Sink]] = {sink.kind: sink.rebuilt for sink in (Parquet, Json)}
_FORMS: dict[str, Sink] = {sink.extension: sink("kept") for sink in (Parquet, Json)}


def rebuilt(described: Mapping[str, Any], name: str) -> Sink | None:
    """Return the sink that a commit describes, as `describe` of the sink gave it.

    Return None for outputs without a sink and for those of a function, because a commit holds no function."""
    kind = described.get("kind")
    if kind is None or kind == ForeachBatch.kind:
        return None
    if kind not in KINDS:
        raise CorruptState(
            f"sink `{name}`: a commit records the kind `{kind}`, expected one of {', '.join(KINDS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    return KINDS[kind](described)


def reader(extension: str, name: str) -> Sink:
    """Return the sink that reads files with an extension. Raises `CorruptState` for an unknown extension."""
    if extension not in _FORMS:
        raise CorruptState(
            f"read `{name}`: unknown file extension `{extension}`, expected one of {', '.join(_FORMS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    return _FORMS[extension]


__all__ = ["KINDS", "reader", "rebuilt"]
