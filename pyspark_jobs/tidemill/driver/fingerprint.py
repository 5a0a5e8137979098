"""Which code made a commit: the pipeline's reference, Tidemill's version, and a digest of each of your functions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .context import Context, version_of_tidemill


def fingerprint(context: Context) -> dict[str, Any]:
    """Return the code of a pipeline as a commit records it."""
    functions: Mapping[str, tuple[Callable[..., Any], ...]] = context.job.functions
    return {
        "reference": context.reference,
        "tidemill": version_of_tidemill(),
        "functions": {name: [described_function(f) for f in found] for name, found in functions.items()},
    }


def described_function(function: Callable[..., Any]) -> dict[str, str]:
    """Return a function's name and a digest of its source, or of its byte code if the source is not available."""
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = code.co_code if code is not None else repr(type(function)).encode()
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
    return {"name": name, "digest": hashlib.blake2b(text, digest_size=16).hexdigest()}
