"""A pipeline over a small folder (the fixture `folder`), and a check of refused calls."""

from __future__ import annotations

import pytest

import tidemill as tm


def counting(folder, name="bad", key="k", **files):
    p = tm.Pipeline(name)
    rows = p.read(tm.Files(str(folder), format="json", schema="k string, v int", **files))
    return p, rows.groupBy(key)


def refused(call, *parts):
    with pytest.raises(tm.InvalidInput) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
