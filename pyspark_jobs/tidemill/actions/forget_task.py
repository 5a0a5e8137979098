"""`ForgetTask`: the keys that a `forget` removes, checked: those of one operator, or a person wherever records name it.

INVARIANT: whatever cannot be searched for a person is an error that names it, before anything is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..forgetting import published as rewrite_published
from ..forgetting import state as rewrite_state
from ..forgetting.cleaning import of_original, unreachable
from ..forgetting.following import pins_below
from ..forgetting.keys import Keys
from ..forgetting.left_out import is_left_out, left_label
from ..forgetting.parts import ForgetPart, person_parts, sought_parts
from ..forgetting.places import PublishedPlaces
from ..protocol.records import Commit
from ..protocol.refs import MAIN
from ..protocol.successor import Origin
from ..reading.read import key_batch
from ..repo.opened import Opened
from ..repo.operators import committed_state, declared_operators, initial_state
from ..spelling import unknown
from ..state.columns import MapColumns
from ..values import dataclass

if TYPE_CHECKING:
    from .forget import Forget


@dataclass(frozen=True)
class ForgetTask:
    """The keys in parts, the names that the caller agreed to leave, and the places of all sinks.

    `rewrite`: whether earlier versions stay.
    """

    parts: list[ForgetPart]
    left: list[str]
    places: PublishedPlaces
    rewrite: bool = False

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


def checked_task(repo: Opened, asked: Forget, origin: Origin) -> tuple[Origin, ForgetTask]:
    """Return what is asked for. `InvalidInput` if it is impossible."""
    head = origin.head
    if repo.branch != MAIN:
        this = repo.initialised().named(repo.branch)
        raise InvalidInput(f"forget: this is {this}, expected `{MAIN}`, which publishes")
    if head is None:
        raise InvalidInput(f"forget: pipeline `{repo.job.pipeline}` has no version yet")
    places = PublishedPlaces(repo, head)
    left = _labels(repo, head, asked.left, places)
    task = _person(repo, head, asked, places, left) if asked.person else _operator(repo, head, asked, places, left)
    task = dataclasses.replace(task, rewrite=asked.rewrite)
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
    pins = pins_below(repo.initialised(), origin.number, asked.rewrite)
    if pins and not asked.drop_refs:
        why = (
            "may have the keys in other versions" if asked.rewrite else "keep earlier versions, which may hold the keys"
        )
        raise InvalidInput(
            f"forget: {', '.join(pins)} {why}",
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


def _operator(repo: Opened, head: Commit, asked: Forget, places: PublishedPlaces, left: list[str]) -> ForgetTask:
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
        is_kept = asked.rewrite and name in repo.job.outputs  # its rows are in the repository, whoever publishes them
        if not is_kept and (repo.declared_sink(name) is not None or name not in places.sinks):
            rewrite_published.sink_of(repo, name)
        schema = repo.job.outputs[name].schema if is_kept else places.columns(name)
        if len(columns) != keys.columns.num_columns:
            raise InvalidInput(
                f"forget: sink `{name}`: found {len(columns)} columns, expected one for each of the key's columns "
                f"({', '.join(keys.columns.schema.names)})"
            )
        rewrite_published.cast_key_columns(schema.empty_table(), columns, keys, f"sink `{name}`")
    return ForgetTask([ForgetPart(asked.operator, keys, given)], left, places)


def _person(repo: Opened, head: Commit, asked: Forget, places: PublishedPlaces, left: list[str]) -> ForgetTask:
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
    lost = unreachable(places, searched, left)
    cannot |= lost | of_original(places, sought_parts(found.parts, left, head.version + 1), [*left, *lost])
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
    return ForgetTask(parts, left, places)


def refuse_missing(repo: Opened, head: Commit, asked: Forget, task: ForgetTask) -> None:
    """Raise `InvalidInput` if a key has no state now, unless the caller accepts that or it was forgotten before."""
    if asked.missing_ok or asked.person:
        return
    [part] = task.parts
    missing = rewrite_state.keys_without_rows(repo, *maps_of(repo, head, part.operator), part.keys)
    if missing and not any(part.is_in(one) for one in repo.log.forgotten(head)):
        shown = ", ".join(f"{name}={value!r}" for name, value in missing[0].items())
        raise InvalidInput(
            f"forget: operator `{asked.operator}` has no state for the key {shown} in version {head.version}",
            hint="correct the key; if its state has ended but earlier versions or sinks hold it: missing_ok=True or "
            "--missing-ok",
        )


def refuse_unknown_person(repo: Opened, head: Commit, asked: Forget, task: ForgetTask) -> None:
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


def maps_of(repo: Opened, head: Commit, operator: str) -> tuple[dict[str, MapColumns], rewrite_state.SegmentsByMap]:
    """Return the maps of an operator with their columns and live segments."""
    maps = committed_state(repo, head).get(operator, {})
    return {name: MapColumns.described(name, head.schemas[operator]["maps"][name]) for name in maps}, maps
