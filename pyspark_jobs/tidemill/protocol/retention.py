"""Which floors a retention rule gives: by age or by number of versions, for all or for single operators. Pure.

INVARIANT: the version that was the newest at the start of the period is kept, so the state can be read as of any time
in it. The head is always kept, and so are versions that are not published yet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field

from ..values import dataclass
from .refs import Kept

ALL_OPERATORS = "*"
"""Stands for everything that has no rule of its own."""


@dataclass(frozen=True)
class Rule:
    """How long versions are kept: `age_ms` before now, the newest `versions`, or whichever keeps more."""

    age_ms: int | None = None
    versions: int | None = None


@dataclass(frozen=True)
class RetentionInput:
    """What a rule is applied to: the head, the last published version, and the time."""

    head: int
    published_through: int
    now_ms: int


@dataclass(frozen=True)
class Retention:
    """Rules by operator. Those of `ALL_OPERATORS` are for everything else: other state, outputs and quarantine."""

    rules: Mapping[str, Rule] = field(default_factory=dict)


def floors(retention: Retention, before: Kept, observed: RetentionInput, committed_ms: Callable[[int], int]) -> Kept:
    """Return the floors after retention. They are never lower than before. `committed_ms` gives the time of a version.

    A rule for an operator that is lower than the floor of everything else keeps the operator's state for longer.
    """
    found = {name: _floor(rule, before, name, observed, committed_ms) for name, rule in retention.rules.items()}
    version = max(before.version, found.pop(ALL_OPERATORS, before.version))
    operators = {name: before.of(name) for name in before.operators} | found
    return dataclasses.replace(before, version=version, operators=operators)


def _floor(rule: Rule, before: Kept, name: str, observed: RetentionInput, committed_ms: Callable[[int], int]) -> int:
    low = before.of(None if name == ALL_OPERATORS else name)
    floors = []
    if rule.versions is not None:
        floors.append(observed.head - rule.versions + 1)
    if rule.age_ms is not None:
        floors.append(_newest_before(observed.now_ms - rule.age_ms, max(low, 0), observed.head, committed_ms))
    wanted = min([*floors, observed.head, observed.published_through + 1])
    return max(low, wanted)


def _newest_before(cutoff_ms: int, low: int, head: int, committed_ms: Callable[[int], int]) -> int:
    """Return the newest version, from `low` on, such that it and all before it were committed by `cutoff_ms`."""
    found = low
    while found < head and committed_ms(found + 1) <= cutoff_ms:
        found += 1
    return found
