"""What `forget` writes again, and what it would: state, published files and quarantine without the keys.

Versions before its commit are given up, so that garbage collection deletes every object with the keys. Or they are
written again, too; then no version that is kept names such an object any more.
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
from ..forgetting.cleaning import Cleaned, look_at_former
from ..forgetting.earlier import RewrittenVersions, size_of_versions, versions_without_keys
from ..forgetting.following import give_up_forgotten, pins_below
from ..forgetting.keys import Keys, new_salt
from ..forgetting.left_out import left_label
from ..forgetting.parts import ForgetPart, sought_parts, whole_keys
from ..forgetting.places import PublishedPlaces
from ..forgetting.published import Republished
from ..forgetting.state import Rewritten
from ..forgetting.traces import traces
from ..protocol.history import is_effective, shown_again
from ..protocol.kinds import Changes
from ..protocol.records import PERSON, REWRITE, Commit, QuarantineFile, VersionOf
from ..protocol.refs import MAIN
from ..protocol.retained import floor
from ..protocol.successor import Origin, totals
from ..publishing.rest import Writing
from ..repo.discard import discarded_if_full
from ..repo.opened import Opened
from ..repo.operators import committed_state
from ..repo.overtaken import fenced_if_overtaken
from ..repo.versions import unless_given_up
from ..sinks.asked import is_called
from ..upkeep.collect import collect_garbage
from ..values import dataclass
from .contract import SeenBranch
from .forget_report import ForgetReport
from .forget_task import ForgetTask, checked_task, maps_of, refuse_missing, refuse_unknown_person

if TYPE_CHECKING:
    from .forget import Forget


@dataclass(frozen=True)
class _Made:
    """Everything that was written again for the commit. `state` is by operator."""

    state: dict[str, Rewritten] = field(default_factory=dict)
    sinks: dict[str, Republished] = field(default_factory=dict)
    quarantine: list[QuarantineFile] = field(default_factory=list)
    quarantined_rows: dict[str, int] = field(default_factory=dict)
    former: Cleaned = field(default_factory=Cleaned)
    earlier: RewrittenVersions = field(default_factory=RewrittenVersions)

    @property
    def is_empty(self) -> bool:
        """Whether nothing had one of the keys."""
        files = (*self.former.files, *(one for found in self.sinks.values() for one in found.rewritten))
        objects = [*self.earlier.objects, *(name for one in self.state.values() for name in one.objects)]
        return not files and not self.quarantined_rows and not objects


@dataclass(frozen=True)
class _Before:
    """The head before the commit, the first version that was kept, what kept earlier ones, and what records have.

    `size`: how many objects kept versions name that may have keys, and their bytes.
    """

    head: Commit
    since: int
    pins: list[str]
    traces: list[str]
    size: tuple[int, int]


def _before(repo: Opened, origin: Origin, task: ForgetTask) -> _Before:
    assert origin.head is not None
    found = [traces(repo.log, origin.head, part.keys, task.columns).lines() for part in _by_columns(task.parts)]
    return _Before(
        origin.head,
        max(floor(origin.refs, MAIN).version, 0),
        pins_below(origin.refs, origin.number, task.rewrite),
        list(dict.fromkeys(line for lines in found for line in lines)),
        (0, 0) if task.rewrite else size_of_versions(repo, origin.refs, origin.head, task.parts),
    )


def _by_columns(parts: Sequence[ForgetPart]) -> list[ForgetPart]:
    """Return one part for the columns of each key, because text has no types."""
    return list({",".join(one.keys.columns.schema.names): one for one in parts}.values())


def discard_earlier_versions(repo: Opened) -> list[str]:
    """Give up earlier versions or apply what was rewritten, and delete objects. Return the names of these objects."""
    give_up_forgotten(repo)
    collected = collect_garbage(repo)
    repo.cache.clear()  # merges and failed attempts leave runs there that no commit names
    return sorted(one.name for one in collected.found[: collected.deleted])


def looked(repo: Opened, asked: Forget, seen: SeenBranch) -> ForgetReport:
    """Return what would happen. Writes nothing."""
    repo.refresh()  # tags and branches that others have made keep versions, too
    origin, task = checked_task(repo, asked, repo.origin(seen.origin.head))
    assert origin.head is not None
    before = _before(repo, origin, task)
    if _is_done(origin.head, task):  # an earlier call committed, and died before the rest
        return _report(repo, seen, task, _Made(), before)
    with fenced_if_overtaken(repo, origin.head, "forget"):
        refuse_missing(repo, origin.head, asked, task)
    looking = rewrite_state.ForgetTarget(origin.number, "dry-run", dry_run=True)
    made = _made(repo, origin.head, task, looking)
    if asked.person and made.is_empty:
        refuse_unknown_person(repo, origin.head, asked, task)
    return dataclasses.replace(_report(repo, seen, task, made, before), clean=looking.clean)


def prepared(repo: Opened, asked: Forget, plan: ForgetReport, origin: Origin, to: Writing) -> Changes:
    """Write everything again that holds a key, and return what the commit changes."""
    assert origin.head is not None
    rewriting = rewrite_state.ForgetTarget(to.number, to.attempt, stored=to.stored, clean=plan.clean)
    task = ForgetTask(list(plan.parts), plan.agreed, PublishedPlaces(repo, origin.head), asked.rewrite)
    with discarded_if_full(repo.store, to.attempt):
        made = _made(repo, origin.head, task, rewriting)
    return _changes(repo, origin, asked, task, made)


def _is_done(head: Commit, task: ForgetTask) -> bool:
    """Whether an earlier call has committed this, so that only the rest is left to do."""
    made = [one for one in head.forgotten if one.version == head.version]
    if REWRITE in head.requires and not task.rewrite:
        return False  # earlier versions are still there
    is_done = all(
        any(part.is_in(one) and one.columns == part.columns and one.left == task.left for one in made)
        for part in task.parts
    )
    if is_done and task.rewrite and REWRITE not in head.requires:
        raise InvalidInput(
            f"forget: version {head.version} has removed the keys and gives up all earlier "
            "versions, so none can be kept",
            hint="call it without `--rewrite`; that completes what is left to do",
        )
    return is_done


def _made(repo: Opened, head: Commit, task: ForgetTask, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again, and once more whenever `maintain` gave up versions meanwhile."""
    with fenced_if_overtaken(repo, head, "forget"):
        return unless_given_up(repo, lambda: _make(repo, head, task, to))


def _make(repo: Opened, head: Commit, task: ForgetTask, to: rewrite_state.ForgetTarget) -> _Made:
    """Write everything again that the commit names. A dry run also looks at the places that sinks had before."""
    earlier = RewrittenVersions()
    if task.rewrite:
        earlier = versions_without_keys(repo, head, task.parts, task.left, to)
    state = (
        _head_state(earlier)
        if task.rewrite
        else {
            operator: _state(repo, head, operator, [one for one in task.parts if one.operator == operator], to)
            for operator in dict.fromkeys(one.operator for one in task.parts if one.operator)
        }
    )
    sinks = {
        name: rewrite_published.outputs_without_keys(repo, head, name, task.searches(name), to)
        for name in task.columns
        if _has_place(repo, name)
    }
    quarantine, removed = ([], dict(earlier.quarantined)) if task.rewrite else _quarantine(repo, head, task, to)
    former = Cleaned()
    if to.dry_run:
        former = look_at_former(task.places, sought_parts(task.parts, task.left, to.version), set())
    return _Made(state, sinks, quarantine, removed, former, earlier)


def _head_state(earlier: RewrittenVersions) -> dict[str, Rewritten]:
    """Return the state of the head as it was rewritten with the versions before it."""
    return {
        operator: Rewritten(
            {name: list(segments) for name, segments in maps.items()}, dict(earlier.head_rows[operator])
        )
        for operator, maps in earlier.state.items()
        if operator in earlier.head_rows
    }


def _quarantine(
    repo: Opened, head: Commit, task: ForgetTask, to: rewrite_state.ForgetTarget
) -> tuple[list[QuarantineFile], dict[str, int]]:
    """Write the quarantined rows of all kept versions of the history again."""
    since = max(floor(repo.initialised(), repo.branch).version, 0)
    kept = (one for one in repo.log.commits(since, through=head) if is_effective(head, one.version))
    return rewrite_quarantine.quarantine_without_keys(repo, kept, [one.keys for one in task.parts], to)


def _has_place(repo: Opened, sink: str) -> bool:
    declared = repo.declared_sink(sink)
    return declared is not None and not is_called(declared)


def _state(
    repo: Opened, head: Commit, operator: str, parts: Sequence[ForgetPart], to: rewrite_state.ForgetTarget
) -> Rewritten:
    """Write the state of an operator again."""
    columns, maps = maps_of(repo, head, operator)
    keys: Keys | None = parts[0].keys
    if parts[0].found_by:
        keys = whole_keys(rewrite_state.key_rows(repo, columns, maps, to), parts)
    if keys is None:
        return Rewritten(maps={name: list(segments) for name, segments in maps.items()})
    return rewrite_state.state_without_keys(repo, operator, columns, maps, keys, to)


def _changes(repo: Opened, origin: Origin, asked: Forget, task: ForgetTask, made: _Made) -> Changes:
    head = origin.head
    assert head is not None
    state = committed_state(repo, head) | {name: one.maps for name, one in made.state.items() if name in head.state}
    required = [feature for feature, is_needed in ((PERSON, asked.person), (REWRITE, task.rewrite)) if is_needed]
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
        "replaced_objects": made.earlier.objects,
        "removed_rows": made.earlier.rows,
    }  # fmt: skip
    return changes | {"requires": required} if required else changes


def _metrics(head: Commit, state: Mapping[str, Any], gone: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the totals of all operators after the commit."""
    found = totals(head.operators)
    for operator in gone.keys() & found.keys() & state.keys():
        first = gone[operator].get(next(iter(head.rows.get(operator, {})), ""), 0)
        sizes = {one.name: one.size for of_map in state[operator].values() for one in of_map}
        found[operator] = dataclasses.replace(
            found[operator], rows_total=found[operator].rows_total - first, state_bytes=sum(sizes.values())
        )
    return found


def _report(repo: Opened, seen: SeenBranch, task: ForgetTask, made: _Made, before: _Before) -> ForgetReport:
    """Return what would happen."""
    is_done = _is_done(before.head, task)
    last = before.head.version - is_done
    rewritten = [name for one in made.state.values() for name in one.objects]
    earlier = made.earlier
    rewritten += [one.old for one in earlier.objects]
    objects, size = (len(earlier.objects), earlier.size) if task.rewrite else before.size
    versions = (before.since, last) if before.since <= last else None
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
        versions=None if task.rewrite else versions,
        kept=versions if task.rewrite else None,
        rewrite=task.rewrite,
        objects=objects,
        size=size,
        dropped=before.pins,
        left=_left(repo, task, made, before),
        agreed=task.left,
        done_in=before.head.version if is_done else None,
    )


def _left(repo: Opened, task: ForgetTask, made: _Made, before: _Before) -> list[str]:
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
    foreign = [one for found in made.sinks.values() for one in found.foreign]
    left += [
        f"{one}: published by the original of this copy" for one in dict.fromkeys((*foreign, *made.former.foreign))
    ]
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
