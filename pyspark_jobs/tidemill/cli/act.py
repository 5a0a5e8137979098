"""The command of an action, made from its fields. It says what will happen, asks, and does that or nothing."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..actions.contract import Action, Option, options_of
from ..actions.registry import ACTIONS
from .correct import Consent, consent_options, expect_option, if_needed_option, reported_before, unchanged
from .exits import Exit
from .options import VERSION, Target, pairs, point_in_time, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..repository import Repository


def command_of(verb: str) -> click.Command:
    """Return the command of an action."""
    action = ACTIONS[verb]

    def do(
        target: Target, expect: str | None, consent: Consent, out: Output, if_needed: bool = False, **given: Any
    ) -> int:
        repository = target.open()
        fields = {name: _parsed(name, option, given[name]) for name, option, _ in options_of(action)}
        return _act(repository, action(**fields), expect, consent, out, if_needed)

    made: Callable[..., Any] = do
    made.__doc__ = inspect.getdoc(action)
    tries = (if_needed_option,) if action.knows_tries else ()
    for add in (output_options, result_file_option, consent_options, expect_option, *tries):
        made = add(made)
    for name, option, default in reversed(list(options_of(action))):
        made = _parameter(name, option, default)(made)
    return click.command(verb, short_help=action.short_help)(target_options(made))


def _parameter(name: str, option: Option, default: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    is_required = default is dataclasses.MISSING
    kinds = {"version": VERSION, "file": click.Path(dir_okay=False)}
    kind: click.ParamType[Any] | None = kinds.get(option.parsed)
    if option.is_argument:
        return click.argument(name, metavar=option.metavar or None, type=kind, required=is_required)
    flag = f"--{option.flag or name.replace('_', '-')}"
    if option.parsed == "flag":
        return click.option(flag, name, is_flag=True, help=option.help)
    return click.option(
        flag, name, type=kind, required=is_required, default=None if is_required else default,
        multiple=option.is_repeated, metavar=option.metavar or None, help=option.help,
    )  # fmt: skip


def _parsed(name: str, option: Option, value: Any) -> Any:
    """Return the value of a field, given the text of its option."""
    if option.parsed == "time":
        return None if value is None else point_in_time(value)
    if option.parsed != "times":
        return value
    if len(value) == 1 and "=" not in value[0]:
        return point_in_time(value[0])
    return {key: point_in_time(text) for key, text in pairs(value, f"--{option.flag or name}")} or None


def _act(
    repository: Repository, action: Action, expect: str | None, consent: Consent, out: Output, if_needed: bool
) -> int:
    from ..actions.carry_out import carry_out, look, made_before
    from ..protocol.records import Commit

    context = repository.context
    before = made_before(context, action) if if_needed and not consent.dry_run else []
    if before:
        return reported_before(action.verb, [one.version for one in before], repository, out)
    plan = look(context, action, expect)
    if not consent.given(plan.lines(), out):
        return unchanged(action.verb, repository, consent, out, plan.as_dict())
    done = carry_out(context, action, plan, None if consent.asks else plan)
    versions = [done.made.version] if isinstance(done.made, Commit) else []
    fields = {**result_fields(action.verb, Exit.DONE, repository), "versions": versions, **done.plan.as_dict()}
    out.result(fields, [action.done(done.plan, done.made)])
    return Exit.DONE
