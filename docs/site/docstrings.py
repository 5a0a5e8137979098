"""Docstrings as the site shows them: examples at the prompt `>>>` become blocks of Python.

Markdown would take `>>>` for quotations. A block keeps its lines as they are, prompts included.
"""

from __future__ import annotations

from typing import Any

import griffe


def with_blocks(text: str) -> str:
    """The text with fences around each example: from `>>>` to the next empty line."""
    lines: list[str] = []
    inside = False
    for line in [*text.split("\n"), ""]:
        if not inside and line.lstrip().startswith(">>> "):
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line.strip() if inside and line.lstrip().startswith((">>> ", "... ")) else line)
    return "\n".join(lines).strip()


class Docstrings(griffe.Extension):
    """Puts examples into blocks when griffe has read an object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = with_blocks(obj.docstring.value)
