"""The kinds of stores that one suite tests."""

from __future__ import annotations

import pytest

from tidemill.store import Store

KINDS = ("memory", "local", pytest.param("s3", marks=pytest.mark.servers("use an S3 server")), "fault")


def names(store: Store, prefix: str = "", start_after: str | None = None) -> list[str]:
    return [entry.name for entry in store.list(prefix, start_after)]
