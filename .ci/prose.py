"""Reject phrases that make a reader stop: private words, inverted clauses, pronouns without a noun.

`make lint` runs it over every Python, Rust and Markdown file that git tracks. The words that the project uses instead
are listed in docs/concepts.md. A line that must quote a phrase ends with the comment `prose: quoted`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".py", ".pyi", ".rs", ".md")
# Recorded data never changes, and this file lists the phrases.
EXEMPT = ("tests/oracle/outputs/", ".ci/prose.py", "LICENSE")
QUOTED = "prose: quoted"

_PLACE = "(in|on|at|below|above|under|beside|behind|where|there|here|outside|within|between)"
_START = r"(?:^|^[^#]*[.!?] |// |/// |//! |[^#\n]# |\"\"\")"
_VERB = "(?:is|are|was|were|has|have|had|may|must|can|cannot|does|do|goes|comes|needs|makes|gives|takes)"

# What not to write, and what to write instead.
PHRASES = {
    r"\btold\b": "report, say, name",
    r"\bput(s|ting)? (\w+ )?aside\b|\bset apart\b": "quarantine",
    r"\b(go|goes|going|gone|went) on with\b": "resume, continue",
    r"\b(is|are) at it\b": "in progress",
    rf"\b(lies|lie) {_PLACE}\b": "is stored in, is in",
    r"\b(let|lets|letting) go of\b|\b(is|are) let go\b": "discard, release",
    r"(?<!lock )(?<!name )(?<!sample )\b(is|are|was|were) taken\b": "is read, is used, is accepted",
    r"\b(some|no|every)body\b": "say who: another run, you, no caller",
    r"(?<!there )\b(is|are) none\b": "is empty, is invalid, is missing",
    r"(?<!there )\bis one[.,;:)]": "repeat the noun",
    r"\bof (theirs|ours)\b|\bthe former\b|\bthe latter\b": "repeat the noun",
    r"\banew\b": "again",
    r"\bmend(s|ed|ing)?\b": "repair, fix",
    r"\b(its|their) (kin|like)\b": "similar",
    r"\bheld against\b": "compare with",
    r"\bby chance\b": "random",
    r"\bunasked\b|\bwhatever has\b": "say the condition",
    r"\bgiv(e|es|ing|en) up (a |the |its )?(plan|batch)": "abandon the plan",
    rf"{_START}(?:Who|What) {_VERB}\b[^?]*$": "begin with the subject, not with who or what",
}
_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in PHRASES.items()]
# What not to write in names. Names are split at `_` and at capitals.
_NAMES = {
    r"\b(told|tells?)\b": "report, say, name",
    r"\bput aside\b|\bset apart\b": "quarantine",
    r"\banew\b": "again",
    r"\b(no|some)body\b": "say who: another run, you, no caller",
    r"\b(lies|lie) in\b": "is stored in, is in",
    r"\blet go\b": "discard, release",
}
_NAME_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in _NAMES.items()]
_DEFINITION = re.compile(r"\b(?:def|fn|class)\s+(\w+)")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMENT = re.compile(r"\s*(?:#+|//[/!]?)(?=\s|$)\s*")


def findings(name: str, text: str) -> list[str]:
    """Return one line for every phrase in a file: place, phrase, and what to write instead."""
    lines = [(line, _COMMENT.sub("", line, count=1).strip()) for line in text.splitlines()]
    found = []
    for number, (line, prose) in enumerate(lines, 1):
        after, next_prose = lines[number] if number < len(lines) else ("", "")
        if QUOTED in line:
            continue
        found += [(number, phrase, instead) for phrase, instead in _in_line(line)]
        if prose and next_prose and QUOTED not in after and _is_comment(line) == _is_comment(after):
            found += [(number, phrase, instead) for phrase, instead in _across(prose, next_prose)]
    return [f"{name}:{number}: `{phrase.strip()}`: {instead}" for number, phrase, instead in found]


def _in_line(line: str) -> Iterator[tuple[str, str]]:
    """Yield the phrases of one line, also in the names that it defines, and what to write instead."""
    for pattern, instead in _PATTERNS:
        if match := pattern.search(line):
            yield match.group(), instead
    for definition in _DEFINITION.finditer(line):
        words = _CAPITAL.sub("_", definition.group(1)).lower().replace("_", " ")
        for pattern, instead in _NAME_PATTERNS:
            if pattern.search(words):
                yield definition.group(1), instead


def _across(prose: str, next_prose: str) -> Iterator[tuple[str, str]]:
    """Yield the phrases that begin in one line of prose and end in the next one, and what to write instead."""
    joined = f"{prose} {next_prose}"
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(joined):
            if match.start() < len(prose) and match.end() > len(prose) + 1 and not pattern.search(prose):
                yield match.group(), instead


def _is_comment(line: str) -> bool:
    return _COMMENT.match(line) is not None


def main(arguments: list[str]) -> int:
    """Check the files that are named, or all that git tracks; return 1 if a phrase was found."""
    listed = arguments or subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in listed if name.endswith(SUFFIXES) and not name.startswith(EXEMPT)]
    found = [line for name in names if Path(name).is_file() for line in findings(name, Path(name).read_text("utf-8"))]
    sys.stdout.writelines(line + "\n" for line in found)
    if found:
        sys.stdout.write(f"prose: {len(found)} phrases to rewrite in {len(names)} files\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
