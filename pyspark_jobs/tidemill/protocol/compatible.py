"""Whether the operators of some code fit the state of a repository: every difference, and what will happen to it.

Pure. `run`, `init`, `check` and `migrate` share it, so what is refused is what `check` reports.
INVARIANT: an accepted difference loses no state: rows written earlier are read through their own schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field as dataclass_field
from typing import Any, Literal

import pyarrow as pa

from .. import names
from ..errors import InvalidInput
from ..schema import FieldChange, difference, field_changes, to_arrow
from ..units import with_readable_durations
from ..values import dataclass
from . import tied
from .records import Renamed

_Schemas = Mapping[str, Mapping[str, Any]]
"""Descriptions by operator, as commits record them."""
Compatibility = Literal["compatible", "needs init", "needs migration", "refused"]
STATUSES: tuple[Compatibility, ...] = ("compatible", "needs init", "needs migration", "refused")
"""From best to worst."""
ACCEPTED: Compatibility = "compatible"
PARTIAL_KINDS = ("aggregate", "sessions")
"""Kinds of operators whose state holds partial values."""
_NOT_AGGREGATES = frozenset(("window", "window ends", "keys end", "sessions"))
"""The rules of these kinds that are not aggregates."""
_PARTS = ("key", "sub_key", "value")


@dataclass(frozen=True)
class Difference:
    """One difference between the code and the repository.

    `what` differs: `operator`, `kind`, `ports`, `key`, `sub_key`, `state`, `aggregate`, `input`, `rule` or `variable`;
    or, without an operator, `repository`, `sink` or `watermark`. `field` is the path of the column, or the name of the
    aggregate, rule, variable or watermark. `before` and `after` are types or values, empty if there is none. `outcome`
    says what will happen. `message` and `hint` are those of the error of a run; they are empty if the difference is
    accepted.
    """

    operator: str
    what: str
    field: str
    before: str
    after: str
    status: Compatibility
    outcome: str
    message: str = dataclass_field(default="", repr=False)
    hint: str = dataclass_field(default="", repr=False)


def worst(differences: Iterable[Difference]) -> Compatibility:
    """Return the status of all differences together."""
    return max((one.status for one in differences), key=STATUSES.index, default="compatible")


def refuse_differences(differences: Iterable[Difference]) -> None:
    """Raise `InvalidInput` for the first difference that is not accepted."""
    for one in differences:
        if one.status != ACCEPTED:
            raise InvalidInput(one.message, hint=one.hint)


def _fits(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether code reads an operator's state as it is recorded: every difference is accepted."""
    return recorded == found or worst(compare_operator(name, recorded, found)) == ACCEPTED


def renamed_schemas(schemas: _Schemas, renamed: Iterable[Renamed]) -> dict[str, dict[str, Any]]:
    """Return the operators of `refs/` under the names that they have now."""
    present = {one.old: one.new for one in renamed}
    return {present.get(name, name): dict(schema) for name, schema in schemas.items()}


def first_name(name: str, renamed: Iterable[Renamed]) -> str:
    """Return the name by which `refs/` knows an operator."""
    return next((one.old for one in renamed if one.new == name), name)


def present_name(name: str, then: Iterable[Renamed], now: Iterable[Renamed]) -> str:
    """Return the name that an operator of an earlier version has now. `then` and `now` are the renames of both."""
    first = first_name(name, then)
    return next((one.new for one in now if one.old == first), first)


def compare_operators(
    declared: _Schemas,
    recorded: _Schemas,
    ours: _Schemas,
    *,
    must_fit: Collection[str],
    has_state: bool,
    is_main: bool = True,
) -> list[Difference]:
    """Return the differences between the operators of the code, `ours`, and those of the repository.

    `declared` are the operators that the repository has, `recorded` how their state is described. `must_fit`: those
    whose description counts. `has_state`: whether there is a commit; before it `init` records operators again.
    `is_main`: `init` adds operators to `main` alone.
    """
    found: list[Difference] = []
    gone = sorted(name for name in declared if name not in ours)
    for name, schema in ours.items():
        if name not in declared:
            found.append(_new_operator(name, declared, gone, schema) if is_main else _new_on_branch(name, schema))
        elif name in must_fit:
            found += compare_operator(name, recorded[name], schema, has_state=has_state)
    found += [_gone_operator(name, recorded[name]) for name in declared if name not in ours]
    return found


def _new_operator(name: str, declared: _Schemas, gone: Sequence[str], schema: Mapping[str, Any]) -> Difference:
    rename = f"if you renamed `{gone[0]}`, restore its name or migrate its state; " if gone else ""
    return Difference(
        name, "operator", name, "", schema["kind"], "needs init",
        "`init` adds it" + (f"; or `migrate` takes over the state of `{gone[0]}`, if it was renamed" if gone else ""),
        f"operator `{name}` has no state in this repository, which has state for "
        + (", ".join(f"`{known}`" for known in sorted(declared)) or "no operator"),
        rename + "if the operator is new, run init again, which adds it",
    )  # fmt: skip


def _new_on_branch(name: str, schema: Mapping[str, Any]) -> Difference:
    return Difference(
        name, "operator", name, "", schema["kind"], "needs init", "`replay` with `operators` gives it its past",
        f"operator `{name}` has no state on this branch, so it would start empty",
        f'give it its past in a new branch: r.replay(0, into=…, operators=["{name}"]) or tidemill replay --from 0 '
        f"--operators {name}; or, to let it start empty, run init on `main` first, which adds it",
    )  # fmt: skip


def _gone_operator(name: str, recorded: Mapping[str, Any]) -> Difference:
    return Difference(
        name, "operator", name, recorded["kind"], "", "needs init",
        "`init` with `drop` ends its state; or restore the operator",
        f"operator `{name}` has state in this repository, but this code does not have the operator",
        "restore the operator, or discard its state: "
        f"r.init(drop=[{name!r}]) or tidemill init PIPELINE --root ROOT --drop {name}",
    )  # fmt: skip


def compare_operator(
    name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], *, has_state: bool = True
) -> list[Difference]:
    """Return the differences between an operator's state and its code, in the order in which a run looks at them."""
    if recorded["kind"] != found["kind"]:
        what = f"operator `{name}` has state of a `{recorded['kind']}`, this code declares a `{found['kind']}`"
        return [
            Difference(
                name, "kind", "kind", recorded["kind"], found["kind"], "refused" if has_state else "needs init",
                "refused: state of one kind is never read by another" if has_state else _AGAIN, what,
                _hint(name, has_state, can_migrate=False),
            )
        ]  # fmt: skip
    rules = list(_rules(name, recorded, found, has_state))
    added = [one.field for one in rules if one.status == ACCEPTED]
    maps = [one for one in _maps(name, recorded, found, has_state) if not _is_partial(one, added)]
    return [
        *_ports(name, recorded, found, has_state),
        *_key(name, recorded, found, has_state),
        *rules,
        *_inputs(name, recorded, found, has_state),
        *maps,
    ]


def _is_partial(one: Difference, aggregates: Iterable[str]) -> bool:
    """Whether a difference is a new column of one of these new aggregates."""
    return not one.before and any(one.field == name or one.field.startswith(f"{name}.") for name in aggregates)


_NOT_RECORDED = "an earlier version did not record its type; make sure that it is still the same"
_AGAIN = "`init` records it, because no batch has run yet"


def _hint(name: str, has_state: bool, *, can_migrate: bool = True) -> str:
    if not has_state:
        return (
            "restore the earlier declaration; or, because no batch has run yet, run init again, which records this one"
        )
    migrate = (
        f"migrate the state: r.migrate({{{name!r}: function}}, reason=…) or tidemill migrate; or, "
        if can_migrate
        else ""
    )
    return (
        f"restore the earlier declaration; or {migrate}to start with empty state, rename the operator and discard this "
        f"state: r.init(drop=[{name!r}]) or tidemill init PIPELINE --root ROOT --drop {name}"
    )


def _refused(name: str, has_state: bool, what: str, at: str, before: str, after: str, message: str) -> Difference:
    """Return a difference that needs a migration, or before the first batch another `init`."""
    status: Compatibility = "needs migration" if has_state else "needs init"
    outcome = "refused until the state is migrated" if has_state else _AGAIN
    return Difference(name, what, at, before, after, status, outcome, message, _hint(name, has_state))


def _key(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], has_state: bool) -> Iterator[Difference]:
    before, after = recorded["key"], found["key"]
    if before != after:
        message = f"operator `{name}` has state by key {before}, this code declares {after}"
        yield _refused(name, has_state, "key", "key", ", ".join(before), ", ".join(after), message)


def _ports(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], has_state: bool) -> Iterator[Difference]:
    before, after = recorded.get("ports", []), found.get("ports", [])
    if before != after:
        was, now = (", ".join(f"`{port}`" for port in ports) or "one without a name" for ports in (before, after))
        message = f"operator `{name}` has state made of rows of the inputs {was}, this code declares {now}"
        yield _refused(name, has_state, "ports", "ports", ", ".join(before), ", ".join(after), message)


def _rules(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], has_state: bool) -> Iterator[Difference]:
    before, after = recorded.get("rules", {}), found["rules"]
    new = _new_variables(recorded, found).values()
    has_aggregates = found["kind"] in PARTIAL_KINDS
    gone = has_aggregates and any(rule not in after for rule in before)
    for rule, now in after.items():
        if before.get(rule) == now or rule in new:
            continue
        if has_aggregates and rule not in before and rule not in _NOT_AGGREGATES and not gone:
            yield Difference(name, "aggregate", rule, "", now, ACCEPTED, "keys that have state start it without rows")
            continue
        was, declared = _shown_rules(before), _shown_rules(after)
        if rule in before:
            was, declared = _shown_rules({rule: before[rule]}), with_readable_durations(str(now))
        message = f"operator `{name}` has state made with {was}, this code declares {declared}"
        yield _refused(name, has_state, "rule", rule, before.get(rule, ""), now, message)
    for rule, was in before.items() if has_aggregates else ():
        if rule not in after:
            message = (
                f"operator `{name}` has state made with {_shown_rules(before)}, this code declares "
                + _shown_rules(after)
            )
            yield _refused(name, has_state, "rule", rule, was, "", message)


def _shown_rules(rules: Mapping[str, Any]) -> str:
    return ", ".join(f"`{rule}` = {with_readable_durations(str(value))}" for rule, value in rules.items()) or "no rules"


def _maps(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], has_state: bool) -> Iterator[Difference]:
    new = _new_variables(recorded, found)
    for map_name, columns in found["maps"].items():
        if map_name in new:
            variable = names.variable_name(map_name)
            kind = found["rules"].get(new[map_name], "")
            yield Difference(name, "variable", variable, "", kind, ACCEPTED, "it starts empty")
            continue
        known = recorded["maps"].get(map_name)
        for part in _PARTS:
            yield from _part(name, map_name, part, known, columns, found, has_state)
    for map_name, columns in recorded["maps"].items():
        if map_name not in found["maps"] and _is_variable(map_name):
            variable = names.variable_name(map_name)
            message = (
                f"operator `{name}` has state in the variable `{variable}` ({columns['value'] or 'nothing'}), which "
                "this code does not declare"
            )
            yield _refused(name, has_state, "variable", variable, columns["value"], "", message)


def _part(
    name: str,
    map_name: str,
    part: str,
    known: Mapping[str, str] | None,
    columns: Mapping[str, str],
    found: Mapping[str, Any],
    has_state: bool,
) -> Iterator[Difference]:
    before, now = ("" if known is None else known[part]), columns[part]
    if known is not None and before == now:
        return
    what = "state" if part == "value" else part
    changes = changes_of(found["kind"], part, before, now)
    if known is not None and all(change.is_accepted for change in changes):
        for change in changes:
            yield Difference(name, what, change.path, change.before, change.after, ACCEPTED, _accepted(change))
        return
    detail = difference(to_arrow(before), to_arrow(now)) if before and now else None
    message = f"operator `{name}` has {_named(map_name, part)} schema `{before}`, this code declares `{now}`" + (
        f" ({detail})" if detail else ""
    )
    for change in changes or [FieldChange("", before, now, False)]:
        if change.is_accepted:
            yield Difference(name, what, change.path, change.before, change.after, ACCEPTED, _accepted(change))
        else:
            yield _refused(name, has_state, what, change.path, change.before, change.after, message)


def _named(map_name: str, part: str) -> str:
    """Return whose schema it is in a message: the user keys of a variable, or a part of the state."""
    if part == "sub_key" and _is_variable(map_name):
        return f"for its variable `{names.variable_name(map_name)}` the user key"
    return "state" if part == "value" else part


def _inputs(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any], has_state: bool) -> Iterator[Difference]:
    """Compare the types of columns that the state does not show. Earlier versions did not record them."""
    before: Mapping[str, str] = recorded.get("inputs", {})
    for output, now in found.get("inputs", {}).items():
        rule, was = found["rules"].get(output, ""), before.get(output)
        function = rule.partition("(")[0]
        if was is None:
            if output in recorded.get("rules", {}) and tied.is_in_doubt(function, now):
                yield Difference(name, "input", output, "", now, ACCEPTED, _NOT_RECORDED)
        elif (fault := tied.fault(function, was, now)) is not None:
            message = (
                f"operator `{name}` has state of `{output}` = {rule} made with values of type {was}, this code gives "
                f"it {now}: {fault}"
            )
            yield _refused(name, has_state, "input", output, was, now, message)


def changes_of(kind: str, part: str, before: str, now: str) -> list[FieldChange]:
    """Return the differences between the columns of a part of a map: `key`, `sub_key` or `value`. `kind`: the operator.

    Keys and partial values keep values of input columns. Users' functions make others, which grow and are widened.
    """
    old, new, grows = _columns(before), _columns(now), part == "value"
    if part != "value" or kind in PARTIAL_KINDS:
        return tied.kept_changes(old, new, grows=grows)
    return field_changes(old, new, grows=grows, exact="in keys of maps")


def _columns(ddl: str) -> pa.Schema:
    return to_arrow(ddl) if ddl else pa.schema([])


def _accepted(change: FieldChange) -> str:
    return "it is widened when it is read" if change.before else "it is null in rows written earlier"


def has_same_time(map_name: str, recorded: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether deadlines of a map mean the same in both descriptions of an operator."""
    of_map = names.variable_rule(map_name)
    return _time_rules(of_map, recorded) == _time_rules(of_map, found)


def _time_rules(of_map: str, described: Mapping[str, Any]) -> dict[str, str]:
    rules: Mapping[str, str] = described.get("rules", {})
    if described["kind"] in PARTIAL_KINDS:
        return {rule: value for rule, value in rules.items() if rule in _NOT_AGGREGATES}
    variables = set(map(names.variable_rule, described["maps"])) - {of_map}
    return {rule: value for rule, value in rules.items() if rule not in variables}


def _is_variable(map_name: str) -> bool:
    return names.variable_name(map_name) != map_name


def _new_variables(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, str]:
    """Return the maps of new variables of a processor, with the rule of each. They start empty."""
    maps = (one for one in found["maps"] if one not in recorded["maps"] and _is_variable(one))
    return {one: names.variable_rule(one) for one in maps}


def accepted_changes(recorded: _Schemas, ours: _Schemas) -> dict[str, list[str]]:
    """Return in words, by operator, how the state that code declares differs from the recorded one."""
    found = {}
    for name, schema in ours.items():
        if name in recorded and (said := [_in_words(one) for one in compare_operator(name, recorded[name], schema)]):
            found[name] = said
    return found


def _in_words(one: Difference) -> str:
    if one.what == "input" and not one.before:
        return f"input of `{one.field}`: {one.after}, not recorded before"
    if one.what == "variable":
        return f"new variable `{one.field}`" if one.after else f"removed variable `{one.field}`"
    what = {"state": "column", "sub_key": "sub-key column", "key": "key column"}.get(one.what, one.what)
    if not one.after:
        return f"removed {what} `{one.field} {one.before}`"
    return (
        f"{what} `{one.field}`: {one.before} -> {one.after}" if one.before else f"new {what} `{one.field} {one.after}`"
    )
