"""How columns of a file and of a schema are matched by name, as a value that the reader in Rust takes."""

from __future__ import annotations

from ..values import dataclass


@dataclass(frozen=True)
class ColumnsByName:
    """What columns without a partner are. `extra` is "ignore" or "fail", `missing` is "fail" or "null".

    `elsewhere` are columns whose values do not come from the file. It may have them; they are not read.
    """

    extra: str = "ignore"
    missing: str = "fail"
    elsewhere: tuple[str, ...] = ()
