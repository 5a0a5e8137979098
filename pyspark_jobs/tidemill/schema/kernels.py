"""Arrow's compute functions, without the cost of `import pyarrow.compute` before the first of them is needed.

That import makes a documented Python function for each of some hundred kernels, which takes longer than a small batch.
`pc` is that module, imported when a function of it is first used. INVARIANT: what every batch computes uses `call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Compute:
        """`pyarrow.compute`, imported when an attribute is first read."""

        def __getattr__(self, name):
            import pyarrow.compute

            value = getattr(pyarrow.compute, name)
            setattr(self, name, value)
            return value

    pc = _Compute()


def call(name: str, *values: Any) -> Any:
    """Call a kernel by its name, with its default options."""
    from pyarrow._compute import call_function  # `pyarrow.compute` has it from there

    return call_function(name, list(values))


__all__ = ["call", "pc"]
