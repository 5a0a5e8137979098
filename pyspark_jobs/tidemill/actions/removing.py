"""What `forget` writes again, and what it would: state, published files and quarantine without the keys.

Versions before its commit are given up, so that garbage collection deletes every object with the keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..forgetting import published as rewrite_published
from ..forgetting import quarantine as rewrite_quarantine
from ..forgetting import state as rewrite_state
from ..forgetting.following import give_up_forgotten, pins_below
from ..forgetting.keys import Keys, new_salt
from ..forgetting.published import Republished
from ..forgetting.state import Rewritten
from ..forgetting.traces import Traces, traces
from ..protocol.history import is_effective, shown_again
from ..protocol.kinds import Changes
from ..protocol.log import Log
from ..protocol.records import Commit, Forgotten, QuarantineFile, VersionOf
from ..protocol.refs import MAIN
from ..protocol.retained import floor
from ..protocol.successor import Origin, totals
from ..publishing.rest import Writing
from ..reading.read import key_batch
from ..repo.discard import discarded_if_full
from ..repo.opened import Opened
from ..repo.operators import committed_state, declared_operators, initial_state
from ..repo.overtaken import fenced_if_overtaken
from ..repo.versions import unless_given_up
from ..sinks.asked import is_called
from ..spelling import unknown
from ..state.columns import MapColumns
from ..upkeep.collect import collect_garbage
from ..values import dataclass
from .contract import SeenBranch
from .forget_report import ForgetReport

if TYPE_CHECKING:
    from .forget import Forget


@dataclass(frozen=True)
class _Made:
    """Everything that was written again for the commit."""

    keys: Keys
    state: Rewritten
    sinks: dict[str, Republished]
    quarantine: list[QuarantineFile]
    quarantined_rows: dict[str, int]


@dataclass(frozen=True)
class _Before:
    """The head before the commit, the first version that was kept, what kept earlier ones, and what records have."""

    head: Commit
    since: int
    pins: list[str]
    traces: Traces
    places: list[str]


def _before(log: Log, origin: Origin, asked: Forget, keys: Keys) -> _Before:
    assert origin.head is not None
    return _Before(
        origin.head,
        max(floor(origin.refs, MAIN).version, 0),
        pins_below(origin.refs, origin.number),
        traces(log, origin.head, keys, _columns(asked)),
        [
            f"branch `{one.name}`: its files in `{one.publish_to}` were not looked at"
            for one in origin.refs.branches.values()
            if one.publish_to is not None
        ],
    )


def discard_earlier_versions(repo: Opened) -> list[str]:
    """Give up earlier versions, and delete their objects. Return the names of these objects."""
    give_up_forgotten(repo)
    collected = collect_garbage(repo)
    repo.cache.clear()  # merges and failed attempts leave runs there that no commit names
    return sorted(one.name for one in collected.found[: collected.deleted])


def looked(repo: Opened, asked: Forget, seen: SeenBranch) -> ForgetReport:
    """Return what would happen. Writes nothing."""
    repo.refresh()  # tags and branches that others have made keep versions, too
    origin, keys = _checked(repo, asked, repo.origin(seen.origin.head))
    assert origin.head is not None
    before = _before(repo.log, origin, asked, keys)
    if _is_done(origin.head, asked, keys):  # an earlier call committed, and died before the rest
        return _report(repo, asked, seen, _nothing(keys), before)
    with fenced_if_overtaken(repo, origin.head, "forget"):
        _refuse_missing(repo, origin.head, asked, keys)
    looking = rewrite_state.ForgetTarget(origin.number, "dry-run", dry_run=True)
    made = _made(repo, origin.head, asked, keys, looking)
    return dataclasses.replace(_report(repo, asked, seen, made, before), clean=looking.clean)


def prepared(repo: Opened, asked: Forget, plan: ForgetReport, origin: Origin, to: Writing) -> Changes:
    """Write everything again that holds a key, and return what the commit changes."""
    assert origin.head is not None
    rewriting = rewrite_state.ForgetTarget(to.number, to.attempt, stored=to.stored, clean=plan.clean)
    with discarded_if_full(repo.store, to.attempt):
        made = _made(repo, origin.head, asked, plan.these, rewriting)
    return _changes(repo, origin, asked, made)


def _nothing(keys: Keys) -> _Made:
    return _Made(keys, Rewritten(), {}, [], {})


def _checked(repo: Opened, asked: Forget, origin: Origin) -> tuple[Origin, Keys]:
    head = origin.head
    if repo.branch != MAIN:
        this = repo.initialised().named(repo.branch)
        raise InvalidInput(f"forget: this is {this}, expected `{MAIN}`, which publishes")
    if head is None:
        raise InvalidInput(f"forget: pipeline `{repo.job.pipeline}` has no version yet")
    recorded = {**declared_operators(repo, head), **head.schemas}
    if asked.operator not in recorded:
        raise unknown("operator", asked.operator, recorded)
    if asked.operator in initial_state(repo, head):
        raise InvalidInput(
            f"forget: operator `{asked.operator}` has initial state that no batch has used yet", hint="run once first"
        )
    if isinstance(asked.keys, str | bytes):
        raise InvalidInput(f"forget: found {type(asked.keys).__name__} as keys, expected a list of keys")
    if not asked.keys:
        raise InvalidInput("forget: found no key, expected at least one")
    described = next(iter(recorded[asked.operator]["maps"].values()))
    keys = Keys(key_batch(list(asked.keys), MapColumns.described("keys", described).key, "forget")).distinct()
    if not len(keys.columns.schema):
        raise InvalidInput(f"forget: operator `{asked.operator}` has no key columns, so it has no key to forget")
    for name, columns in _columns(asked).items():
        rewrite_published.sink_of(repo, name)
        if len(columns) != keys.columns.num_columns:
            raise InvalidInput(
                f"forget: sink `{name}`: found {len(columns)} columns, expected one for each of the key's columns "
                f"({', '.join(keys.columns.schema.names)})"
            )
        rewrite_published.cast_key_columns(repo.job.outputs[name].schema.empty_table(), columns, keys, f"sink `{name}`")
    if head.waiting:
        raise InvalidInput(
            "forget: requeued rows wait for the next batch, and may have the keys",
            hint="run once, then forget the keys",
        )
    pins = pins_below(repo.initialised(), origin.number)
    if pins and not asked.drop_refs:
        raise InvalidInput(
            f"forget: {', '.join(pins)} keep earlier versions, which may hold the keys",
            hint="remove them first, or with this call: drop_refs=True or --drop-refs",
        )
    return origin, keys


def _is_done(head: Commit, asked: Forget, keys: Keys) -> bool:
    """Whether an earlier call has committed this, so that only the rest is left to do."""
    return any(
        one.version == head.version and _covers(one, asked.operator, keys) and one.columns == _columns(asked)
        for one in head.forgotten
    )


def _covers(one: Forgotten, operator: str, keys: Keys) -> bool:
    return one.operator == operator and set(keys.salted(one.salt)) <= set(one.hashes)


def _refuse_missing(repo: Opened, head: Commit, asked: Forget, keys: Keys) -> None:
    """Raise `InvalidInput` if a key has no state now, unless the caller accepts that or it was forgotten before."""
    if asked.missing_ok:
        return
    missing = rewrite_state.keys_without_rows(repo, *_maps(repo, head, asked.operator), keys)
    if missing and not any(_covers(one, asked.operator, keys) for one in repo.log.forgotten(head)):
        shown = ", ".join(f"{name}={value!r}" for name, value in missing[0].items())
        raise InvalidInput(
            f"forget: operator `{asked.operator}` has no state for the key {shown} in version {head.version}",
            hint="correct the key; if its state has ended but earlier versions or sinks hold it: missing_ok=True or "
            "--missing-ok",
        )


def _maps(repo: Opened, head: Commit, operator: str) -> tuple[dict[str, MapColumns], rewrite_state.SegmentsByMap]:
    """Return the maps of an operator with their columns and live segments."""
    maps = committed_state(repo, head).get(operator, {})
    return {name: MapColumns.described(name, head.schemas[operator]["maps"][name]) for name in maps}, maps


def _columns(asked: Forget) -> dict[str, list[str]]:
    return {name: [one] if isinstance(one, str) else list(one) for name, one in (asked.columns or {}).items()}


def _made(repo: Opened, head: Commit, asked: Forget, keys: Keys, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again, and once more whenever `maintain` gave up versions meanwhile."""
    with fenced_if_overtaken(repo, head, "forget"):
        return unless_given_up(repo, lambda: _make(repo, head, asked, keys, to))


def _make(repo: Opened, head: Commit, asked: Forget, keys: Keys, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again that the commit names."""
    state = rewrite_state.state_without_keys(repo, asked.operator, *_maps(repo, head, asked.operator), keys, to)
    sinks = {
        name: rewrite_published.outputs_without_keys(repo, head, name, columns, keys, to)
        for name, columns in _columns(asked).items()
    }
    since = max(floor(repo.initialised(), repo.branch).version, 0)
    kept = (one for one in repo.log.commits(since, through=head) if is_effective(head, one.version))
    quarantine, removed = rewrite_quarantine.quarantine_without_keys(repo, kept, keys, to)
    return _Made(keys, state, sinks, quarantine, removed)


def _changes(repo: Opened, origin: Origin, asked: Forget, made: _Made) -> Changes:
    head, salt = origin.head, new_salt()
    assert head is not None
    state = committed_state(repo, head) | ({asked.operator: made.state.maps} if asked.operator in head.state else {})
    gone = made.state.rows
    rows = dict(head.rows)
    if asked.operator in rows:
        rows[asked.operator] = {name: count - gone.get(name, 0) for name, count in rows[asked.operator].items()}
    withdrawn = {name: [VersionOf(MAIN, one) for one in found.records] for name, found in made.sinks.items()}
    again = {name: found.records for name, found in made.sinks.items() if found.records}
    forgotten = Forgotten(
        version=origin.number,
        operator=asked.operator,
        salt=salt,
        hashes=sorted(set(made.keys.salted(salt))),
        columns=_columns(asked),
        drop_refs=asked.drop_refs,
    )
    return {
        "state": state,
        "rows": rows,
        "operators": _metrics(head, asked.operator, state, gone),
        "quarantine": made.quarantine,
        "withdraws": {name: those for name, those in withdrawn.items() if those},
        "adds": {name: found.adds for name, found in made.sinks.items() if found.adds},
        "shown_by": shown_again(head, again, origin.number),
        "forgotten": [forgotten],
    }


def _metrics(head: Commit, operator: str, state: Mapping[str, Any], gone: Mapping[str, int]) -> dict[str, Any]:
    """Return the totals of all operators after the commit."""
    found = totals(head.operators)
    if operator in found and operator in state:
        first = next(iter(gone.values()), 0)
        sizes = {one.name: one.size for of_map in state[operator].values() for one in of_map}
        found[operator] = dataclasses.replace(
            found[operator], rows_total=found[operator].rows_total - first, state_bytes=sum(sizes.values())
        )
    return found


def _report(repo: Opened, asked: Forget, seen: SeenBranch, made: _Made, before: _Before) -> ForgetReport:
    """Return what would happen."""
    is_done = _is_done(before.head, asked, made.keys)
    last = before.head.version - is_done
    rewritten = list(made.state.objects) + [one for found in made.sinks.values() for one in found.rewritten]
    return ForgetReport(
        verb="forget",
        seen=seen,
        these=made.keys,
        operator=asked.operator,
        keys=made.keys.columns.num_rows,
        rows={name: count for name, count in made.state.rows.items() if count},
        rewritten=rewritten,
        quarantined_rows=made.quarantined_rows,
        versions=(before.since, last) if before.since <= last else None,
        dropped=before.pins,
        left=_left(repo, asked, made, before),
        done_in=before.head.version if is_done else None,
        columns=_columns(asked),
    )


def _left(repo: Opened, asked: Forget, made: _Made, before: _Before) -> list[str]:
    """Return what may still hold the keys, in words."""
    left = before.traces.lines()
    left += before.places
    left += [
        f"sink `{name}`: its files were not looked at, because this code does not have it"
        for name, described in before.head.sinks.items()
        if described["kind"] is not None and name not in repo.job.outputs
    ]
    for name, output in repo.job.outputs.items():
        if output.sink is None:
            continue
        if is_called(output.sink):
            left.append(f"sink `{name}`: the rows that your function wrote")
        elif name not in _columns(asked):
            left.append(f"sink `{name}`: its files were not looked at, because no column was given for it")
    missing = [one for found in made.sinks.values() for one in found.missing]
    left += [f"{one}: published, and not there any more" for one in missing]
    left += [f"sink `{name}`: {one}" for name, found in made.sinks.items() for one in found.elsewhere]
    left += [
        f"operator `{name}`: forget its keys by a call of its own"
        for name in repo.job.operators
        if name != asked.operator
    ]
    left.append("the files of the sources, their names in plans and the ledger, backups, earlier object versions of "
                "a bucket that keeps them, and caches of state on other machines")  # fmt: skip
    return left
