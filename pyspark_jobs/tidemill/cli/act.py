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

    def act(target: Target, if_needed: bool, expect: str | None, consent: Consent, out: Output, **given: Any) -> int:
        repository = target.open()
        before = _made_before(repository, action, given["reason"]) if if_needed and not consent.dry_run else []
        if before:
            return reported_before(verb, before, repository, out)
        fields = {name: _parsed(name, option, given[name]) for name, option, _ in options_of(action)}
        return _act(repository, action(**fields), expect, consent, out)

    made: Callable[..., Any] = act
    made.__doc__ = inspect.getdoc(action)
    for add in (output_options, result_file_option, consent_options, expect_option, if_needed_option):
        made = add(made)
    for name, option, default in reversed(list(options_of(action))):
        made = _parameter(name, option, default)(made)
    return click.command(verb, short_help=action.short_help)(target_options(made))


def _parameter(name: str, option: Option, default: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    is_required = default is dataclasses.MISSING
    if option.is_argument:
        return click.argument(name, metavar=option.metavar)
    kind = VERSION if option.parsed == "version" else None
    flag = f"--{option.flag or name.replace('_', '-')}"
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


def _made_before(repository: Repository, action: type[Action], reason: str) -> list[int]:
    from ..actions.carry_out import made_before

    return [one.version for one in made_before(repository.context, action.kind, reason)]


def _act(repository: Repository, action: Action, expect: str | None, consent: Consent, out: Output) -> int:
    from ..actions.carry_out import carry_out, look, refuse_unexpected

    context = repository.context
    plan = look(context, action)
    if expect is not None:
        refuse_unexpected(action, expect, plan)
    if not consent.given(plan.lines(), out):
        return unchanged(action.verb, repository, consent, out, plan.as_dict())
    done = carry_out(context, action, plan)
    out.result(
        {
            **result_fields(action.verb, Exit.DONE, repository),
            "versions": [done.commit.version],
            **done.plan.as_dict(),
        },
        [action.done(done.plan, done.commit)],
    )
    return Exit.DONE
