"""A disk that is full while published files are stored again: nothing is left, so that retries do not fill it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import opened, published, world
from tests.world import run
from tidemill.store.local import LocalStore


@pytest.fixture
def shop(tmp_path: Path) -> tm.Repository:
    """Six batches in two partition folders; the first four are joined."""
    r = opened(tmp_path, sink=tm.Json(str(tmp_path / "out"), partitionBy="k"))
    for count in (4, 2):
        for _ in range(count):
            world(tmp_path).arrive("x,1\ny,1\n")
            run(r)
        if count == 4:
            r.maintain(compact_sinks=True)
    return opened(tmp_path, sink=tm.Json(str(tmp_path / "out"), partitionBy="k"))


@pytest.mark.parametrize("verb", [lambda r: r.maintain(compact_sinks=True), lambda r: r.rewind(2, "a test")])
def test_what_was_stored_before_the_disk_was_full_is_deleted(
    shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[tm.Repository], Any]
) -> None:
    def there() -> set[str]:
        return {str(path) for path in (tmp_path / "root").rglob("*") if path.is_file() and "/refs/" not in str(path)}

    before, rows, put, stored = there(), published(tmp_path), LocalStore.put, list[str]()

    def full(self: LocalStore, name: str, data: bytes) -> str | None:
        if name.startswith("output/"):
            stored.append(name)
            if len(stored) % 2 == 0:
                raise tm.StoreUnavailable(f"write `{name}`: {os.strerror(errno.ENOSPC)}")
        return put(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put", full)
        with pytest.raises(tm.StoreUnavailable, match="No space left"):
            verb(shop)
    assert len(stored) >= 2
    assert (there(), published(tmp_path)) == (before, rows)
    verb(shop)
    assert shop.verify(deep=True).problems == []
