"""Parts of pyarrow that take longer to import than a small batch takes to run: its kernels and its Parquet module.

`import pyarrow.compute` makes a documented Python function for each of some hundred kernels, `import pyarrow.parquet`
loads all file systems. `pc` and `pq` are these modules, imported when an attribute is first read. INVARIANT: what every
batch computes uses `call`, which needs no `pc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Later:
        """A module, imported when an attribute is first read."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            # As a statement does it: `python -X importtime`, which tests read, does not show what `importlib` imports.
            value = getattr(__import__(self._name, fromlist=[name]), name)
            setattr(self, name, value)
            return value

    pc, pq = _Later("pyarrow.compute"), _Later("pyarrow.parquet")


def call(name: str, *values: Any) -> Any:
    """Call a kernel by its name, with its default options."""
    from pyarrow._compute import call_function  # `pyarrow.compute` has it from there

    return call_function(name, list(values))


__all__ = ["call", "pc", "pq"]
