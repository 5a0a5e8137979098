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
        options = {name: option for name, option, _ in options_of(action)}
        fields = {name: _parsed(options[name], value) for name, value in given.items()}
        return _act(target.open(), action(**fields), if_needed, expect, consent, out)

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
        flag, name, type=kind, required=is_required, multiple=option.is_repeated, metavar=option.metavar or None,
        help=option.help,
    )  # fmt: skip


def _parsed(option: Option, value: Any) -> Any:
    """Return the value of a field, given the text of its option."""
    if option.parsed == "time":
        return None if value is None else point_in_time(value)
    if option.parsed != "times":
        return value
    if len(value) == 1 and "=" not in value[0]:
        return point_in_time(value[0])
    return {name: point_in_time(text) for name, text in pairs(value, f"--{option.flag or 'watermark'}")} or None


def _act(
    repository: Repository, action: Action, if_needed: bool, expect: str | None, consent: Consent, out: Output
) -> int:
    from ..actions.carry_out import carry_out, look, made_before, refuse_unexpected

    context = repository.context
    before = made_before(context, action) if if_needed else []
    if before:
        return reported_before(action.verb, [one.version for one in before], repository, out)
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
