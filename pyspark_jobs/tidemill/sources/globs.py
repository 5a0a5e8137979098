"""Globs in Hadoop's form, as Spark's `pathGlobFilter` has them: `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, and `\\` to escape.

INVARIANT: an unclosed bracket or brace is an error, never a character of the name.
"""

from __future__ import annotations

import functools
import re

from ..errors import InvalidInput


def check_glob(pattern: str) -> None:
    """Raise `InvalidInput` if a glob is not valid, or names folders; the message says what is not closed."""
    if "/" in pattern:
        raise InvalidInput("a glob matches names of files, which have no `/`", hint="give the folder as the path")
    _regex(pattern)


def matches(file: str, pattern: str) -> bool:
    """Return whether a file name matches a glob. One that is not valid, which an old commit may have, matches none."""
    try:
        return _regex(pattern).fullmatch(file) is not None
    except InvalidInput:
        return False


@functools.lru_cache(maxsize=64)
def _regex(glob: str) -> re.Pattern[str]:
    made: list[str] = []
    opened: list[int] = []
    position = 0
    while position < len(glob):
        character = glob[position]
        if character == "[":
            text, position = _class(glob, position)
            made.append(text)
            continue
        if character == "\\":
            made.append(re.escape(_escaped(glob, position)))
            position += 2
            continue
        if character == "{":
            opened.append(position)
            made.append("(?:")
        elif character == "}" and opened:
            opened.pop()
            made.append(")")
        elif character == "," and opened:
            made.append("|")
        else:
            made.append({"*": ".*", "?": "."}.get(character) or re.escape(character))
        position += 1
    if opened:
        raise _unclosed("{", opened[-1])
    return re.compile("".join(made), re.DOTALL)


def _class(glob: str, start: int) -> tuple[str, int]:
    """Return a regular expression for the class that begins at `start`, and the position after it."""
    position = start + 1
    negated = glob[position : position + 1] in ("^", "!")
    position += negated
    members: list[str] = []
    while position < len(glob) and (glob[position] != "]" or not members):
        first, position = _member(glob, position)
        last = first
        if glob[position : position + 1] == "-" and glob[position + 1 : position + 2] not in ("", "]"):
            last, position = _member(glob, position + 1)
        if first > last:
            raise InvalidInput(f"the range `{first}-{last}` is reversed", hint=f"write `{last}-{first}`")
        members.append(f"{re.escape(first)}-{re.escape(last)}")
    if position >= len(glob):
        raise _unclosed("[", start)
    return f"[{'^' if negated else ''}{''.join(members)}]", position + 1


def _member(glob: str, position: int) -> tuple[str, int]:
    if glob[position] == "\\":
        return _escaped(glob, position), position + 2
    return glob[position], position + 1


def _escaped(glob: str, position: int) -> str:
    if position + 1 == len(glob):
        raise InvalidInput("the backslash at the end escapes nothing", hint=r"write `\\` for a backslash")
    return glob[position + 1]


def _unclosed(character: str, position: int) -> InvalidInput:
    return InvalidInput(
        f"the `{character}` at character {position + 1} is not closed",
        hint=rf"close it, or write `\{character}` for the character itself",
    )
