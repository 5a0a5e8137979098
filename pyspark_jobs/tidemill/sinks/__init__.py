"""Where rows go: how a sink writes them (`files`), and how committed files become visible (`publish`).

Here: the kinds there are, for what commits record. A new sink is a file and its line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CorruptState
from .contract import Sink
from .files import Json, Parquet
from .foreach import ForeachBatch

KINDS: dict[str, Callable[[str], Sink]] = {sink.kind: sink for sink in (Parquet, Json)}
_FORMS: dict[str, Sink] = {sink.extension: sink("kept") for sink in (Parquet, Json)}


def recorded(described: Mapping[str, Any], name: str) -> Sink | None:
    """The sink that a commit describes, which code may no longer have; None for outputs that are only kept, and for
    those of a function, which is in no commit."""
    kind = described.get("kind")
    if kind is None or kind == ForeachBatch.kind:
        return None
    if kind not in KINDS:
        raise CorruptState(
            f"sink `{name}`: a commit records the kind `{kind}`, expected one of {', '.join(KINDS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    return KINDS[kind](described["path"])


def reader(extension: str, name: str) -> Sink:
    """What reads a kept file, by its extension; `CorruptState` for a form that is not known."""
    if extension not in _FORMS:
        raise CorruptState(
            f"read `{name}`: unknown file extension `{extension}`, expected one of {', '.join(_FORMS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    return _FORMS[extension]


__all__ = ["KINDS", "reader", "recorded"]
