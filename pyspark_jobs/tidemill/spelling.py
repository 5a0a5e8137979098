"""Errors for unknown names: they suggest the nearest known name.

Pure text. Every place that looks up a name a user wrote raises its error through `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import InvalidInput


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `word`, ignoring case, or None if nothing is similar."""
    by_lower = {choice.lower(): choice for choice in choices}
    import difflib

    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def unknown(what: str, word: str, choices: Iterable[str], place: str = "") -> InvalidInput:
    """Return the error for a name that is not in `choices`. It suggests the nearest choice, or lists them all.

    `what` is the kind of name (`operator`). `place` is appended to the name: ` in the environment`.
    """
    known = sorted(choices)
    near = nearest(word, known)
    return InvalidInput(
        f"unknown {what} `{word}`{place}" + (f"; did you mean `{near}`?" if near else ""),
        hint=f"known: {', '.join(known)}" if known and not near else None,
    )
