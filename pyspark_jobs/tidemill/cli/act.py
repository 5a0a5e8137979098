"""The command of an action, made from its fields. It says what will happen, asks, and does that or nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..actions.contract import Action, MadeBefore, Option, options_of
from ..actions.registry import FLAG_OF, action_of, flagged_in
from ..counts import count_of
from ..errors import Exit
from ..units import whole_number
from ..values import dataclass
from .correct import (
    Agreement,
    consent_options,
    expect_option,
    if_needed_option,
    no_consent_options,
    reported_before,
    unchanged,
)
from .options import VERSION, LocalPath, Target, pairs, point_in_time, reading_options, target_options
from .output import Output, json_line, output_options, result_file_option
from .progress import batch_progress, stepped
from .read import keys_of
from .run import result_fields

if TYPE_CHECKING:
    from ..repository import Repository


@dataclass(frozen=True)
class Listing:
    """What a command shows if one of its arguments is missing. That needs no code of the pipeline."""

    unless: str
    show: Callable[[Target, Output], int]


def _tags(target: Target, out: Output) -> int:
    for one in target.read().tags():
        out.line(json_line(dataclasses.asdict(one)) if out.json else f"{one.name}  {one.version}")
    return Exit.DONE


LISTS = {"tag": Listing("name", _tags)}
"""By command."""


def command_of(verb: str) -> click.Command:
    """Return the command of an action."""
    action, flagged = action_of(verb), flagged_in(verb)

    def do(
        target: Target, expect: str | None, consent: Agreement, out: Output, if_needed: bool = False, **given: Any
    ) -> int:
        if verb in LISTS and given[LISTS[verb].unless] is None:
            _refuse_options(verb, options_of(action), given, consent.dry_run, expect)
            return LISTS[verb].show(target, out)
        chosen = _chosen(action, flagged, given)
        repository = target.open()
        values = _Values(repository, given)
        fields = {name: values.value(name, option) for name, option, _ in options_of(chosen) if option.in_shell}
        return _act(values.shipping(), chosen(**fields), expect, consent, out, if_needed)

    made: Callable[..., Any] = do
    made.__doc__ = inspect.getdoc(action)
    made_if = ", or ".join([action.made_if, *(f"with {_flag('', one.flag)} if {one.made_if}" for one in flagged)])
    tries = (if_needed_option(made_if),) if action.knows_tries else ()
    consenting = consent_options if any(one.asks for one in (action, *flagged)) else no_consent_options
    for add in (output_options, result_file_option, consenting, expect_option, *tries):
        made = add(made)
    for name, option, default in reversed(_options_in_shell(action, flagged)):
        is_optional = verb in LISTS and LISTS[verb].unless == name
        made = _parameter(name, option, None if is_optional else default)(made)
    locating = reading_options if verb in LISTS else target_options
    return click.command(verb, short_help=action.short_help)(locating(made))


def _refuse_options(
    verb: str, options: Iterable[tuple[str, Option, Any]], given: Mapping[str, Any], dry_run: bool, expect: str | None
) -> None:
    """Raise `UsageError` for options of an action beside a missing argument, without which the command only lists."""
    missing = LISTS[verb].unless
    found = [
        _flag(name, option)
        for name, option, default in options
        if option.in_shell and name != missing and given[_parameter_name(name, option)] != default
    ]
    found += ["--dry-run"] if dry_run else []
    found += ["--expect"] if expect is not None else []
    if found:
        accepted = f"does not accept {' or '.join(found)}"
        raise click.UsageError(f"without {missing.upper()}, `{verb}` lists all, and {accepted}")


def _options_in_shell(action: type[Action], flagged: Sequence[type[Action]]) -> list[tuple[str, Option, Any]]:
    """Return the options of a command: those of its action, with the flags of others before the reason."""
    options = [one for one in options_of(action) if one[1].in_shell]
    at = next((at for at, (name, _, _) in enumerate(options) if name == "reason"), len(options))
    flags = [(one.flag.flag, one.flag, False) for one in flagged]
    return [*options[:at], *flags, *options[at:]]


def _chosen(action: type[Action], flagged: Sequence[type[Action]], given: Mapping[str, Any]) -> type[Action]:
    """Return the action whose flag is given, or that of the command. `UsageError` for options that do not fit."""
    for one in flagged:
        if not given[one.flag.flag]:
            continue
        fields = {name for name, _, _ in options_of(one)}
        unfit = [
            _flag(name, option)
            for name, option, default in options_of(action)
            if option.in_shell and name not in fields and given[_parameter_name(name, option)] != default
        ]
        if unfit:
            raise click.UsageError(f"{_flag('', one.flag)} does not accept {' or '.join(unfit)}")
        return one
    return action


def _parameter(name: str, option: Option, default: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    is_required = default is dataclasses.MISSING
    kinds = {"version": VERSION, "file": LocalPath(dir_okay=False), "seconds": click.FloatRange(min=0)}
    kind: click.ParamType[Any] | None = click.Choice(option.choices) if option.choices else kinds.get(option.parsed)
    if option.is_argument:
        return click.argument(_parameter_name(name, option), type=kind, required=is_required)
    if option.parsed == "flag":
        return click.option(_flag(name, option), name, is_flag=True, help=option.help)
    return click.option(
        _flag(name, option), name, type=kind, required=is_required, default=None if is_required else default,
        show_default=not is_required and bool(default), multiple=option.is_repeated, metavar=option.metavar or None,
        help=option.help,
    )  # fmt: skip


def _parameter_name(name: str, option: Option) -> str:
    """Return the name of a parameter. `--branch` is where a command acts, so an argument is called as in the help."""
    return option.metavar.lower() if option.is_argument and option.metavar else name


def _flag(name: str, option: Option) -> str:
    return f"--{option.flag or name.replace('_', '-')}"


class _Values:
    """The values of fields, given the texts of all options. Modules of functions go along to other machines."""

    def __init__(self, repository: Repository, given: Mapping[str, Any]) -> None:
        self.repository, self.given = repository, given
        self.modules: list[str] = []

    def value(self, name: str, option: Option) -> Any:
        """Return the value of a field."""
        given = self.given[_parameter_name(name, option)]
        if option.parsed == "function":
            return None if given is None else self._function(given)
        if option.parsed == "functions":
            return self._functions(given, _flag(name, option))
        if option.parsed == "rules":
            return _rules(given, _flag(name, option))
        if option.parsed == "counts":
            return _counts(given, _flag(name, option))
        if option.parsed == "pairs":
            return dict(pairs(given, _flag(name, option)))
        if option.parsed == "keys":
            return keys_of(self.repository, self.given["operator"], given) if given else ()
        if option.parsed == "lists":
            texts = pairs(given, _flag(name, option))
            return {key: [text for other, text in texts if other == key] for key, _ in texts}
        if option.parsed == "time":
            return None if given is None else point_in_time(given)
        if option.parsed != "times":
            return given
        if len(given) == 1 and "=" not in given[0]:
            return point_in_time(given[0])
        return {key: point_in_time(text) for key, text in pairs(given, _flag(name, option))} or None

    def _functions(self, references: Sequence[str], flag: str) -> dict[str, Any]:
        operators = self.given["operators"]
        if len(operators) != len(references):
            found = f"{count_of(len(operators), 'operator')} and {count_of(len(references), 'function')}"
            raise click.UsageError(f"expected one {flag} for each --operator, found {found}")
        return {name: self._function(one) for name, one in zip(operators, references, strict=True)}

    def _function(self, reference: str) -> Any:
        from ..pipeline.load import load_function

        found = load_function(reference)
        self.modules += found.modules
        return found.function

    def shipping(self) -> Repository:
        """Return the repository, with the modules that tasks on other machines need."""
        if not self.modules:
            return self.repository
        opened = self.repository.opened
        modules = tuple(dict.fromkeys((*opened.modules, *self.modules)))
        return type(self.repository)(dataclasses.replace(opened, modules=modules))


def _rules(texts: Sequence[str], flag: str) -> dict[str, str] | None:
    """Return texts by operator."""
    from ..protocol.retention import ALL_OPERATORS

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        key, rule = (name, value) if equals else (ALL_OPERATORS, text)
        if key in found:
            raise click.UsageError(f"{flag} is given twice for {'all operators' if key == ALL_OPERATORS else key}")
        found[key] = rule
    return found or None


def _counts(texts: Sequence[str], flag: str) -> dict[str, int] | None:
    """Return whole numbers by operator."""
    found = {}
    for name, text in (_rules(texts, flag) or {}).items():
        number = whole_number(text)
        if number is None or number < 1:
            raise click.UsageError(f"{flag} expects a whole number of at least 1, found `{text}`")
        found[name] = number
    return found or None


def _act(
    repository: Repository, action: Action, expect: str | None, consent: Agreement, out: Output, if_needed: bool
) -> int:
    from ..actions.carry_out import after_what_precedes, unless_made

    repo = repository.opened

    def do(action: Action) -> int:
        return _looked_and_done(repository, action, expect, consent, out)

    def make() -> int:
        return after_what_precedes(repo, action, expect, lambda doing: batch_progress(out, doing, "left"), do)

    def found(before: MadeBefore) -> int:
        return reported_before(_command(action), before.versions, repository, out, before.words, before.fields)

    if consent.dry_run:
        before = action.made_before(repo) if if_needed else None
        return do(action) if before is None else found(before)
    return unless_made(repo, action, make, found) if if_needed else make()


def _command(action: Action) -> str:
    """Return the name of the command that carries out an action."""
    return FLAG_OF.get(action.verb, action.verb)


def _looked_and_done(
    repository: Repository, action: Action, expect: str | None, consent: Agreement, out: Output
) -> int:
    from ..actions.carry_out import carry_out, look
    from ..protocol.records import Commit

    repo = repository.opened
    plan = look(repo, action, expect)
    if consent.dry_run or action.asks_about(plan):
        lines = plan.lines() + (plan.details() if consent.dry_run else [])
        if not consent.given(lines, out):
            return unchanged(_command(action), repository, consent, out, plan.as_dict())
    with _showing(action, out) as shown:
        done = carry_out(repo, shown, plan, None if consent.asks else plan)
    versions = [done.made.version] if isinstance(done.made, Commit) else []
    status = Exit.NOTHING if action.did_nothing(done.plan) else Exit.DONE
    fields = {
        **result_fields(_command(action), status, repository),
        "versions": versions,
        **action.fields(done.plan, done.made),
    }
    out.result(fields, [action.done(done.plan, done.made)])
    return status


@contextlib.contextmanager
def _showing(action: Action, out: Output) -> Iterator[Action]:
    """Yield an action with a bar, if it tells its progress."""
    field = next((name for name, option, _ in options_of(type(action)) if option.parsed == "progress"), None)
    if field is None:
        yield action
        return
    with stepped(out) as on_progress:
        yield dataclasses.replace(action, **{field: on_progress})
