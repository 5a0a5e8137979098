"""`fill`: publish, in a sink that was added later, rows of versions that did not have it, as far as outputs are kept.

A commit of kind `fill` adds the rows to the sink, so that every later correction knows what the sink shows. They are
those that another output of the same stream recorded: another sink, or the operator's own output while it had no sink.
INVARIANT: a version that a sink shows is not added again. CRASH: before the commit nothing changed, and what was stored
is garbage. After it, the next run or call publishes it, as any commit.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import field

from .. import names
from ..counts import versions_of
from ..errors import CorruptState, Fenced, InvalidInput
from ..pipeline.job import JobSink
from ..protocol.history import effective, shown_instead
from ..protocol.named import output_files
from ..protocol.records import AddedOutput, Commit, OutputFile, digest
from ..protocol.retained import is_kept
from ..repo.discard import discard_unless_named, discarded_if_full
from ..repo.opened import Opened
from ..schema import to_ddl
from ..sinks import asked, forms
from ..sinks.contract import Change
from ..values import dataclass
from .correct import correct
from .filled import added_later
from .owners import NOT_SHARED, described
from .works import place_of

LOG = logging.getLogger("tidemill")


@dataclass
class _Found:
    """What a sink lacks: by version the files that have its rows, and the versions that cannot be filled, by reason."""

    output: JobSink
    files: dict[int, list[OutputFile]] = field(default_factory=dict)
    refused: dict[str, list[int]] = field(default_factory=dict)


def fill(repo: Opened, head: Commit, since: int, only: str | None) -> list[int]:
    """Publish, in each sink or in `only`, what it lacks of versions from `since` on. Return the versions that it got.

    A function is called only if `only` names it. A warning names the versions that cannot be filled.
    """
    if not repo.publishes:
        return []
    found = [_lacking(repo, head, output, since) for output in _outputs(repo, only)]
    for one in found:
        for why, versions in one.refused.items():
            LOG.warning(
                "sink `%s` cannot be filled with %s: %s; `tidemill replay` makes these rows again, and a promotion of "
                "its branch publishes them", one.output.name, versions_of(versions), why,
            )  # fmt: skip
    todo = [one for one in found if one.files]
    if todo:
        _commit(repo, head, since, todo)
    return sorted({version for one in todo for version in one.files})


def _outputs(repo: Opened, only: str | None) -> Iterator[JobSink]:
    for output in repo.job.outputs.values():
        if output.sink is not None and (output.name == only if only or asked.is_called(output.sink) else True):
            yield output


def _lacking(repo: Opened, head: Commit, output: JobSink, since: int) -> _Found:
    """Return the versions that a sink lacks, as far as they have rows."""
    refs, forgot = repo.initialised(), repo.log.given_up_by(head) or 0
    found = _Found(output)
    for version in effective(head, since):
        commit = repo.log.commit(version)
        if _shows(repo, head, commit, output.name) or not _has_rows(commit):
            continue
        source = _source(repo, commit, output)
        if source is None:
            why = "no output of its stream was recorded with these columns"
            found.refused.setdefault(why, []).append(version)
            continue
        files = [file for file in itertools.chain(*output_files(commit, source)) if file.rows]
        if files and (version < forgot or not is_kept(refs, repo.version_of(version))):
            found.refused.setdefault(f"the outputs of `{source}` are no longer kept", []).append(version)
        elif files:
            found.files[version] = files
    return found


def _has_rows(commit: Commit) -> bool:
    """Whether a version made outputs at all. Most corrections did not, nor did what changed no operator."""
    return any(output_files(commit, name) for name in {*commit.outputs, *commit.adds})


def _shows(repo: Opened, head: Commit, commit: Commit, sink: str) -> bool:
    """Whether a sink shows a version: it had the sink, or a later commit has added it."""
    return (
        commit.sinks.get(sink, {}).get("kind") is not None or added_later(repo, head, sink, commit.version) is not None
    )


def _source(repo: Opened, commit: Commit, output: JobSink) -> str | None:
    """Return the recorded output of a version that has the rows of a sink: one of the same stream and columns."""
    job = repo.job
    beside = [one.name for one in job.outputs.values() if one.node == output.node]
    operator = [name for name, placed in job.operators.items() if placed.node == output.node]
    columns = to_ddl(output.schema)
    known = (name for name in dict.fromkeys((output.name, *beside, *operator)) if name in commit.sinks)
    return next((name for name in known if commit.sinks[name]["schema"] == columns), None)


def _commit(repo: Opened, head: Commit, since: int, todo: Sequence[_Found]) -> None:
    """Store what has another form in the sinks, and commit and publish all of it."""
    origin, attempt = repo.origin(head), uuid.uuid4().hex[:12]
    stored: list[str] = []
    adds: dict[str, list[AddedOutput]] = {}
    try:
        with discarded_if_full(repo.store, attempt):
            for one in todo:
                for version, files in one.files.items():
                    stem = names.again_stem(origin.number, attempt, len(stored), "fill")
                    formed = list(_formed(repo, one.output, files, stem))
                    stored += [file.name for file in formed]
                    adds.setdefault(one.output.name, []).append(AddedOutput(repo.branch, version, formed))
        sinks = {one.output.name: described(repo, head, one.output, NOT_SHARED) for one in todo}
        correct(repo, origin, "fill", {
            "attempt": attempt,
            "reason": f"fill {', '.join(f'`{name}`' for name in adds)} from version {since} on",
            "sinks": {**head.sinks, **sinks},
            "adds": adds,
            "shown_by": shown_instead(head, {one.output.name: one.files for one in todo}, origin.number),
        })  # fmt: skip
    except (InvalidInput, CorruptState, Fenced):  # of another error, the outcome may be unknown
        discard_unless_named(repo, origin.number, attempt, stored)
        raise


def _formed(repo: Opened, output: JobSink, files: Sequence[OutputFile], stem: str) -> Iterator[OutputFile]:
    """Yield files as the sink would have staged them. They are stored again only for a folder of another form."""
    sink = output.sink
    if sink is None or asked.sink_folder(sink) is None:
        yield from files
        return
    part = 0
    for file in files:
        rows = forms.rows_of_change(Change(0, output.schema, [(0, file)]), place_of(repo, output.name))
        made = sink.stage(rows)
        if [(one.suffix, one.extension, digest(one.data)) for one in made] == [
            (file.suffix, file.extension, file.checksum)
        ]:
            yield file
            continue
        for one in made:
            name = names.output(output.name, repo.branch, stem, 0, part, one.extension)
            etag = repo.store.put(name, one.data) or ""
            yield OutputFile(
                name, digest(one.data), len(one.data), one.rows, 0, file.lo, part, one.suffix, one.extension, etag
            )
            part += 1
