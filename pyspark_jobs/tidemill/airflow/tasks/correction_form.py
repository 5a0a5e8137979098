"""A correction as a form: the fields that belong to it, what is wrong with them, and its page in Airflow. Pure.

INVARIANT: a field that is filled in is used or refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...actions.contract import options_of
from ...actions.registry import ACTIONS
from ..calls.checks import is_absent, is_true

_OF_BASES = ("reason", "engine")
"""Arguments that the base classes of operators have."""
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    verb: tuple(
        given
        for name, option, _ in options_of(action)
        if (given := option.name_in_airflow(name)) and name not in _OF_BASES
    )
    for verb, action in ACTIONS.items()
    if action.operator_base
}
"""By action: the arguments of its operator, without those of its base class."""
_CORRECTIONS = {verb: action for verb, action in ACTIONS.items() if action.is_correction()}
FIELDS: Mapping[str, tuple[str, ...]] = {
    verb: tuple(name for name, option, _ in options_of(action) if option.form) for verb, action in _CORRECTIONS.items()
}
"""By correction: the fields of the form that it uses."""
_NEEDED = {
    verb: tuple(name for name, option, _ in options_of(action) if option.is_needed)
    for verb, action in _CORRECTIONS.items()
}
"""By correction: the fields of which one must be filled in."""


def helps() -> dict[str, tuple[str, bool]]:
    """Return what a form says of each field, and whether it has a line for each value."""
    found: dict[str, tuple[list[str], str, bool]] = {}
    for verb, action in _CORRECTIONS.items():
        for name, option, _ in options_of(action):
            if option.form:
                found.setdefault(name, ([], option.form, option.is_line_each))[0].append(verb)
    return {name: (f"{', '.join(verbs)}: {form}", each) for name, (verbs, form, each) in found.items()}


def command_line(verb: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the options and arguments of a command, given the values of its action's arguments.

    >>> command_line("rewind", {"to_version": 3, "without": "a.csv", "source": None})
    ({'to': 3, 'without': ['a.csv'], 'source': None}, [])
    """
    options: dict[str, Any] = {}
    arguments: list[str] = []
    for name, option, _ in options_of(ACTIONS[verb]):
        given = option.name_in_airflow(name)
        if given not in values:
            continue
        value = lines_of(values[given]) if option.is_line_each else values[given]
        value = is_true(given, value) if option.parsed == "flag" else value
        if option.is_argument:
            arguments += [] if value is None else [str(value)]
        else:
            options[option.flag or name] = value
    return options, arguments


def options_with_values(verb: str) -> frozenset[str]:
    """Return the options of a command that take a value.

    >>> sorted(options_with_values("rewind"))
    ['source', 'to', 'without']
    """
    return frozenset(
        option.flag or name
        for name, option, _ in options_of(ACTIONS[verb])
        if option.parsed != "flag" and option.in_shell and not option.is_argument and name not in _OF_BASES
    )


def fault_of(correction: str, values: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a form, or None.

    >>> fault_of("skip", {"file": None, "source": None})
    'skip needs `file`'
    >>> fault_of("replan", {"file": "a.csv"})
    '`file` is not a field of replan, but of skip'
    """
    if correction not in FIELDS:
        return f"unknown correction `{correction}`: expected one of {', '.join(FIELDS)}"
    filled = [name for name, value in values.items() if not is_absent(value)]
    for name in filled:
        if name not in FIELDS[correction]:
            theirs = [one for one, names in FIELDS.items() if name in names]
            return f"`{name}` is not a field of {correction}, but of {' and '.join(theirs)}"
    needed = _NEEDED[correction]
    if needed and not set(needed) & set(filled):
        return f"{correction} needs {' or '.join(f'`{name}`' for name in needed)}"
    return None


def correction_markdown(correction: str, result: Mapping[str, Any]) -> str:
    """Return what a correction does as a page: its lines as they are, so that names in them add no markup."""
    lines = [str(line).replace("```", "'''") for line in result.get("changes") or ()]
    return "\n".join([f"`{correction}` after version {result.get('head')}:", "", "```text", *lines, "```"])


def lines_of(files: str | Sequence[str] | None) -> list[str]:
    """Return the files of a list, or of text with one file a line.

    >>> lines_of("a.csv\\n b.csv \\n"), lines_of(["a.csv"]), lines_of("None")
    (['a.csv', 'b.csv'], ['a.csv'], [])
    """
    given = files.splitlines() if isinstance(files, str) else [str(file) for file in files or ()]
    return [file.strip() for file in given if file.strip() not in ("", "None")]
