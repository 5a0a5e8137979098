"""Hypothesis strategies for records of every kind: any values, but integers within their bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill.protocol.bounds import LAST_MS
from tidemill.protocol.entries import Init, Operators
from tidemill.protocol.records import (
    FORMAT_VERSION,
    HASH_END,
    Commit,
    Counts,
    OperatorMetrics,
    OutputFile,
    Parent,
    Plan,
    QuarantineFile,
    Receipt,
    Segment,
    Split,
)

integers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
numbers = st.integers(0, 10**10 - 1)
times = st.integers(0, LAST_MS)
texts = st.text(st.characters(codec="utf-8"), max_size=10)
jsons = st.recursive(st.none() | st.booleans() | integers | texts, lambda x: st.lists(x, max_size=3), max_leaves=5)
names = st.sampled_from(["a", "state/x/y.parquet", "ü/ 1"])
hashes = st.integers(0, HASH_END)


def some(kind: type, **known: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for records of a kind: any values, but integers within their bounds."""
    return st.builds(kind, **{"format": st.just(FORMAT_VERSION)} | known if hasattr(kind, "format") else known)


parents = st.builds(Parent, branch=texts, version=st.integers(-1, 100), checksum=texts)


def ranged(segment: Segment) -> Segment:
    return dataclasses.replace(segment, lo=min(segment.lo, segment.hi), hi=max(segment.lo, segment.hi))


segments = some(
    Segment,
    name=names,
    checksum=texts,
    size=counts,
    rows=counts,
    lo=hashes,
    hi=hashes,
    sequence=counts,
    version=st.integers(-1, 100),
    min_deadline_ms=st.none() | integers,
    min_deadline_hash=hashes,
    etag=texts,
).map(ranged)
states = st.dictionaries(texts, st.dictionaries(texts, st.lists(segments, max_size=2), max_size=2), max_size=2)
outputs = some(OutputFile, name=names, lo=hashes, size=counts, rows=counts, pass_number=counts, part=counts, etag=texts)
quarantines = some(QuarantineFile, name=names, size=counts, rows=counts)
metrics = st.builds(OperatorMetrics, rows=counts, rows_total=st.integers(-9, 9), failed=counts, failure=texts)
ddls = st.sampled_from(["", "k string", "`ü x` struct<a: double not null>, n decimal(12,2)"])
operators = st.fixed_dictionaries({
    "kind": texts,
    "key": st.lists(texts, max_size=2),
    "maps": st.dictionaries(texts, st.fixed_dictionaries({"key": ddls, "sub_key": ddls, "value": ddls}), max_size=2),
    "output": ddls,
    "rules": st.dictionaries(texts, texts, max_size=2),
}, optional={"added_later": jsons})  # fmt: skip
schemas = st.dictionaries(texts, operators, max_size=2)
sinks = st.dictionaries(
    texts,
    st.fixed_dictionaries({"kind": st.none() | texts, "path": st.none() | texts, "schema": ddls}),
    max_size=2,
)


def with_state(commit: Commit) -> Commit:
    """Return the commit with an empty list for each map that it describes without segments."""
    empty: dict[str, dict[str, list[Segment]]] = {
        name: {each: [] for each in operator["maps"]} for name, operator in commit.schemas.items()
    }
    state = {name: maps | commit.state.get(name, {}) for name, maps in empty.items()}
    return dataclasses.replace(commit, state=commit.state | state)


entry = {"number": numbers, "parent": texts, "uuid": texts, "attempt": texts, "created_ms": times}
commits = st.builds(
    make.commit,
    version=numbers,
    kind=st.sampled_from(["batch", "sweep", "void", "skip", "reset"]),
    attempt=texts,
    parent=parents,
    state=states,
    ledger=st.lists(segments, max_size=2),
    outputs=st.dictionaries(texts, st.lists(outputs, max_size=2), max_size=2),
    quarantine=st.lists(quarantines, max_size=2),
    operators=st.dictionaries(texts, metrics, max_size=2),
    counts=st.builds(Counts, counts, counts),
    schemas=schemas,
    sinks=sinks,
    sources=st.dictionaries(texts, st.fixed_dictionaries({"uri": st.none() | texts}), max_size=2),
    code=st.dictionaries(texts, jsons, max_size=2),
    reason=st.none() | texts,
).map(with_state)
records = st.one_of(
    st.builds(Init, **entry, pipeline=texts, root=texts, seeds=states, schemas=schemas),
    st.builds(Operators, **entry, seeds=states, schemas=schemas),
    st.builds(
        Plan,
        number=numbers,
        kind=st.sampled_from(["batch", "sweep"]),
        plan_id=texts,
        branch=texts,
        pipeline_uuid=texts,
        parent=parents,
        batch_time_ms=times,
        splits=st.lists(st.builds(Split, texts, texts, texts, counts, integers), max_size=3).map(tuple),
        block_rows=st.integers(1, 2**31 - 1),
        created_ms=times,
        oldest_waiting_ms=st.none() | integers,
    ),
    st.builds(
        Receipt,
        level=counts,
        lo=hashes,
        hi=hashes,
        splits=st.dictionaries(texts, counts, max_size=2),
        state=states,
        rows=st.dictionaries(texts, st.dictionaries(texts, st.integers(-9, 9), max_size=2), max_size=2),
        outputs=st.dictionaries(texts, st.lists(outputs, max_size=2), max_size=2),
        quarantine=st.lists(quarantines, max_size=2),
        operators=st.dictionaries(texts, metrics, max_size=2),
        watermarks=st.dictionaries(texts, integers, max_size=2),
        next_deadline=st.dictionaries(texts, integers, max_size=2),
    ),
    commits,
)
