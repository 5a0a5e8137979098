"""Pages of the site that are not in docs/, and links to them.

On a code host a page links to any file of the repository, such as `../examples/visits.py`. The site has these files as
pages below `source/`: Markdown as it is, everything else as one block of code. What they link to follows.

INVARIANT: a link to a file that does not exist is a warning, which `mkdocs build --strict` turns into a failure.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

log = logging.getLogger("mkdocs.hooks.beyond_docs")

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")
_LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".yml": "yaml", ".json": "json", ".java": "java"}


def rewritten(markdown: str, change: Callable[[str], str]) -> str:
    """The page with each relative target of a link changed; blocks of code stay as they are."""
    lines, fence = markdown.split("\n"), ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = mark[1] if not fence else ("" if line.strip().startswith(fence) else fence)
        elif not fence:
            lines[number] = _LINK.sub(lambda found: change(found[1]), line)
    return "\n".join(lines)


def targets(markdown: str) -> list[str]:
    """The relative targets of the page's links."""
    found: list[str] = []

    def keep(target: str) -> str:
        found.append(target)
        return target

    rewritten(markdown, keep)
    return found


class Sources:
    """The files of the repository that are pages of the site beside docs/."""

    def __init__(self, root: Path, docs: str) -> None:
        self.root = root
        self.docs = docs

    def file(self, page: str, target: str) -> str | None:
        """The file that a link leads to, as a path in the repository; None if it is in docs/ or does not exist."""
        path = self.path(page, target)
        if path.startswith(f"{self.docs}/"):
            return None
        return path if not path.startswith("..") and (self.root / path).is_file() else None

    def path(self, page: str, target: str) -> str:
        """The path in the repository that a link leads to; a folder is its README.md."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        return posixpath.join(path, "README.md") if (self.root / path).is_dir() else path

    def link(self, page: str, target: str) -> str:
        """The link from the page's place in the site to where the site has the target."""
        file = self.file(page, target)
        path = self.path(page, target)
        if file is not None:
            path = uri(file)
        elif path.startswith(f"{self.docs}/"):
            path = path.removeprefix(f"{self.docs}/")
        else:
            log.warning("`%s` links to `%s`, which is not a file of the repository", page, target)
            return target
        here = page.removeprefix(f"{self.docs}/") if page.startswith(f"{self.docs}/") else uri(page)
        return posixpath.relpath(path, posixpath.dirname(here) or ".")

    def text(self, file: str) -> str:
        """The file as a page of the site."""
        text = (self.root / file).read_text("utf-8")
        if file.endswith(".md"):
            return rewritten(text, lambda target: self.link(file, target))
        fence = "`" * 8
        return f"# {file}\n\n{fence}{_LANGUAGES.get(Path(file).suffix, 'text')}\n{text}\n{fence}\n"


def uri(file: str) -> str:
    """Where the site has a file of the repository."""
    return f"source/{file}" if file.endswith(".md") else f"source/{file}.md"


def on_config(config: Any) -> Any:
    """Expand entries of the navigation that name a folder: they list its pages by name."""
    docs = Path(config.docs_dir)

    def expanded(entry: Any) -> Any:
        if isinstance(entry, list):
            return [expanded(one) for one in entry]
        if isinstance(entry, dict):
            return {title: expanded(below) for title, below in entry.items()}
        if entry.endswith("/"):
            return sorted(path.relative_to(docs).as_posix() for path in (docs / entry).glob("*.md"))
        return entry

    config.nav = expanded(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside of docs/ that the navigation names and pages link to, and those that these link to."""
    sources = _sources(config)
    listed = set(_listed(config.nav))
    waiting, seen = [entry.removeprefix("source/") for entry in listed if entry.startswith("source/")], set()
    for file in files.documentation_pages():
        page = f"{sources.docs}/{file.src_uri}"
        waiting += [found for target in targets(file.content_string) if (found := sources.file(page, target))]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        level = InclusionLevel.INCLUDED if uri(file) in listed else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri(file), content=sources.text(file), inclusion=level))
        if file.endswith(".md"):
            text = (sources.root / file).read_text("utf-8")
            waiting += [found for target in targets(text) if (found := sources.file(file, target))]
    return files


def _listed(entry: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from _listed(below)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Lead links that leave docs/ to the pages below `source/`."""
    if page.file.generated_by:
        return markdown
    sources = _sources(config)
    name = f"{sources.docs}/{page.file.src_uri}"
    return rewritten(
        markdown, lambda target: sources.link(name, target) if _leads_on(sources, name, target) else target
    )


def _leads_on(sources: Sources, page: str, target: str) -> bool:
    """Whether MkDocs cannot follow the link by itself: it leaves docs/, or names a folder."""
    return sources.file(page, target) is not None or target.endswith("/")


def _sources(config: Any) -> Sources:
    root = Path(config.config_file_path).parent
    return Sources(root, os.path.relpath(config.docs_dir, root))
