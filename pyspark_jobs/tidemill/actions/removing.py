"""What `forget` writes again, and what it would: state, published files and quarantine without the keys.

Versions before its commit are given up, so that garbage collection deletes every object with the keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..forgetting import published as rewrite_published
from ..forgetting import quarantine as rewrite_quarantine
from ..forgetting import state as rewrite_state
from ..forgetting.cleaning import Cleaned, look_at_former, unreachable
from ..forgetting.following import give_up_forgotten, pins_below
from ..forgetting.keys import Keys, new_salt
from ..forgetting.left_out import is_left_out, left_label
from ..forgetting.parts import ForgetPart, person_parts, sought_parts, whole_keys
from ..forgetting.places import PublishedPlaces
from ..forgetting.published import Republished
from ..forgetting.state import Rewritten
from ..forgetting.traces import traces
from ..protocol.history import is_effective, shown_again
from ..protocol.kinds import Changes
from ..protocol.log import Log
from ..protocol.records import PERSON, Commit, QuarantineFile, VersionOf
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
class _Task:
    """The keys in parts, the names that the caller agreed to leave, and the places of all sinks."""

    parts: list[ForgetPart]
    left: list[str]
    places: PublishedPlaces

    @property
    def columns(self) -> dict[str, list[str]]:
        """By sink, all columns that hold keys."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            for sink, columns in part.columns.items():
                found[sink] = list(dict.fromkeys([*found.get(sink, []), *columns]))
        return found

    def searches(self, sink: str) -> rewrite_published.Searches:
        """Return the columns of a sink with their keys."""
        return [(part.columns[sink], part.keys) for part in self.parts if sink in part.columns]


@dataclass(frozen=True)
class _Made:
    """Everything that was written again for the commit. `state` is by operator."""

    state: dict[str, Rewritten] = field(default_factory=dict)
    sinks: dict[str, Republished] = field(default_factory=dict)
    quarantine: list[QuarantineFile] = field(default_factory=list)
    quarantined_rows: dict[str, int] = field(default_factory=dict)
    former: Cleaned = field(default_factory=Cleaned)

    @property
    def is_empty(self) -> bool:
        """Whether nothing had one of the keys."""
        files = (*self.former.files, *(one for found in self.sinks.values() for one in found.rewritten))
        return not files and not self.quarantined_rows and not any(one.objects for one in self.state.values())


@dataclass(frozen=True)
class _Before:
    """The head before the commit, the first version that was kept, what kept earlier ones, and what records have."""

    head: Commit
    since: int
    pins: list[str]
    traces: list[str]


def _before(log: Log, origin: Origin, task: _Task) -> _Before:
    assert origin.head is not None
    found = [traces(log, origin.head, part.keys, task.columns).lines() for part in _by_columns(task.parts)]
    return _Before(
        origin.head,
        max(floor(origin.refs, MAIN).version, 0),
        pins_below(origin.refs, origin.number),
        list(dict.fromkeys(line for lines in found for line in lines)),
    )


def _by_columns(parts: Sequence[ForgetPart]) -> list[ForgetPart]:
    """Return one part for the columns of each key, because text has no types."""
    return list({",".join(one.keys.columns.schema.names): one for one in parts}.values())


def discard_earlier_versions(repo: Opened) -> list[str]:
    """Give up earlier versions, and delete their objects. Return the names of these objects."""
    give_up_forgotten(repo)
    collected = collect_garbage(repo)
    repo.cache.clear()  # merges and failed attempts leave runs there that no commit names
    return sorted(one.name for one in collected.found[: collected.deleted])


def looked(repo: Opened, asked: Forget, seen: SeenBranch) -> ForgetReport:
    """Return what would happen. Writes nothing."""
    repo.refresh()  # tags and branches that others have made keep versions, too
    origin, task = _checked(repo, asked, repo.origin(seen.origin.head))
    assert origin.head is not None
    before = _before(repo.log, origin, task)
    if _is_done(origin.head, task):  # an earlier call committed, and died before the rest
        return _report(repo, seen, task, _Made(), before)
    with fenced_if_overtaken(repo, origin.head, "forget"):
        _refuse_missing(repo, origin.head, asked, task)
    looking = rewrite_state.ForgetTarget(origin.number, "dry-run", dry_run=True)
    made = _made(repo, origin.head, task, looking)
    if asked.person and made.is_empty:
        _refuse_unknown_person(repo, origin.head, asked, task)
    return dataclasses.replace(_report(repo, seen, task, made, before), clean=looking.clean)


def prepared(repo: Opened, asked: Forget, plan: ForgetReport, origin: Origin, to: Writing) -> Changes:
    """Write everything again that holds a key, and return what the commit changes."""
    assert origin.head is not None
    rewriting = rewrite_state.ForgetTarget(to.number, to.attempt, stored=to.stored, clean=plan.clean)
    task = _Task(list(plan.parts), plan.agreed, PublishedPlaces(repo, origin.head))
    with discarded_if_full(repo.store, to.attempt):
        made = _made(repo, origin.head, task, rewriting)
    return _changes(repo, origin, asked, task, made)


def _checked(repo: Opened, asked: Forget, origin: Origin) -> tuple[Origin, _Task]:
    head = origin.head
    if repo.branch != MAIN:
        this = repo.initialised().named(repo.branch)
        raise InvalidInput(f"forget: this is {this}, expected `{MAIN}`, which publishes")
    if head is None:
        raise InvalidInput(f"forget: pipeline `{repo.job.pipeline}` has no version yet")
    places = PublishedPlaces(repo, head)
    left = _labels(repo, head, asked.left, places)
    task = _person(repo, head, asked, places, left) if asked.person else _operator(repo, head, asked, places, left)
    for part in task.parts:
        if part.operator in initial_state(repo, head):
            raise InvalidInput(
                f"forget: operator `{part.operator}` has initial state that no batch has used yet",
                hint="run once first",
            )
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
    return origin, task


def _labels(repo: Opened, head: Commit, left: Sequence[str], places: PublishedPlaces) -> list[str]:
    """Return what the caller agreed to leave, as labels. `InvalidInput` for an unknown name."""
    if isinstance(left, str):
        raise InvalidInput(f"forget: found left={left!r}, expected a list of names")
    known = [("operator", name) for name in {**declared_operators(repo, head), **head.schemas}]
    known += [("sink", name) for name in dict.fromkeys((*places.sinks, *repo.job.outputs))]
    known += [("folder", place.uri) for place in places.found.values() if place.uri]
    for one in left:
        if not any(is_left_out([one], *named) for named in known):
            raise unknown("operator, sink or folder to leave", one, [name for _, name in known])
    return sorted({left_label(*named) for named in known if is_left_out(left, *named)})


def _operator(repo: Opened, head: Commit, asked: Forget, places: PublishedPlaces, left: list[str]) -> _Task:
    """Return the keys of one operator."""
    recorded = {**declared_operators(repo, head), **head.schemas}
    if asked.operator not in recorded:
        raise unknown("operator", str(asked.operator), recorded)
    if isinstance(asked.keys, str | bytes):
        raise InvalidInput(f"forget: found {type(asked.keys).__name__} as keys, expected a list of keys")
    if not asked.keys:
        raise InvalidInput("forget: found no key, expected at least one")
    described = next(iter(recorded[asked.operator]["maps"].values()))
    keys = Keys(key_batch(list(asked.keys), MapColumns.described("keys", described).key, "forget")).distinct()
    if not len(keys.columns.schema):
        raise InvalidInput(f"forget: operator `{asked.operator}` has no key columns, so it has no key to forget")
    given = {name: [one] if isinstance(one, str) else list(one) for name, one in (asked.columns or {}).items()}
    for name, columns in given.items():
        if repo.declared_sink(name) is not None or name not in places.sinks:
            rewrite_published.sink_of(repo, name)
        schema = places.columns(name)
        if len(columns) != keys.columns.num_columns:
            raise InvalidInput(
                f"forget: sink `{name}`: found {len(columns)} columns, expected one for each of the key's columns "
                f"({', '.join(keys.columns.schema.names)})"
            )
        rewrite_published.cast_key_columns(schema.empty_table(), columns, keys, f"sink `{name}`")
    return _Task([ForgetPart(asked.operator, keys, given)], left, places)


def _person(repo: Opened, head: Commit, asked: Forget, places: PublishedPlaces, left: list[str]) -> _Task:
    """Return the values of a person. `InvalidInput` if something cannot be searched that the caller did not leave."""
    if asked.operator or asked.keys or asked.columns:
        raise InvalidInput(
            "forget: found a person and also an operator, keys or columns, expected one of them",
            hint="a person is looked for in all operators and sinks",
        )
    assert asked.person is not None
    for column, values in asked.person.items():
        if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
            raise InvalidInput(f"forget: found {values!r} for column `{column}`, expected a list of values")
    found = person_parts(repo, head, places, asked.person)
    cannot = {name: why for name, why in found.without.items() if name not in left}
    searched = {sink for part in found.parts for sink in part.columns} - {
        sink for sink in places.sinks if left_label("sink", sink) in left
    }
    cannot |= unreachable(places, searched, left)
    if cannot:
        names = list(dict.fromkeys(name.partition("`")[2].removesuffix("`") for name in cannot))
        raise InvalidInput(
            "forget: these cannot be searched for " + ", ".join(f"`{one}`" for one in asked.person) + ": "
            + "; ".join(f"{name} ({why})" for name, why in cannot.items()),
            hint=f"if none of them has the person, or you clean them yourself: left={names}, or "
            + " ".join(f"--left {name}" for name in names),
        )  # fmt: skip
    parts = [
        dataclasses.replace(part, columns={sink: those for sink, those in part.columns.items() if sink in searched})
        for part in found.parts
        if left_label("operator", part.operator) not in left
    ]
    return _Task(parts, left, places)


def _is_done(head: Commit, task: _Task) -> bool:
    """Whether an earlier call has committed this, so that only the rest is left to do."""
    made = [one for one in head.forgotten if one.version == head.version]
    return all(
        any(part.is_in(one) and one.columns == part.columns and one.left == task.left for one in made)
        for part in task.parts
    )


def _refuse_missing(repo: Opened, head: Commit, asked: Forget, task: _Task) -> None:
    """Raise `InvalidInput` if a key has no state now, unless the caller accepts that or it was forgotten before."""
    if asked.missing_ok or asked.person:
        return
    [part] = task.parts
    missing = rewrite_state.keys_without_rows(repo, *_maps(repo, head, part.operator), part.keys)
    if missing and not any(part.is_in(one) for one in repo.log.forgotten(head)):
        shown = ", ".join(f"{name}={value!r}" for name, value in missing[0].items())
        raise InvalidInput(
            f"forget: operator `{asked.operator}` has no state for the key {shown} in version {head.version}",
            hint="correct the key; if its state has ended but earlier versions or sinks hold it: missing_ok=True or "
            "--missing-ok",
        )


def _refuse_unknown_person(repo: Opened, head: Commit, asked: Forget, task: _Task) -> None:
    """Raise `InvalidInput` if nothing has a person, unless the caller accepts that or it was forgotten before."""
    before = repo.log.forgotten(head)
    if asked.missing_ok or all(any(part.is_in(one) for one in before) for part in task.parts):
        return
    assert asked.person is not None
    shown = ", ".join(f"{column}={value!r}" for column, values in asked.person.items() for value in values)
    raise InvalidInput(
        f"forget: no state, published file or quarantined row has {shown} in version {head.version}",
        hint="correct the values; if only earlier versions hold them: missing_ok=True or --missing-ok",
    )


def _maps(repo: Opened, head: Commit, operator: str) -> tuple[dict[str, MapColumns], rewrite_state.SegmentsByMap]:
    """Return the maps of an operator with their columns and live segments."""
    maps = committed_state(repo, head).get(operator, {})
    return {name: MapColumns.described(name, head.schemas[operator]["maps"][name]) for name in maps}, maps


def _made(repo: Opened, head: Commit, task: _Task, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again, and once more whenever `maintain` gave up versions meanwhile."""
    with fenced_if_overtaken(repo, head, "forget"):
        return unless_given_up(repo, lambda: _make(repo, head, task, to))


def _make(repo: Opened, head: Commit, task: _Task, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again that the commit names. A dry run also looks at the places that sinks had before."""
    state = {
        operator: _state(repo, head, operator, [one for one in task.parts if one.operator == operator], to)
        for operator in dict.fromkeys(one.operator for one in task.parts if one.operator)
    }
    sinks = {
        name: rewrite_published.outputs_without_keys(repo, head, name, task.searches(name), to)
        for name in task.columns
        if _has_place(repo, name)
    }
    since = max(floor(repo.initialised(), repo.branch).version, 0)
    kept = (one for one in repo.log.commits(since, through=head) if is_effective(head, one.version))
    quarantine, removed = rewrite_quarantine.quarantine_without_keys(repo, kept, [one.keys for one in task.parts], to)
    former = Cleaned()
    if to.dry_run:
        former = look_at_former(task.places, sought_parts(task.parts, task.left, to.version), set())
    return _Made(state, sinks, quarantine, removed, former)


def _has_place(repo: Opened, sink: str) -> bool:
    declared = repo.declared_sink(sink)
    return declared is not None and not is_called(declared)


def _state(
    repo: Opened, head: Commit, operator: str, parts: Sequence[ForgetPart], to: rewrite_state.ForgetTarget
) -> Rewritten:
    """Write the state of an operator again."""
    columns, maps = _maps(repo, head, operator)
    keys: Keys | None = parts[0].keys
    if parts[0].found_by:
        keys = whole_keys(rewrite_state.key_rows(repo, columns, maps, to), parts)
    if keys is None:
        return Rewritten(maps={name: list(segments) for name, segments in maps.items()})
    return rewrite_state.state_without_keys(repo, operator, columns, maps, keys, to)


def _changes(repo: Opened, origin: Origin, asked: Forget, task: _Task, made: _Made) -> Changes:
    head = origin.head
    assert head is not None
    state = committed_state(repo, head) | {name: one.maps for name, one in made.state.items() if name in head.state}
    gone = {name: one.rows for name, one in made.state.items()}
    rows = dict(head.rows)
    for operator in gone.keys() & rows.keys():
        rows[operator] = {name: count - gone[operator].get(name, 0) for name, count in rows[operator].items()}
    withdrawn = {name: [VersionOf(MAIN, one) for one in found.records] for name, found in made.sinks.items()}
    again = {name: found.records for name, found in made.sinks.items() if found.records}
    before = repo.log.forgotten(head)
    changes: Changes = {
        "state": state,
        "rows": rows,
        "operators": _metrics(head, state, gone),
        "quarantine": made.quarantine,
        "withdraws": {name: those for name, those in withdrawn.items() if those},
        "adds": {name: found.adds for name, found in made.sinks.items() if found.adds},
        "shown_by": shown_again(head, again, origin.number),
        "forgotten": [
            part.entry(
                origin.number, new_salt(), task.left, [one.version for one in before if part.has_all(one)],
                asked.drop_refs,
            )
            for part in task.parts
        ],
    }  # fmt: skip
    return changes | {"requires": [PERSON]} if asked.person else changes


def _metrics(head: Commit, state: Mapping[str, Any], gone: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the totals of all operators after the commit."""
    found = totals(head.operators)
    for operator in gone.keys() & found.keys() & state.keys():
        first = next(iter(gone[operator].values()), 0)
        sizes = {one.name: one.size for of_map in state[operator].values() for one in of_map}
        found[operator] = dataclasses.replace(
            found[operator], rows_total=found[operator].rows_total - first, state_bytes=sum(sizes.values())
        )
    return found


def _report(repo: Opened, seen: SeenBranch, task: _Task, made: _Made, before: _Before) -> ForgetReport:
    """Return what would happen."""
    is_done = _is_done(before.head, task)
    last = before.head.version - is_done
    rewritten = [name for one in made.state.values() for name in one.objects]
    rewritten += [one for found in made.sinks.values() for one in found.rewritten] + made.former.files
    rows = {name: {at: count for at, count in one.rows.items() if count} for name, one in made.state.items()}
    in_sinks = {name: made.former.rows.get(name, 0) + (made.sinks[name].rows if name in made.sinks else 0)
                for name in task.columns}  # fmt: skip
    first = task.parts[0]
    person = (
        "" if not first.found_by else ", ".join(one.keys.columns.schema.names[0] for one in _by_columns(task.parts))
    )
    return ForgetReport(
        verb="forget",
        seen=seen,
        parts=task.parts,
        operator=first.operator if not person else "",
        person=person,
        keys=sum(one.keys.columns.num_rows for one in _by_columns(task.parts)),
        rows=rows.get(first.operator, {}) if not person else {},
        operators=rows,
        sinks={name: count for name, count in in_sinks.items() if count},
        rewritten=rewritten,
        quarantined_rows=made.quarantined_rows,
        versions=(before.since, last) if before.since <= last else None,
        dropped=before.pins,
        left=_left(repo, task, made, before),
        agreed=task.left,
        done_in=before.head.version if is_done else None,
    )


def _left(repo: Opened, task: _Task, made: _Made, before: _Before) -> list[str]:
    """Return what may still hold the keys, in words."""
    left = [f"{one}: not searched, as you agreed" for one in task.left] + before.traces
    is_of_person = bool(task.parts[0].found_by)
    for sink in () if is_of_person else task.places.sinks:
        if left_label("sink", sink) in task.left or sink in task.columns:
            continue
        if any(place.is_function for place in task.places.of(sink)):
            left.append(f"sink `{sink}`: the rows that your function wrote")
        elif any(place.records or place.is_declared for place in task.places.of(sink)):
            left.append(f"sink `{sink}`: its files were not looked at, because no column was given for it")
    known = {*task.places.sinks}
    left += [
        f"sink `{name}`: the rows that your function wrote"
        for name, output in repo.job.outputs.items()
        if output.sink is not None and is_called(output.sink) and name not in known
    ]
    missing = [one for found in made.sinks.values() for one in found.missing]
    left += [f"{one}: published, and not there any more" for one in missing if one not in made.former.there]
    left += [f"{one}: the repository published it of which this is a copy" for one in made.former.foreign]
    left += [f"sink `{name}`: {one}" for name, found in made.sinks.items() for one in found.elsewhere]
    if not is_of_person:
        left += [
            f"operator `{name}`: forget its keys by a call of its own"
            for name in repo.job.operators
            if name != task.parts[0].operator
        ]
    left.append("the files of the sources, their names in plans and the ledger, backups, earlier object versions of "
                "a bucket that keeps them, and caches of state on other machines")  # fmt: skip
    return left
